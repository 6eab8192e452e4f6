#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trnscout/checkpoint.h"

namespace trnscout {

/// Reads the JSON of a safetensors header: tensors sorted by name, with ranges
/// relative to the data that follows the header. Says nothing of whether dtype,
/// shape and range fit each other.
///
/// Errors: InvalidArgument - not JSON; not an object of objects with `dtype`,
///         `shape` and `data_offsets`, of the right types, and no other key; a
///         name that stands twice; a `__metadata__` that is neither null nor an
///         object of strings.
absl::StatusOr<std::vector<TensorInfo>> read_header_json(
    absl::string_view text);

}  // namespace trnscout
