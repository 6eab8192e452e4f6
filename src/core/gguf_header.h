#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "file_reader.h"
#include "trnscout/gguf.h"

namespace trnscout {

/// What stands in the header of a GGUF file, as it stands there.
struct GgufHeader {
  std::uint32_t version = 0;
  GgufFile::Metadata metadata;
  /// In the file's order, with ranges relative to the data: `end_bytes` follows
  /// from type and shape and cannot wrap.
  std::vector<TensorInfo> tensors;
  std::int64_t bytes = 0;  ///< without the padding that follows
};

/// Reads a header. Says nothing of whether tensors fit the file or each other.
///
/// Errors: as `GgufFile::open`.
absl::StatusOr<GgufHeader> read_gguf_header(FileReader& reader);

}  // namespace trnscout
