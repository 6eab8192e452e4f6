#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace trnscout {

/// What a header says of one tensor, and where its bytes lie.
///
/// Units: shape in elements, also where an element is narrower than a byte;
///        offsets in bytes from the start of the shard's file.
struct TensorInfo {
  std::string name;
  std::string dtype;  ///< as the format spells it, for example "BF16"
  std::vector<std::int64_t> shape;
  std::uint32_t shard = 0;  ///< index into `Checkpoint::shards`
  std::int64_t begin_bytes = 0;
  std::int64_t end_bytes = 0;

  std::int64_t bytes() const { return end_bytes - begin_bytes; }
  friend bool operator==(const TensorInfo&, const TensorInfo&) = default;
};

/// One file of weights.
struct CheckpointShard {
  std::string file_name;            ///< as the index spells it
  std::filesystem::path path = {};  ///< empty where only the header is here
  std::int64_t bytes = 0;           ///< size of the file, header included
  std::int64_t modified_ns = 0;     ///< its last change; zero without a path

  friend bool operator==(const CheckpointShard&,
                         const CheckpointShard&) = default;
};

/// What a range request brings of a file of weights that is elsewhere.
struct ShardHeader {
  std::string file_name;        ///< as the index spells it
  std::int64_t file_bytes = 0;  ///< size of the whole file
  std::string first_bytes;      ///< its start, length and header at least
};

/// The tensors of a model's directory, by name, from the headers alone.
///
/// Reads `model.safetensors`, or the shards that `model.safetensors.index.json`
/// names; with both there the single file is taken, as Transformers does. A
/// header must keep to the format's specification, so a few files that the
/// reference library lets pass are refused: a tensor named twice, an unknown
/// key beside `dtype`, `shape` and `data_offsets`, blanks before the first `{`.
/// `__metadata__` may be absent, null, or an object of strings.
///
/// Source: huggingface/safetensors: README.md, "Format";
///         safetensors/src/tensor.rs of 0.8.0.
class Checkpoint {
 public:
  /// Longest header or index that is read: the reference library's own limit.
  static constexpr std::int64_t kMaxHeaderBytes = 100'000'000;

  /// Has no tensors and no shards.
  Checkpoint() = default;

  /// Opens the model in `dir` and checks every header against its file.
  ///
  /// A shard must lie in `dir` once links are followed. The one exception is a
  /// Hugging Face hub cache, whose `snapshots/REVISION` links into the `blobs`
  /// directory of the same repository.
  ///
  /// Errors: NotFound - `dir`, its weights, or shards that its index names are
  ///         missing.
  ///         InvalidArgument - `dir` is not a directory; a shard's name or link
  ///         leads out of it; a file is no regular file, not safetensors, cut,
  ///         damaged or past the limit; index and headers disagree on where a
  ///         tensor is, or the index leaves out shards of a numbered family.
  ///         What errno stands for - the system refuses to open or read a file.
  /// Cost:   reads headers, never weights; memory in proportion to headers.
  static absl::StatusOr<Checkpoint> open(const std::filesystem::path& dir);

  /// Does the same where the files are elsewhere and only their headers here.
  ///
  /// `index_json` is the text of `model.safetensors.index.json`, none where the
  /// weights are one file. Every check of `open` is made that needs no file.
  ///
  /// Errors: NotFound - no header is given for a shard that the index names.
  ///         InvalidArgument - a header is cut, damaged or does not fit its
  ///         file's size; one is given twice, or for no shard of the index; the
  ///         number of headers is not one and there is no index; index and
  ///         headers disagree as in `open`.
  static absl::StatusOr<Checkpoint> from_headers(
      const std::vector<ShardHeader>& headers,
      std::optional<absl::string_view> index_json = std::nullopt);

  /// Names the files that an index needs, sorted, once it has been checked: no
  /// name leads out of the directory, no family of shards has a gap.
  ///
  /// Errors: InvalidArgument - the text is no such index.
  static absl::StatusOr<std::vector<std::string>> shard_names(
      absl::string_view index_json);

  /// Every tensor, sorted by name.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }

  /// Finds a tensor, or null where no tensor has that name.
  ///
  /// Cost: O(log n) comparisons of names.
  const TensorInfo* find(absl::string_view name) const;

  /// Every file of weights, sorted by name.
  const std::vector<CheckpointShard>& shards() const { return shards_; }

  /// Bytes of all tensors, from the headers; the index's own sum is not used.
  std::int64_t total_bytes() const;

  /// What is odd but does no harm, a sentence each.
  const std::vector<std::string>& warnings() const { return warnings_; }

  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;

 private:
  Checkpoint(std::vector<TensorInfo> tensors,
             std::vector<CheckpointShard> shards,
             std::vector<std::string> warnings);

  std::vector<TensorInfo> tensors_;
  std::vector<CheckpointShard> shards_;
  std::vector<std::string> warnings_;
};

}  // namespace trnscout
