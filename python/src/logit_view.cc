#include "trnscout/logit_view.h"

#include <pybind11/stl.h>

#include <optional>
#include <string>

#include "bindings.h"
#include "logits_argument.h"
#include "status.h"

namespace trnscout::python {
namespace py = pybind11;
namespace {

std::optional<NonFinite> find(const py::object& values,
                              const std::string& module, bool masked) {
  const LogitsArgument argument(values, module);
  auto found = [&] {
    const py::gil_scoped_release release;
    return find_non_finite(
        argument.view(), module,
        masked ? NegativeInfinity::kMasked : NegativeInfinity::kNotFinite);
  }();
  return unwrap(std::move(found));
}

}  // namespace

void bind_logit_view(py::module_& m) {
  py::class_<NonFinite>(m, "NonFinite",
                        "Where values stopped being numbers, and how many did.")
      .def_readonly("module", &NonFinite::module)
      .def_readonly("position", &NonFinite::position)
      .def_readonly("index", &NonFinite::index)
      .def_property_readonly(
          "kind",
          [](const NonFinite& self) {
            return std::string(non_finite_kind_name(self.kind));
          },
          "'nan', 'inf' or '-inf': the first one.")
      .def_readonly("nans", &NonFinite::nans)
      .def_readonly("positive_infinities", &NonFinite::positive_infinities)
      .def_readonly("negative_infinities", &NonFinite::negative_infinities)
      .def_property_readonly("count", &NonFinite::count)
      .def("__str__",
           [](const NonFinite& self) { return non_finite_text(self); })
      .def("__repr__", [](const NonFinite& self) {
        return "NonFinite(" + non_finite_text(self) + ")";
      });
  m.def("find_non_finite", &find, py::arg("values"),
        py::arg("module") = "values", py::kw_only(), py::arg("masked") = false,
        "Finds the first NaN or infinity of a float32, bfloat16 or float16 "
        "array, [values] or [positions, values], and counts all; None where "
        "every value is finite. With masked, minus infinity is allowed in a "
        "row that has a finite value, as in logits.");
}

}  // namespace trnscout::python
