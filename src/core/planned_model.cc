#include "trnscout/planned_model.h"

#include <cstdint>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "division.h"
#include "printable.h"

namespace trnscout {
namespace {

std::string left_out_note(const std::vector<std::string>& left_out) {
  return absl::StrCat(
      left_out.size(),
      " tensors of the checkpoint are no parameters of the model and do not "
      "count, ",
      printable(left_out.front()), " first");
}

}  // namespace

struct PlannedModel::State {
  ModelConfig config;
  ParallelPlan plan;
  std::vector<ParameterInfo> parameters;
  std::string left_out_note;

  absl::Mutex mutex;
  // By what decides the bytes on a core: of an element, and whether stored
  // formats are computed on.
  std::map<std::pair<std::int64_t, bool>, std::unique_ptr<const WeighedModel>>
      weighed ABSL_GUARDED_BY(mutex);

  // What is kept stays where it is, as long as the model.
  absl::StatusOr<const WeighedModel*> weigh(const PlanOptions& options,
                                            std::int64_t dtype_bytes) {
    const bool dequantized =
        config.quantization.dequantized_on(options.topology.neuron_core);
    const absl::MutexLock lock(&mutex);
    auto& kept = weighed[{dtype_bytes, dequantized}];
    if (kept == nullptr) {
      auto made = weigh_model(config, plan, parameters, options);
      if (!made.ok()) return made.status();
      kept = std::make_unique<const WeighedModel>(*std::move(made));
    }
    return kept.get();
  }
};

PlannedModel::PlannedModel(std::shared_ptr<State> state)
    : state_(std::move(state)) {}

absl::StatusOr<PlannedModel> PlannedModel::of_parameters(
    ModelConfig config, ParallelPlan plan,
    std::vector<ParameterInfo> parameters) {
  if (parameters.empty()) {
    return absl::InvalidArgumentError("plan: the model has no parameters");
  }
  auto state = std::make_shared<State>();
  state->config = std::move(config);
  state->plan = std::move(plan);
  state->parameters = std::move(parameters);
  return PlannedModel(std::move(state));
}

absl::StatusOr<PlannedModel> PlannedModel::of_checkpoint(
    ModelConfig config, ParallelPlan plan, const Checkpoint& checkpoint) {
  auto loaded = plan.parameters_of(checkpoint.tensors(), config);
  if (!loaded.ok()) return loaded.status();
  auto out = of_parameters(std::move(config), std::move(plan),
                           std::move(loaded->parameters));
  if (out.ok() && !loaded->left_out.empty()) {
    out->state_->left_out_note = left_out_note(loaded->left_out);
  }
  return out;
}

absl::StatusOr<ShardPlan> PlannedModel::plan(const PlanOptions& options) const {
  if (absl::Status status = check(options); !status.ok()) return status;
  const std::int64_t dtype_bytes = bytes_of_dtype(options.dtype).value();
  const auto weighed = state_->weigh(options, dtype_bytes);
  if (!weighed.ok()) return weighed.status();
  auto out =
      answer({state_->config, state_->plan, options, dtype_bytes, **weighed});
  if (out.ok() && !state_->left_out_note.empty()) {
    out->notes.push_back(state_->left_out_note);
  }
  return out;
}

const ModelConfig& PlannedModel::config() const { return state_->config; }

const ParallelPlan& PlannedModel::parallel_plan() const { return state_->plan; }

const std::vector<ParameterInfo>& PlannedModel::parameters() const {
  return state_->parameters;
}

}  // namespace trnscout
