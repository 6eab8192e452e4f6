#include "trnscout/fragility.h"

#include <pybind11/stl.h>

#include <cstdint>
#include <utility>

#include "bindings.h"
#include "logits_argument.h"
#include "status.h"

namespace trnscout::python {
namespace py = pybind11;
namespace {

Fragility judge(const py::object& reference, double noise_scale,
                std::int64_t most_fragile) {
  const LogitsArgument argument(reference, "reference");
  auto result = [&] {
    const py::gil_scoped_release release;
    return fragility(argument.view(), {.noise_scale = noise_scale,
                                       .most_fragile = most_fragile});
  }();
  return unwrap(std::move(result));
}

}  // namespace

void bind_fragility(py::module_& m) {
  py::class_<FragilePosition>(m, "FragilePosition",
                              "How little would change one position's token.")
      .def_readonly("position", &FragilePosition::position)
      .def_readonly("token", &FragilePosition::token)
      .def_readonly("runner_up", &FragilePosition::runner_up)
      .def_readonly("margin", &FragilePosition::margin)
      .def_readonly("rounding", &FragilePosition::rounding)
      .def_readonly("flip_probability", &FragilePosition::flip_probability)
      .def("__repr__", [](const FragilePosition& self) {
        return py::str(
                   "FragilePosition({}, token={}, runner_up={}, margin={:.4g}, "
                   "flip_probability={:.3g})")
            .format(self.position, self.token, self.runner_up, self.margin,
                    self.flip_probability);
      });
  py::class_<Fragility>(m, "Fragility",
                        "How easily a bfloat16 device leaves the reference's "
                        "greedy path. An estimate.")
      .def_readonly("positions", &Fragility::positions)
      .def_readonly("smallest_margin", &Fragility::smallest_margin)
      .def_readonly("smallest_margin_position",
                    &Fragility::smallest_margin_position)
      .def_readonly("within_rounding", &Fragility::within_rounding)
      .def_readonly("expected_flips", &Fragility::expected_flips)
      .def_readonly("any_flip_probability", &Fragility::any_flip_probability)
      .def_readonly("most_fragile", &Fragility::most_fragile)
      .def("__repr__", [](const Fragility& self) {
        return py::str(
                   "Fragility(positions={}, smallest_margin={:.4g} at {}, "
                   "expected_flips={:.3g})")
            .format(self.positions, self.smallest_margin,
                    self.smallest_margin_position, self.expected_flips);
      });
  m.def("fragility", &judge, py::arg("reference"), py::kw_only(),
        py::arg("noise_scale") = FragilityOptions().noise_scale,
        py::arg("most_fragile") = FragilityOptions().most_fragile,
        "Judges the margins between the reference's first and second logit "
        "against the noise of bfloat16. The model stands in "
        "trnscout/fragility.h.");
}

}  // namespace trnscout::python
