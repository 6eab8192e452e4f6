#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "planned_weights.h"
#include "trnscout/model_config.h"
#include "trnscout/parallel_plan.h"
#include "trnscout/what_if.h"

namespace trnscout {

/// How one division lays out the weights: the plan of Transformers and what-if
/// options on top of it. All that weighs or lists shards goes through here.
struct WeightLayout {
  const ModelConfig& config;
  const ParallelPlan& plan;
  WhatIf what_if;
  ParallelMode mode = ParallelMode::kTensor;
  std::int32_t degree = 1;
  /// Cuts keys and values; less than `degree` where heads are replicated.
  std::int32_t kv_degree = 1;

  /// Cuts a parameter for one rank. What no rule cuts is whole on every rank.
  ///
  /// Errors: any of `shard_of`.
  absl::StatusOr<ParameterShard> shard(absl::string_view name,
                                       absl::Span<const std::int64_t> shape,
                                       std::int32_t rank) const;

  /// Says whether some key or value projection is cut so that each rank keeps
  /// the cache of its own heads.
  bool cuts_kv_heads(absl::Span<const WeightGroup> groups) const;

  /// Why loading fails though every dimension can be cut; empty if it does not.
  ///
  /// A packed weight that is one tensor of the checkpoint is read range by
  /// range, and the loader asks for the first of a rank that has none.
  /// Source: huggingface/transformers 5.24: distributed/sharding_utils.py,
  ///         `_slice_and_cat`; measured with four gloo ranks.
  std::string loading_problem(absl::Span<const WeightGroup> groups) const;

  /// What each what-if option that was asked for comes to.
  std::vector<std::string> notes(absl::Span<const WeightGroup> groups) const;
};

/// Adds up what rank 0 holds, which is the most that a rank holds: chunks are
/// ceil chunks, so later ranks have no more.
///
/// Errors: any of `shard_of`.
///         OutOfRange - a sum passes 2^63 - 1.
absl::StatusOr<RankWeights> weights_of_largest_rank(
    const WeightLayout& layout, absl::Span<const WeightGroup> groups);

/// Bytes of the shard of a parameter that takes `bytes` where it is whole.
std::int64_t bytes_of_shard(const ParameterShard& shard,
                            absl::Span<const std::int64_t> shape,
                            std::int64_t bytes);

}  // namespace trnscout
