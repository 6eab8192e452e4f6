#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trnscout/checkpoint.h"
#include "trnscout/model_config.h"
#include "trnscout/parallel_plan.h"
#include "trnscout/shard_plan.h"

namespace trnscout {

/// A model that is asked many questions: what its load makes of the checkpoint,
/// and what a core holds of it, is found once and kept.
///
/// Threads: any number may ask at the same time. Copies share what they keep.
class PlannedModel {
 public:
  /// Takes parameters as they are, a bare config's for example.
  ///
  /// Errors: InvalidArgument - there are no parameters.
  static absl::StatusOr<PlannedModel> of_parameters(
      ModelConfig config, ParallelPlan plan,
      std::vector<ParameterInfo> parameters);

  /// Takes what the load makes of a checkpoint's tensors.
  ///
  /// Errors: any of `ParallelPlan::parameters_of` and of the above.
  static absl::StatusOr<PlannedModel> of_checkpoint(
      ModelConfig config, ParallelPlan plan, const Checkpoint& checkpoint);

  /// Finds the smallest number of cores, as `plan_shards` does; a note counts
  /// the checkpoint's tensors that are no parameters.
  ///
  /// Errors: any of `plan_shards`.
  /// Cost:   O(kinds of parameters * degrees); the first question of a dtype
  ///         and kind of core also takes O(parameters).
  absl::StatusOr<ShardPlan> plan(const PlanOptions& options) const;

  const ModelConfig& config() const;
  const ParallelPlan& parallel_plan() const;
  const std::vector<ParameterInfo>& parameters() const;

 private:
  struct State;
  explicit PlannedModel(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

}  // namespace trnscout
