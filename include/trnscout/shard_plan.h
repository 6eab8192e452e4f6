#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "trnscout/model_config.h"
#include "trnscout/parallel_plan.h"
#include "trnscout/topology.h"
#include "trnscout/what_if.h"

namespace trnscout {

/// What one core's memory goes to, in a plan.
enum class PlanCategory : std::uint8_t {
  kShardedWeights,
  kReplicatedWeights,
  kCache,
  kActivations,
  kMicrocode,
  kScratchpad,
  kCollectives,
};
inline constexpr std::size_t kPlanCategories = 7;

/// Returns the category's name in records, for example "sharded_weights".
absl::string_view plan_category_name(PlanCategory category);

/// Whether a number follows from files and rules, or from a model of ours.
enum class Basis : std::uint8_t { kCounted, kEstimated };

/// One number of a plan, with where it comes from.
struct PlannedBytes {
  std::int64_t bytes = 0;
  Basis basis = Basis::kCounted;
  std::string formula;
};

/// One core's memory, for the rank that holds most.
struct CoreBytes {
  std::array<PlannedBytes, kPlanCategories> categories;

  const PlannedBytes& operator[](PlanCategory category) const {
    return categories[static_cast<std::size_t>(category)];
  }
  std::int64_t total() const;
};

/// A division of a model over cores.
struct Degrees {
  std::int32_t cores = 1;
  std::int32_t tp_degree = 1;
  std::int32_t ep_degree = 1;

  friend bool operator==(const Degrees&, const Degrees&) = default;
};

/// A division that does not work, and why in numbers.
struct RejectedDegrees {
  Degrees degrees;
  std::string reason;
};

/// The question.
struct PlanOptions {
  Topology topology;
  std::string dtype = "bfloat16";  ///< of weights that float, and of the cache
  std::int64_t batch = 1;
  std::int64_t max_length = 2048;  ///< tokens of a sequence, images apart
  std::int32_t max_cores = 16;
  WhatIf what_if;  ///< by default what unmodified Transformers does
};

/// The answer.
struct ShardPlan {
  bool fits = false;
  bool tight = false;  ///< fits, with less than a tenth of the core left
  std::string reason;  ///< why this count, or why none
  Degrees degrees;     ///< of the plan; of the last one tried if none fits
  std::int64_t core_limit_bytes = 0;
  CoreBytes bytes_per_core;
  std::vector<RejectedDegrees> rejected;
  /// Tokens that fit on `degrees`, over all sequences; 0 if none fits.
  std::int64_t largest_batch_x_length = 0;
  std::string instance;  ///< smallest that has the cores; empty if none fits
  /// Tokens a second that bandwidth allows to one sequence: an upper bound of a
  /// model of ours, never a measurement. 0 if none fits.
  double decode_tokens_per_second_bound = 0;
  std::vector<std::string> notes;
};

/// Finds the smallest number of cores that holds the model.
///
/// Degrees are those that `options.topology` allows, up to `max_cores`; each is
/// tried with tensor parallelism and, for mixtures, with experts divided as
/// well. The rules are those that unmodified Transformers meets, unless a
/// what-if option says otherwise.
///
/// Units:  bytes.
/// Errors: InvalidArgument - batch, length, cores or a degree of the topology
///         are not positive, dtype is not float32, float16 or bfloat16, there
///         are no parameters, or an element type has no bytes on a core.
///         OutOfRange - a sum passes 2^63 - 1.
/// Cost:   O(parameters * degrees); no weights are read.
absl::StatusOr<ShardPlan> plan_shards(
    const ModelConfig& config, const ParallelPlan& plan,
    absl::Span<const ParameterInfo> parameters, const PlanOptions& options);

/// What one rank holds of one parameter.
struct RankParameter {
  std::string name;
  ParameterShard shard;
  bool sharded = false;    ///< less than the whole, or another size
  std::int64_t bytes = 0;  ///< of the shard on a core
};

/// Lists what `rank` holds of the weights that `plan_shards` counts for the
/// same question, slice by slice. A tied weight is there once.
///
/// `degrees` has `cores` ranks, which is also the degree of the tensor plan, of
/// the experts, or of both; the other one is 1.
///
/// Errors: InvalidArgument - `degrees` is no such division, `rank` is outside
///         it, or `plan_shards` rejects it whatever the memory, with the reason
///         it gives. Any of `plan_shards`.
absl::StatusOr<std::vector<RankParameter>> rank_parameters(
    const ModelConfig& config, const ParallelPlan& plan,
    absl::Span<const ParameterInfo> parameters, const PlanOptions& options,
    const Degrees& degrees, std::int32_t rank);

}  // namespace trnscout
