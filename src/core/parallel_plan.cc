#include "trnscout/parallel_plan.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "model_classes.h"
#include "parallel_plan_table.h"
#include "parameter_load.h"

namespace trnscout {
namespace {

// As a Python dict: a pattern keeps its first place and its last style.
void add_rules(absl::string_view path, absl::Span<const RuleRow> rows,
               std::vector<PlanRule>& out) {
  const absl::string_view dot = path.empty() ? "" : ".";
  for (const RuleRow& row : rows) {
    std::string pattern = absl::StrCat(path, dot, row.pattern);
    const auto known = std::find_if(
        out.begin(), out.end(),
        [&pattern](const PlanRule& rule) { return rule.pattern == pattern; });
    if (known != out.end()) {
      known->style = row.style;
    } else {
      out.push_back({std::move(pattern), row.style});
    }
  }
}

std::string no_plan(absl::string_view kind, const ModelRow& model) {
  return absl::StrCat("Transformers ", transformers_version(), " has no ", kind,
                      " plan for ", model.name,
                      ": neither its config nor its classes give one");
}

// Numbers that are a whole part of the name, the first part excepted, become
// `*`. Of numbers side by side every other one stays, as in the library.
std::string generic_name(absl::string_view name) {
  std::string out;
  std::size_t at = 0;
  while (at < name.size()) {
    std::size_t end = at + 1;
    if (name[at] == '.') {
      while (end < name.size() &&
             absl::ascii_isdigit(static_cast<unsigned char>(name[end]))) {
        ++end;
      }
      const bool number =
          end > at + 1 && (end == name.size() || name[end] == '.');
      if (number) {
        out.append(".*");
        if (end < name.size()) {
          out.push_back('.');
          ++end;
        }
        at = end;
        continue;
      }
      end = at + 1;
    }
    out.push_back(name[at]);
    at = end;
  }
  return out;
}

using Covered = std::vector<PlanRule>;

// An expert rule takes its module, and all below it, out of the tensor plan.
bool covered_by(absl::string_view pattern, const Covered& rules) {
  return absl::c_any_of(rules, [pattern](const PlanRule& rule) {
    return pattern == rule.pattern ||
           absl::StartsWith(pattern, absl::StrCat(rule.pattern, "."));
  });
}

std::optional<ParallelStyle> look_up(const std::vector<PlanRule>& rules,
                                     const std::string& name,
                                     const Covered& taken) {
  const std::size_t dot = name.rfind('.');
  const auto find = [&rules, &taken](absl::string_view key) {
    std::optional<ParallelStyle> out;
    if (covered_by(key, taken)) return out;
    for (const PlanRule& rule : rules) {
      if (rule.pattern == key) out = rule.style;
    }
    return out;
  };
  const auto exact = find(name);
  if (exact || dot == std::string::npos) return exact;
  return find(absl::string_view(name).substr(0, dot));
}

absl::StatusOr<LoadedParameters> load(const ParallelPlan& plan,
                                      absl::Span<const TensorInfo> tensors,
                                      const ModelConfig* config) {
  const auto classes = find_model_classes(plan.architecture, plan.nested);
  if (!classes.ok()) return classes.status();
  return load_parameters(*classes, plan.model_type, tensors, config);
}

}  // namespace

absl::string_view transformers_version() {
  return parallel_plan_table().transformers_version;
}

std::vector<std::string> parallel_plan_architectures() {
  std::vector<std::string> out;
  for (const ModelRow& row : parallel_plan_table().architectures) {
    out.emplace_back(row.name);
  }
  return out;
}

absl::StatusOr<ParallelPlan> find_parallel_plan(
    absl::string_view architecture_or_model_type,
    absl::Span<const NestedModel> nested) {
  auto classes = find_model_classes(architecture_or_model_type, nested);
  if (!classes.ok()) return classes.status();
  const ModelRow& model = *classes->model;
  ParallelPlan out;
  out.architecture = std::string(model.name);
  out.model_type = std::string(
      absl::c_linear_search(model.model_types, architecture_or_model_type)
          ? architecture_or_model_type
          : model.model_types[0]);
  for (const PlacedClass& placed : classes->classes) {
    if (!placed.plan_reaches) continue;
    add_rules(placed.path, placed.row->tensor_rules, out.tensor_rules);
    add_rules(placed.path, placed.row->expert_rules, out.expert_rules);
    const absl::string_view dot = placed.path.empty() ? "" : ".";
    for (const TieRow& tie : placed.row->ties) {
      out.tied.emplace_back(absl::StrCat(placed.path, dot, tie.target),
                            absl::StrCat(placed.path, dot, tie.source));
    }
  }
  if (out.tensor_rules.empty()) {
    out.no_tensor_plan_reason = no_plan("tensor-parallel", model);
  }
  if (out.expert_rules.empty()) {
    out.no_expert_plan_reason = no_plan("expert-parallel", model);
  }
  out.nested = std::move(classes->nested);
  return out;
}

std::optional<ParameterStyle> ParallelPlan::style_of(
    absl::string_view parameter_name, ParallelMode mode) const {
  const std::string name = generic_name(parameter_name);
  if (mode != ParallelMode::kTensor) {
    if (const auto style = look_up(expert_rules, name, {})) {
      return ParameterStyle{*style, ParallelAxis::kExpert};
    }
  }
  if (mode == ParallelMode::kExpert) return std::nullopt;
  const bool both = mode == ParallelMode::kTensorAndExpert;
  const auto style =
      look_up(tensor_rules, name, both ? expert_rules : Covered());
  if (!style) return std::nullopt;
  return ParameterStyle{*style, ParallelAxis::kTensor};
}

absl::StatusOr<LoadedParameters> ParallelPlan::parameters_of(
    absl::Span<const TensorInfo> tensors) const {
  return load(*this, tensors, nullptr);
}

absl::StatusOr<LoadedParameters> ParallelPlan::parameters_of(
    absl::Span<const TensorInfo> tensors, const ModelConfig& config) const {
  return load(*this, tensors, &config);
}

}  // namespace trnscout
