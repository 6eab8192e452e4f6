#include "trnscout/topology.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "status.h"

namespace trnscout::python {
namespace py = pybind11;
namespace {

std::string instance_text(const InstanceType& self) {
  return py::str("InstanceType({!r}, chips={}, logical_cores={})")
      .format(self.name, self.chips, self.logical_cores);
}

std::string topology_text(const Topology& self) {
  return py::str("Topology({!r}, core_memory_bytes={}, tp_degrees={})")
      .format(self.name, self.core_memory_bytes, self.tp_degrees);
}

Topology with_fields(Topology topology,
                     std::optional<std::int64_t> core_memory_bytes,
                     std::optional<std::vector<std::int32_t>> tp_degrees) {
  if (core_memory_bytes.has_value()) {
    topology.core_memory_bytes = *core_memory_bytes;
    topology.inferred.emplace_back("core_memory_bytes: the caller's own");
  }
  if (tp_degrees.has_value()) {
    std::sort(tp_degrees->begin(), tp_degrees->end());
    topology.tp_degrees = *std::move(tp_degrees);
    topology.inferred.emplace_back("tp_degrees: the caller's own");
  }
  return topology;
}

void bind_instance(py::module_& m) {
  py::class_<InstanceType>(m, "InstanceType",
                           "One size of machine that AWS rents out.")
      .def_readonly("name", &InstanceType::name)
      .def_readonly("chips", &InstanceType::chips)
      .def_readonly("logical_cores", &InstanceType::logical_cores)
      .def_readonly("device_memory_bytes", &InstanceType::device_memory_bytes)
      .def("__repr__", &instance_text);
}

}  // namespace

void bind_topology(py::module_& m) {
  bind_instance(m);
  py::class_<Topology>(m, "Topology",
                       "What a generation of chips gives to one logical core.")
      .def_readonly("name", &Topology::name)
      .def_readonly("neuron_core", &Topology::neuron_core)
      .def_readonly("physical_cores_per_chip",
                    &Topology::physical_cores_per_chip)
      .def_readonly("logical_cores_per_chip", &Topology::logical_cores_per_chip)
      .def_readonly("physical_cores_per_logical_core",
                    &Topology::physical_cores_per_logical_core)
      .def_readonly("chip_memory_bytes", &Topology::chip_memory_bytes)
      .def_readonly("chip_bandwidth_bytes_per_second",
                    &Topology::chip_bandwidth_bytes_per_second)
      .def_readonly("core_memory_bytes", &Topology::core_memory_bytes)
      .def_readonly("core_bandwidth_bytes_per_second",
                    &Topology::core_bandwidth_bytes_per_second)
      .def_readonly("core_microcode_bytes", &Topology::core_microcode_bytes)
      .def_readonly("scratchpad_step_bytes", &Topology::scratchpad_step_bytes)
      .def_readonly("tp_degrees", &Topology::tp_degrees)
      .def_readonly("instances", &Topology::instances)
      .def_readonly("source", &Topology::source)
      .def_readonly("source_date", &Topology::source_date)
      .def_readonly("inferred", &Topology::inferred,
                    "Fields that no source prints, with reasons.")
      .def("replace", &with_fields, py::kw_only(),
           py::arg("core_memory_bytes") = py::none(),
           py::arg("tp_degrees") = py::none(),
           "A copy with another core or another list of degrees; `inferred` "
           "says so.")
      .def("allows_tp_degree", &allows_tp_degree, py::arg("tp_degree"),
           "Says whether the runtime takes a group of that many cores.")
      .def(
          "smallest_instance",
          [](const Topology& self, std::int32_t cores) {
            return unwrap(smallest_instance(self, cores));
          },
          py::arg("cores"),
          "Finds the smallest instance with that many logical cores; raises "
          "OutOfRangeError where none has as many.")
      .def("__repr__", &topology_text);
  m.def("topologies", &topologies, "Every topology that is known.");
  m.def(
      "find_topology",
      [](const std::string& name) { return unwrap(find_topology(name)); },
      py::arg("name"),
      "Finds a topology by its name; raises NotFoundError with the names "
      "that are known.");
}

}  // namespace trnscout::python
