#include "trnscout/drift.h"

#include <pybind11/stl.h>

#include <cstdint>
#include <vector>

#include "bindings.h"
#include "status.h"

namespace trnscout::python {
namespace py = pybind11;

void bind_drift(py::module_& m) {
  const DriftOptions standard;
  py::class_<Drift>(m, "Drift", "How an error moves with position.")
      .def_readonly("window", &Drift::window)
      .def_readonly("medians", &Drift::medians)
      .def_readonly("slope", &Drift::slope,
                    "Per position, after Theil and Sen.")
      .def_readonly("ratio", &Drift::ratio, "Last median over the first.")
      .def_readonly("grows", &Drift::grows)
      .def("__repr__", [](const Drift& self) {
        return py::str(
                   "Drift(windows={} of {}, slope={:.3g}, ratio={:.3g}, "
                   "grows={})")
            .format(self.medians.size(), self.window, self.slope, self.ratio,
                    self.grows);
      });
  m.def(
      "drift",
      [](const std::vector<double>& errors, std::int64_t window,
         double growth) {
        return unwrap(drift(errors, {.window = window, .growth = growth}));
      },
      py::arg("errors"), py::kw_only(), py::arg("window") = standard.window,
      py::arg("growth") = standard.growth,
      "Describes the trend of one error a position: medians of windows, robust "
      "slope, last over first.");
}

}  // namespace trnscout::python
