#include "division.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace trnscout {
namespace {

absl::Status require_positive(const char* field, std::int64_t value) {
  if (value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("plan: %s is %d, must be positive", field, value));
}

// Why the heads cannot be divided by `degree`; empty if they can.
std::string head_problem(const Question& question, std::int32_t degree) {
  const ModelConfig& config = question.config;
  if (config.q_heads > 0 && config.q_heads % degree != 0) {
    return absl::StrFormat("tp_degree %d does not divide the %d query heads",
                           degree, config.q_heads);
  }
  if (config.kv_heads <= 0 || config.kv_heads % degree == 0) return "";
  if (question.options.what_if.kv_heads == KvHeadLayout::kReplicated) {
    if (degree % config.kv_heads == 0) return "";
    return absl::StrFormat(
        "neither of tp_degree %d and the %d KV heads divides the other", degree,
        config.kv_heads);
  }
  return absl::StrFormat(
      "tp_degree %d does not divide the %d KV heads, and Transformers does not "
      "replicate them",
      degree, config.kv_heads);
}

bool has_expert_parameters(const Question& question, ParallelMode mode) {
  return std::any_of(
      question.groups().begin(), question.groups().end(),
      [&](const WeightGroup& group) {
        const auto found = question.plan.style_of(group.name, mode);
        return found.has_value() && found->axis == ParallelAxis::kExpert;
      });
}

// Why the layout cannot be, apart from its size; empty if it can.
std::string problem_of(const Question& question, const Division& division) {
  const WeightLayout& layout = division.layout;
  if (layout.degree == 1) return "";
  if (layout.mode != ParallelMode::kTensor &&
      question.config.experts % layout.degree != 0) {
    return absl::StrFormat("ep_degree %d does not divide the %d experts",
                           layout.degree, question.config.experts);
  }
  std::string problem;
  if (layout.cuts_kv_heads(question.groups())) {
    problem = head_problem(question, layout.degree);
  }
  return problem.empty() ? layout.loading_problem(question.groups()) : problem;
}

}  // namespace

absl::StatusOr<std::int64_t> bytes_of_dtype(absl::string_view dtype) {
  if (dtype == "float32") return 4;
  if (dtype == "bfloat16" || dtype == "float16") return 2;
  return absl::InvalidArgumentError(absl::StrCat(
      "plan: dtype is ", dtype, ", must be float32, float16 or bfloat16"));
}

absl::Status check(const PlanOptions& options) {
  absl::Status status = require_positive("batch", options.batch);
  status.Update(require_positive("max_length", options.max_length));
  status.Update(require_positive("max_cores", options.max_cores));
  for (const std::int32_t degree : options.topology.tp_degrees) {
    status.Update(require_positive("a degree of the topology", degree));
  }
  status.Update(bytes_of_dtype(options.dtype).status());
  return status;
}

absl::StatusOr<WeighedModel> weigh_model(
    const ModelConfig& config, const ParallelPlan& plan,
    absl::Span<const ParameterInfo> parameters, const PlanOptions& options) {
  if (absl::Status status = check(options); !status.ok()) return status;
  if (parameters.empty()) {
    return absl::InvalidArgumentError("plan: the model has no parameters");
  }
  const auto dtype_bytes = bytes_of_dtype(options.dtype);
  if (!dtype_bytes.ok()) return dtype_bytes.status();
  auto weights = weights_on_core(config, plan, parameters, *dtype_bytes,
                                 options.topology.neuron_core);
  if (!weights.ok()) return weights.status();
  auto groups = group_weights(weights->weights);
  return WeighedModel{*std::move(weights), std::move(groups)};
}

std::vector<ParallelMode> modes_of(const Question& question) {
  std::vector<ParallelMode> out;
  const bool tensor = !question.plan.tensor_rules.empty() &&
                      question.plan.no_tensor_plan_reason.empty();
  const ParallelMode with_experts =
      tensor ? ParallelMode::kTensorAndExpert : ParallelMode::kExpert;
  if (tensor) out.push_back(ParallelMode::kTensor);
  if (question.plan.no_expert_plan_reason.empty() &&
      has_expert_parameters(question, with_experts)) {
    out.push_back(with_experts);
  }
  return out;
}

ParallelMode mode_of(const Degrees& degrees) {
  if (degrees.ep_degree == 1) return ParallelMode::kTensor;
  return degrees.tp_degree == 1 ? ParallelMode::kExpert
                                : ParallelMode::kTensorAndExpert;
}

absl::StatusOr<Division> divide(const Question& question, ParallelMode mode,
                                std::int32_t degree) {
  const ModelConfig& config = question.config;
  Division out{.degrees = {degree, mode == ParallelMode::kExpert ? 1 : degree,
                           mode == ParallelMode::kTensor ? 1 : degree},
               .layout = {.config = config,
                          .plan = question.plan,
                          .what_if = question.options.what_if,
                          .mode = mode,
                          .degree = degree,
                          .kv_degree = degree},
               .cache_degree = 1,
               .cache = {},
               .weights = {},
               .problem = ""};
  out.problem = problem_of(question, out);
  if (!out.problem.empty()) return out;
  if (config.kv_heads > 0 && out.layout.cuts_kv_heads(question.groups())) {
    out.layout.kv_degree = static_cast<std::int32_t>(
        std::min<std::int64_t>(degree, config.kv_heads));
    out.cache_degree = out.layout.kv_degree;
  }
  out.cache = cache_of_one_rank(config, out.cache_degree);
  const auto weights = weights_of_largest_rank(out.layout, question.groups());
  if (!weights.ok()) return weights.status();
  out.weights = *weights;
  return out;
}

std::string degrees_text(const Degrees& degrees) {
  return absl::StrFormat("%d core%s (tp_degree %d, ep_degree %d)",
                         degrees.cores, degrees.cores == 1 ? "" : "s",
                         degrees.tp_degree, degrees.ep_degree);
}

}  // namespace trnscout
