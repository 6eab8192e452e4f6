#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace trnscout {

/// What a `model.safetensors.index.json` says.
struct ShardIndex {
  struct Place {
    std::string tensor;
    std::uint32_t shard = 0;  ///< index into `shards`
  };

  std::vector<std::string> shards;           ///< sorted
  std::vector<Place> places;                 ///< sorted by tensor
  std::optional<std::uint64_t> total_bytes;  ///< `metadata.total_size`
  std::vector<std::string> warnings;
};

/// Reads and checks the index at `path`. Every name of a shard is a relative
/// path that cannot leave the directory by itself; links are not looked at.
///
/// Errors: NotFound - no such file.
///         InvalidArgument - the file is not regular or too long, not JSON, has
///         no `weight_map` of strings, names a tensor twice or a path that
///         leaves the directory, or leaves out shards of an "-of-N" family.
///         What errno stands for - the system refuses to open or read it.
absl::StatusOr<ShardIndex> read_shard_index(const std::filesystem::path& path);

/// Does the same with the text of an index.
///
/// Errors: InvalidArgument - as above.
absl::StatusOr<ShardIndex> parse_shard_index(absl::string_view text);

}  // namespace trnscout
