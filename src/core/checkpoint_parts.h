#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "safetensors_header.h"
#include "shard_index.h"
#include "trnscout/checkpoint.h"

namespace trnscout {

/// What a checkpoint is made of, while it is put together.
struct CheckpointParts {
  std::vector<TensorInfo> tensors;
  std::vector<CheckpointShard> shards;
  std::vector<std::string> warnings;
  std::int64_t file_bytes = 0;

  /// Appends a file, which `shard` names, and the tensors of its header.
  ///
  /// Errors: InvalidArgument - the files have 2^63 bytes or more together.
  absl::Status add(CheckpointShard shard, SafetensorsHeader header);

  /// Compares with the index, whose shards were all added in its order: keeps
  /// one tensor a name, the one that the index places or the only one, and
  /// sorts by name. What is odd but does no harm goes into `warnings`.
  ///
  /// Errors: InvalidArgument - a header lacks a tensor that the index places
  ///         there, or two hold one that it does not name.
  absl::Status settle(const ShardIndex& index);
};

/// Spells how many shards of the index are missing and what is lost with them.
std::string missing_shards(const ShardIndex& index,
                           const std::vector<std::uint32_t>& missing);

/// Adds up the bytes of tensors.
std::int64_t sum_bytes(const std::vector<TensorInfo>& tensors);

}  // namespace trnscout
