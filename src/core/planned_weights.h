#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "trnscout/model_config.h"
#include "trnscout/parallel_plan.h"

namespace trnscout {

/// Parameters alike in all but the numbers in their names: one a layer, say.
struct WeightGroup {
  std::string name;  ///< of the first of them
  std::vector<std::int64_t> shape;
  std::int64_t count = 0;
  /// Bytes of one of them on a core, whole.
  std::int64_t bytes = 0;
};

/// What one rank holds of the weights. Units: bytes.
struct RankWeights {
  std::int64_t sharded_bytes = 0;
  std::int64_t replicated_bytes = 0;
  /// Of these, what one token of one sequence does not read: experts that the
  /// router does not pick, and rows of the input embedding.
  std::int64_t unread_bytes = 0;
};

/// Groups the parameters and gives them the bytes they have on a core.
///
/// A tied parameter is counted once: with its source there, the target goes.
/// Errors: InvalidArgument - an element type has no bytes on a core.
///         OutOfRange - a sum passes 2^63 - 1.
absl::StatusOr<std::vector<WeightGroup>> group_weights(
    const ModelConfig& config, const ParallelPlan& plan,
    absl::Span<const ParameterInfo> parameters, std::int64_t dtype_bytes,
    absl::string_view neuron_core);

/// Adds up what rank 0 holds, which is the most that a rank holds: Transformers
/// cuts into ceil chunks, so later ranks have no more.
///
/// `kv_degree` cuts keys and values where it is less than the tensor degree.
/// Errors: any of `shard_of`.
absl::StatusOr<RankWeights> weights_of_largest_rank(
    const ModelConfig& config, const ParallelPlan& plan,
    absl::Span<const WeightGroup> groups, ParallelMode mode,
    std::int32_t degree, std::int32_t kv_degree);

/// Says whether `name` is a key or value projection of the text model.
bool is_kv_projection(absl::string_view name);

/// Says whether some key or value projection is cut so that each rank keeps the
/// cache of its own heads.
bool shards_kv_heads(const ParallelPlan& plan,
                     absl::Span<const WeightGroup> groups, ParallelMode mode);

}  // namespace trnscout
