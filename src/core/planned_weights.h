#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "trnscout/model_config.h"
#include "trnscout/parallel_plan.h"

namespace trnscout {

/// A parameter with the bytes that it has on a core, whole. Its name and shape
/// belong to the parameters and the plan that it comes from.
struct CoreWeight {
  absl::string_view name;
  absl::Span<const std::int64_t> shape;
  std::int64_t bytes = 0;
  std::size_t tensors = 0;  ///< it is made of; 0 where there are no files
};

struct CoreWeights {
  std::vector<CoreWeight> weights;
  std::vector<std::string> notes;  ///< on what ties make of the checkpoint
};

/// Parameters alike in all but the numbers in their names: one a layer, say.
struct WeightGroup {
  std::string name;  ///< of the first of them
  std::vector<std::int64_t> shape;
  std::int64_t count = 0;
  /// Bytes of one of them on a core, whole.
  std::int64_t bytes = 0;
  std::size_t tensors = 0;  ///< it is made of; 0 where there are no files
};

/// What one rank holds of the weights. Units: bytes.
struct RankWeights {
  std::int64_t sharded_bytes = 0;
  std::int64_t replicated_bytes = 0;
  /// Of these, what one token of one sequence does not read: experts that the
  /// router does not pick, and rows of the input embedding.
  std::int64_t unread_bytes = 0;
};

/// Lists what a core keeps of the parameters, each with its bytes.
///
/// Where the config ties a pair that is there twice, one of them counts, unless
/// their shapes differ; where it ties nothing and the target is in no file, the
/// target counts all the same, since Transformers makes it. Both leave a note,
/// for headers have no values.
/// Errors: InvalidArgument - an element type has no bytes on a core.
///         OutOfRange - the bytes of a parameter pass 2^63 - 1.
absl::StatusOr<CoreWeights> weights_on_core(
    const ModelConfig& config, const ParallelPlan& plan,
    absl::Span<const ParameterInfo> parameters, std::int64_t dtype_bytes,
    absl::string_view neuron_core);

std::vector<WeightGroup> group_weights(absl::Span<const CoreWeight> weights);

/// A model's weights as the cores of one kind hold them in one dtype; what the
/// divisions of all questions about these are made of.
struct WeighedModel {
  CoreWeights weights;
  std::vector<WeightGroup> groups;
};

/// Of `held` bytes of a group, those that one token leaves alone.
std::int64_t unread_of(const ModelConfig& config, const WeightGroup& group,
                       std::int64_t held);

}  // namespace trnscout
