#include "trnscout/parallel_plan.h"

#include <pybind11/stl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "bindings.h"
#include "status.h"
#include "trnscout/model_config.h"

namespace trnscout::python {
namespace py = pybind11;
namespace {

using Config = std::optional<ModelConfig>;
using Nested = std::vector<std::pair<std::string, std::string>>;

ParallelPlan find(const std::string& name, const Nested& nested) {
  std::vector<NestedModel> models;
  for (const auto& [field, model_type] : nested) {
    models.push_back({field, model_type});
  }
  return unwrap(find_parallel_plan(name, models));
}

ParameterShard shard(ParallelStyle style,
                     const std::vector<std::int64_t>& shape, ParameterRole role,
                     std::int32_t rank, std::int32_t degree) {
  return unwrap(shard_of(style, shape, role, {rank, degree}));
}

auto rules(const std::vector<PlanRule>& from) {
  std::vector<std::pair<std::string, ParallelStyle>> out;
  for (const PlanRule& rule : from) out.emplace_back(rule.pattern, rule.style);
  return out;
}

// (name, dtype, shape) of each tensor, as a header has them.
using Headers = std::vector<
    std::tuple<std::string, std::string, std::vector<std::int64_t>>>;

LoadedParameters load(const ParallelPlan& self,
                      const std::vector<TensorInfo>& tensors,
                      const Config& config) {
  auto loaded = [&] {
    const py::gil_scoped_release release;  // a checkpoint may be large
    return !config.has_value() ? self.parameters_of(tensors)
                               : self.parameters_of(tensors, *config);
  }();
  return unwrap(std::move(loaded));
}

LoadedParameters load_headers(const ParallelPlan& self, const Headers& headers,
                              const Config& config) {
  std::vector<TensorInfo> tensors;
  for (const auto& [name, dtype, shape] : headers) {
    tensors.push_back({.name = name, .dtype = dtype, .shape = shape});
  }
  return load(self, tensors, config);
}

void bind_enums(py::module_& m) {
  py::enum_<ParallelStyle> styles(
      m, "ParallelStyle", "How Transformers lays out a module or parameter.");
  const auto last = static_cast<std::uint8_t>(ParallelStyle::kEpRouter);
  for (std::uint8_t i = 0; i <= last; ++i) {
    const auto style = static_cast<ParallelStyle>(i);
    const std::string name = absl::AsciiStrToUpper(parallel_style_name(style));
    styles.value(name.c_str(), style);
  }
  py::enum_<ParallelMode>(m, "ParallelMode",
                          "Which of its plans a model runs under.")
      .value("TENSOR", ParallelMode::kTensor)
      .value("EXPERT", ParallelMode::kExpert)
      .value("TENSOR_AND_EXPERT", ParallelMode::kTensorAndExpert);
  py::enum_<ParallelAxis>(m, "ParallelAxis", "Which degree cuts a parameter.")
      .value("TENSOR", ParallelAxis::kTensor)
      .value("EXPERT", ParallelAxis::kExpert);
  py::enum_<ParameterRole>(m, "ParameterRole",
                           "Whether a parameter's own name is `bias`.")
      .value("WEIGHT", ParameterRole::kWeight)
      .value("BIAS", ParameterRole::kBias);
}

void bind_parts(py::module_& m) {
  py::class_<ParameterStyle>(m, "ParameterStyle",
                             "The rule that a parameter falls under.")
      .def_readonly("style", &ParameterStyle::style)
      .def_readonly("axis", &ParameterStyle::axis);
  py::class_<ParameterShard>(m, "ParameterShard",
                             "One rank's part of a parameter.")
      .def_property_readonly("shape", &ParameterShard::shape)
      .def_property_readonly(
          "dimensions",
          [](const ParameterShard& self) {
            std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> out;
            for (const DimensionSlice& slice : self.dimensions) {
              auto& ranges = out.emplace_back();
              for (const auto& [begin, end] : slice)
                ranges.emplace_back(begin, end);
            }
            return out;
          },
          "The (begin, end) ranges along each dimension, which are joined.")
      .def_readonly("padding_rows", &ParameterShard::padding_rows);
  py::class_<ParameterInfo>(m, "ParameterInfo",
                            "A parameter as the model holds it once loaded.")
      .def_readonly("name", &ParameterInfo::name)
      .def_readonly("dtype", &ParameterInfo::dtype)
      .def_readonly("shape", &ParameterInfo::shape)
      .def_readonly("tensors", &ParameterInfo::tensors,
                    "Names in the checkpoint.")
      .def("__repr__", [](const ParameterInfo& self) {
        return std::string(py::str("ParameterInfo({!r}, {!r}, {!r})")
                               .format(self.name, self.dtype, self.shape));
      });
  py::class_<LoadedParameters>(m, "LoadedParameters",
                               "What comes of a checkpoint.")
      .def_readonly("parameters", &LoadedParameters::parameters)
      .def_readonly("left_out", &LoadedParameters::left_out,
                    "Tensors the model has no use for.");
}

void bind_plan(py::module_& m) {
  py::class_<ParallelPlan>(m, "ParallelPlan",
                           "Where an architecture's parameters are put.")
      .def_readonly("architecture", &ParallelPlan::architecture)
      .def_readonly("model_type", &ParallelPlan::model_type)
      .def_property_readonly(
          "tensor_rules",
          [](const ParallelPlan& self) { return rules(self.tensor_rules); })
      .def_property_readonly(
          "expert_rules",
          [](const ParallelPlan& self) { return rules(self.expert_rules); })
      .def_readonly("tied", &ParallelPlan::tied,
                    "(target, source) where the config ties them.")
      .def_readonly("no_tensor_plan_reason",
                    &ParallelPlan::no_tensor_plan_reason)
      .def_readonly("no_expert_plan_reason",
                    &ParallelPlan::no_expert_plan_reason)
      .def_property_readonly(
          "nested",
          [](const ParallelPlan& self) {
            Nested out;
            for (const auto& [field, type] : self.nested) {
              out.emplace_back(field, type);
            }
            return out;
          },
          "(config field, model type) of the nested configs that count.")
      .def(
          "style_of",
          [](const ParallelPlan& self, const std::string& name,
             ParallelMode mode) { return self.style_of(name, mode); },
          py::arg("parameter_name"), py::arg("mode"),
          "None leaves a whole copy on every rank.")
      .def("parameters_of", &load, py::arg("tensors"),
           py::arg("config") = py::none(),
           "What a load makes of tensors; a few conversions need the config.")
      .def("parameters_of", &load_headers, py::arg("headers"),
           py::arg("config") = py::none(),
           "As above, of (name, dtype, shape) for each tensor.");
}

}  // namespace

void bind_parallel_plan(py::module_& m) {
  bind_enums(m);
  bind_parts(m);
  bind_plan(m);
  m.def(
      "parse_parallel_style",
      [](const std::string& s) { return unwrap(parse_parallel_style(s)); },
      py::arg("name"), "Reads a style in any version's vocabulary.");
  m.def(
      "parameter_role",
      [](const std::string& name) { return parameter_role(name); },
      py::arg("parameter_name"));
  m.def("shard_of", &shard, py::arg("style"), py::arg("shape"), py::arg("role"),
        py::arg("rank"), py::arg("degree"),
        "Cuts a parameter for one rank, as Transformers does.");
  m.def(
      "transformers_version",
      [] { return std::string(transformers_version()); },
      "The version of Transformers that the plans come from.");
  m.def("parallel_plan_architectures", &parallel_plan_architectures,
        "Every architecture of both tasks, sorted.");
  m.def("find_parallel_plan", &find, py::arg("architecture_or_model_type"),
        py::arg("nested") = Nested(),
        "Finds the plan of an architecture or model type; `nested` has the "
        "(config field, model type) pairs that are not the default.");
}

}  // namespace trnscout::python
