#include "trnscout/shard_plan.h"

#include <pybind11/stl.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "status.h"
#include "trnscout/checkpoint.h"
#include "trnscout/planned_model.h"

namespace trnscout::python {
namespace py = pybind11;
namespace {

PlanOptions make_options(const Topology& topology, const std::string& dtype,
                         std::int64_t batch, std::int64_t max_length,
                         std::int32_t max_cores,
                         const std::vector<std::string>& what_if) {
  return {.topology = topology,
          .dtype = dtype,
          .batch = batch,
          .max_length = max_length,
          .max_cores = max_cores,
          .what_if = unwrap(parse_what_if(what_if))};
}

PlannedModel model_of_checkpoint(const ModelConfig& config,
                                 const ParallelPlan& plan,
                                 const Checkpoint& checkpoint) {
  auto out = [&] {
    const py::gil_scoped_release unlocked;
    return PlannedModel::of_checkpoint(config, plan, checkpoint);
  }();
  return unwrap(std::move(out));
}

ShardPlan plan_model(const PlannedModel& model, const PlanOptions& options) {
  auto out = [&] {
    const py::gil_scoped_release unlocked;
    return model.plan(options);
  }();
  return unwrap(std::move(out));
}

using Parameter =
    std::tuple<std::string, std::string, std::vector<std::int64_t>>;

std::vector<ParameterInfo> parameters_of(const std::vector<Parameter>& from) {
  std::vector<ParameterInfo> out;
  out.reserve(from.size());
  for (const auto& [name, dtype, shape] : from) {
    out.push_back({name, dtype, shape, {}});
  }
  return out;
}

PlannedModel model_of_parameters(const ModelConfig& config,
                                 const ParallelPlan& plan,
                                 const std::vector<Parameter>& parameters) {
  return unwrap(
      PlannedModel::of_parameters(config, plan, parameters_of(parameters)));
}

std::vector<RankParameter> parameters_of_rank(
    const ModelConfig& config, const ParallelPlan& plan,
    const std::vector<Parameter>& parameters, const PlanOptions& options,
    const Degrees& degrees, std::int32_t rank) {
  return unwrap(rank_parameters(config, plan, parameters_of(parameters),
                                options, degrees, rank));
}

py::dict categories(const CoreBytes& bytes) {
  py::dict out;
  for (std::size_t i = 0; i < kPlanCategories; ++i) {
    const auto category = static_cast<PlanCategory>(i);
    out[py::str(std::string(plan_category_name(category)))] = bytes[category];
  }
  return out;
}

}  // namespace

void bind_shard_plan(py::module_& m) {
  py::class_<PlannedBytes>(m, "PlannedBytes",
                           "One number of a plan, with where it comes from.")
      .def_readonly("bytes", &PlannedBytes::bytes)
      .def_readonly("formula", &PlannedBytes::formula)
      .def_property_readonly("estimated", [](const PlannedBytes& self) {
        return self.basis == Basis::kEstimated;
      });
  py::class_<CoreBytes>(m, "CoreBytes",
                        "One core's memory, for the rank that holds most.")
      .def_property_readonly("categories", &categories)
      .def_property_readonly("total", &CoreBytes::total);
  py::class_<Degrees>(m, "Degrees", "A division of a model over cores.")
      .def(py::init([](std::int32_t cores, std::int32_t tp_degree,
                       std::int32_t ep_degree) {
             return Degrees{cores, tp_degree, ep_degree};
           }),
           py::arg("cores"), py::arg("tp_degree"), py::arg("ep_degree"))
      .def_readonly("cores", &Degrees::cores)
      .def_readonly("tp_degree", &Degrees::tp_degree)
      .def_readonly("ep_degree", &Degrees::ep_degree);
  py::class_<RejectedDegrees>(m, "RejectedDegrees",
                              "A division that does not work, and why.")
      .def_readonly("degrees", &RejectedDegrees::degrees)
      .def_readonly("reason", &RejectedDegrees::reason);
  py::class_<PlanOptions>(m, "PlanOptions", "What a plan is asked for.")
      .def(py::init(&make_options), py::kw_only(), py::arg("topology"),
           py::arg("dtype") = "bfloat16", py::arg("batch") = 1,
           py::arg("max_length") = 2048, py::arg("max_cores") = 16,
           py::arg("what_if") = std::vector<std::string>());
  py::class_<RankParameter>(m, "RankParameter",
                            "What one rank holds of one parameter.")
      .def_readonly("name", &RankParameter::name)
      .def_readonly("shard", &RankParameter::shard)
      .def_readonly("sharded", &RankParameter::sharded)
      .def_readonly("bytes", &RankParameter::bytes);
  py::class_<ShardPlan>(m, "ShardPlan", "Where a model fits, in numbers.")
      .def_readonly("fits", &ShardPlan::fits)
      .def_readonly("tight", &ShardPlan::tight)
      .def_readonly("reason", &ShardPlan::reason)
      .def_readonly("degrees", &ShardPlan::degrees)
      .def_readonly("core_limit_bytes", &ShardPlan::core_limit_bytes)
      .def_readonly("bytes_per_core", &ShardPlan::bytes_per_core)
      .def_readonly("rejected", &ShardPlan::rejected)
      .def_readonly("largest_batch_x_length",
                    &ShardPlan::largest_batch_x_length)
      .def_readonly("instance", &ShardPlan::instance)
      .def_readonly("decode_tokens_per_second_bound",
                    &ShardPlan::decode_tokens_per_second_bound)
      .def_readonly("notes", &ShardPlan::notes);
  py::class_<PlannedModel>(m, "PlannedModel",
                           "A model that is asked many questions: what its "
                           "load makes of the checkpoint is found once.")
      .def(py::init(&model_of_checkpoint), py::arg("config"), py::arg("plan"),
           py::arg("checkpoint"))
      .def(py::init(&model_of_parameters), py::arg("config"), py::arg("plan"),
           py::arg("parameters"), "Of (name, dtype, shape) parameters.")
      .def("plan", &plan_model, py::arg("options"),
           "Finds the smallest number of cores.");
  m.def("rank_parameters", &parameters_of_rank, py::arg("config"),
        py::arg("plan"), py::arg("parameters"), py::arg("options"),
        py::arg("degrees"), py::arg("rank"),
        "Lists what a rank holds of the weights that a plan of the same "
        "question counts.");
  m.def("what_if_names", &what_if_names,
        "The layouts beside that of Transformers that a plan can be asked "
        "for.");
}

}  // namespace trnscout::python
