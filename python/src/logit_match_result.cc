#include <pybind11/stl.h>

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "logit_levels.h"
#include "trnscout/logit_match.h"

namespace trnscout::python {
namespace py = pybind11;
namespace {

py::dict errors_dict(const LogitMatch& self,
                     const std::vector<double>& errors) {
  py::dict out;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    out[top_k_object(self.levels[i].top_k)] = errors[i];
  }
  return out;
}

std::string match_text(const LogitMatch& self) {
  if (self.non_finite.has_value()) {
    return "LogitMatch(not_finite, " + non_finite_text(*self.non_finite) + ")";
  }
  return absl::StrFormat(
      "LogitMatch(%s, positions=%d, flips=%d, ties=%d, max_abs=%.3g, "
      "rms=%.3g, kl_mean=%.3g, worst_position=%d at %.3g of its bound)",
      logit_verdict_name(self.verdict), self.positions.size(),
      self.flips.size(), self.ties.size(), self.max_abs, self.rms, self.kl_mean,
      self.worst_position, self.worst_ratio);
}

}  // namespace

void bind_logit_match_result(py::module_& m) {
  py::class_<LogitMatch>(m, "LogitMatch",
                         "A comparison of two runs over the same tokens.")
      .def_property_readonly(
          "verdict",
          [](const LogitMatch& self) {
            return std::string(logit_verdict_name(self.verdict));
          },
          "'match', 'tie', 'mismatch' or 'not_finite'.")
      .def_property_readonly("passes", &LogitMatch::passes,
                             "Whether the verdict is match or tie.")
      .def_property_readonly(
          "levels",
          [](const LogitMatch& self) { return levels_dict(self.levels); },
          "Relative error allowed, by top_k.")
      .def_property_readonly(
          "relative_errors",
          [](const LogitMatch& self) {
            return errors_dict(self, self.relative_errors);
          },
          "Highest of any position, by top_k.")
      .def_readonly("positions", &LogitMatch::positions)
      .def_readonly("flips", &LogitMatch::flips)
      .def_readonly("ties", &LogitMatch::ties,
                    "Positions whose tokens differ without being a flip.")
      .def_readonly("max_abs", &LogitMatch::max_abs)
      .def_readonly("max_abs_position", &LogitMatch::max_abs_position)
      .def_readonly("max_abs_token", &LogitMatch::max_abs_token)
      .def_readonly("rms", &LogitMatch::rms)
      .def_readonly("kl_mean", &LogitMatch::kl_mean)
      .def_readonly("kl_max", &LogitMatch::kl_max)
      .def_readonly("top1_agreement", &LogitMatch::top1_agreement)
      .def_readonly("worst_position", &LogitMatch::worst_position)
      .def_property_readonly(
          "worst_top_k",
          [](const LogitMatch& self) { return top_k_object(self.worst_top_k); })
      .def_readonly("worst_ratio", &LogitMatch::worst_ratio,
                    "Error at the worst position in units of its bound.")
      .def_readonly("non_finite", &LogitMatch::non_finite)
      .def("__repr__", &match_text);
}

}  // namespace trnscout::python
