#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trnscout/checkpoint.h"

namespace trnscout {

/// What is kept of an array in the metadata of a GGUF file.
struct GgufArray {
  std::string element_type;  ///< "STRING", "INT32", ..., also "ARRAY"
  std::uint64_t count = 0;

  friend bool operator==(const GgufArray&, const GgufArray&) = default;
};

/// A value of the metadata; every width of integer and float becomes one.
using GgufValue = std::variant<bool, std::uint64_t, std::int64_t, double,
                               std::string, GgufArray>;

/// Metadata and tensors of a GGUF file, from its header alone.
///
/// Tensors must lie behind each other, padded to the alignment, as ggml itself
/// demands; their order in the header is free. The shape of a `TensorInfo` has
/// the innermost dimension last, the reverse of the order in the file; `dtype`
/// is a name that `find_ggml_type` knows; `shard` is zero.
///
/// Source: ggml-org/ggml: docs/gguf.md; ggml-org/llama.cpp: ggml/src/gguf.cpp.
class GgufFile {
 public:
  /// Longest header that is read, and the most tensors and keys in it.
  static constexpr std::int64_t kMaxHeaderBytes = 100'000'000;
  static constexpr std::uint64_t kMaxTensors = 1'000'000;
  static constexpr std::uint64_t kMaxMetadataKeys = 100'000;

  using Metadata = std::map<std::string, GgufValue, std::less<>>;

  /// Opens the file at `path` and checks its header against its size.
  ///
  /// Errors: NotFound - no such file.
  ///         InvalidArgument - it is no regular file, not GGUF, cut, damaged or
  ///         past a limit; the message names the key or the tensor.
  ///         Unimplemented - a version other than 2 and 3, or big-endian.
  ///         What errno stands for - the system refuses to open or read it.
  /// Cost:   reads the header only; elements of arrays are passed over.
  static absl::StatusOr<GgufFile> open(const std::filesystem::path& path);

  std::uint32_t version() const { return version_; }

  /// Tensors begin at multiples of this, in bytes.
  std::int64_t alignment() const { return alignment_; }

  /// Size of the file, in bytes.
  std::int64_t file_bytes() const { return file_bytes_; }

  const Metadata& metadata() const { return metadata_; }

  /// Finds a value of the metadata, or null where there is no such key.
  const GgufValue* find_metadata(absl::string_view key) const;

  /// Every tensor, sorted by name; ranges from the start of the file.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }

  /// Finds a tensor, or null where no tensor has that name.
  const TensorInfo* find(absl::string_view name) const;

  /// Bytes of all tensors, without padding.
  std::int64_t total_bytes() const;

  /// What is odd but does no harm, a sentence each.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  GgufFile() = default;

  std::uint32_t version_ = 0;
  std::int64_t alignment_ = 0;
  std::int64_t file_bytes_ = 0;
  Metadata metadata_;
  std::vector<TensorInfo> tensors_;
  std::vector<std::string> warnings_;
};

}  // namespace trnscout
