#include "trnscout/device.h"

#include <ATen/Context.h>
#include <torch/csrc/Generator.h>

#include <cstdint>
#include <tuple>

#include "bindings.h"
#include "status.h"

namespace trnscout::python {
namespace py = pybind11;
namespace {

std::tuple<std::int32_t, std::int64_t> options_in_force() {
  const VirtualCoreOptions options = unwrap(virtual_cores());
  return {options.cores, options.core_memory_bytes};
}

py::object default_generator(std::int32_t core) {
  // Checks the core.
  unwrap(core_memory(core));
  const at::Generator& generator =
      at::globalContext().defaultGenerator(c10::Device(
          c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(core)));
  return py::reinterpret_steal<py::object>(
      THPGenerator_initDefaultGenerator(generator));
}

}  // namespace

void bind_device(py::module_& m) {
  m.attr("MAX_VIRTUAL_CORES") = kMaxVirtualCores;
  m.def(
      "enable_virtual_cores",
      [](std::int32_t cores, std::int64_t core_memory_bytes) {
        throw_if_error(enable_virtual_cores(VirtualCoreOptions{
            .cores = cores, .core_memory_bytes = core_memory_bytes}));
      },
      py::arg("cores"), py::arg("core_memory_bytes"),
      "Registers the device; trnscout.enable_virtual_cores does the rest.");
  m.def("virtual_cores", &options_in_force,
        "Returns (cores, core_memory_bytes) in force.");
  m.def(
      "core_memory",
      [](std::int32_t core) { return unwrap(core_memory(core)); },
      py::arg("core"), "Returns the core's memory by category.");
  m.def("default_generator", &default_generator, py::arg("core"),
        "Returns the torch.Generator that the core draws from by default.");
}

}  // namespace trnscout::python
