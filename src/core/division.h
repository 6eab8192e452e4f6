#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "planned_weights.h"
#include "trnscout/model_config.h"
#include "trnscout/parallel_plan.h"
#include "trnscout/shard_plan.h"
#include "weight_layout.h"

namespace trnscout {

/// What a plan is made of, read once for all degrees.
struct Question {
  const ModelConfig& config;
  const ParallelPlan& plan;
  const PlanOptions& options;
  std::int64_t dtype_bytes;
  const WeighedModel& model;

  const std::vector<WeightGroup>& groups() const { return model.groups; }
};

/// Checks the options of a question.
///
/// Errors: InvalidArgument - one is outside its limits.
absl::Status check(const PlanOptions& options);

/// Bytes of an element of `PlanOptions::dtype`.
///
/// Errors: InvalidArgument - it is not among those that a plan knows.
absl::StatusOr<std::int64_t> bytes_of_dtype(absl::string_view dtype);

/// Weighs the parameters for the cores and the dtype of a question.
///
/// Errors: InvalidArgument - an option is outside its limits, there are no
///         parameters, or an element type has no bytes on a core.
///         OutOfRange - the bytes of a parameter pass 2^63 - 1.
absl::StatusOr<WeighedModel> weigh_model(
    const ModelConfig& config, const ParallelPlan& plan,
    absl::Span<const ParameterInfo> parameters, const PlanOptions& options);

/// Answers a question whose options were checked.
///
/// Errors: OutOfRange - a sum passes 2^63 - 1.
absl::StatusOr<ShardPlan> answer(const Question& question);

/// One division of the model, ready to be weighed at any length; or, in words,
/// why there is none.
struct Division {
  Degrees degrees;
  WeightLayout layout;
  std::int32_t cache_degree = 1;  ///< that the heads of the cache are cut by
  ModelConfig cache;              ///< has the layers of one rank's cache alone
  RankWeights weights;
  std::string problem;
};

/// The modes in which a model can be divided; none is one core only.
std::vector<ParallelMode> modes_of(const Question& question);

/// The mode of a division; that of one core is `kTensor`.
ParallelMode mode_of(const Degrees& degrees);

/// Divides the model over `degree` ranks.
///
/// Errors: any of `shard_of`.
///         OutOfRange - a sum passes 2^63 - 1.
absl::StatusOr<Division> divide(const Question& question, ParallelMode mode,
                                std::int32_t degree);

/// Spells a division for a message.
std::string degrees_text(const Degrees& degrees);

/// Weighs what the fullest core holds with `length` tokens of each sequence.
///
/// Errors: any of `ModelConfig::kv_bytes`.
absl::StatusOr<CoreBytes> weigh(const Question& question,
                                const Division& division, std::int64_t length);

/// The total of `weigh` alone, many times as fast.
absl::StatusOr<std::int64_t> total_bytes(const Question& question,
                                         const Division& division,
                                         std::int64_t length);

/// Divides the heads of each layer's cache over `degree` ranks.
ModelConfig cache_of_one_rank(const ModelConfig& config, std::int32_t degree);

}  // namespace trnscout
