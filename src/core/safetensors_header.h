#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trnscout/checkpoint.h"

namespace trnscout {

/// What the header of one safetensors file says.
struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  ///< sorted by name; `shard` is zero
  std::int64_t file_bytes = 0;
  std::int64_t modified_ns = 0;  ///< of the file; zero where there was none
};

/// Reads the header of the file at `path` and checks it against the file: each
/// tensor's shape and dtype give its range's size, and the ranges cover the
/// rest of the file without gap or overlap.
///
/// Errors: NotFound - no such file.
///         InvalidArgument - it is no regular file, another format (named where
///         it is known), cut, or its header is damaged.
///         What errno stands for - the system refuses to open or read it.
/// Cost:   reads the header only; O(n log n) for n tensors.
absl::StatusOr<SafetensorsHeader> read_safetensors_header(
    const std::filesystem::path& path);

/// Does the same from the first bytes of a file that is elsewhere: its length
/// and header, or all of it. More is not looked at.
///
/// Errors: InvalidArgument - as above; `first_bytes` end before the header
///         does, or are more than `file_bytes`.
absl::StatusOr<SafetensorsHeader> parse_safetensors_header(
    absl::string_view first_bytes, std::int64_t file_bytes);

}  // namespace trnscout
