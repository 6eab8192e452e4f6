#include "trnscout/logit_match.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "bindings.h"
#include "logit_levels.h"
#include "logits_argument.h"
#include "status.h"

namespace trnscout::python {
namespace py = pybind11;
namespace {

std::vector<TopKTolerance> levels_from(const py::dict& levels) {
  std::vector<TopKTolerance> out;
  for (const auto& [top_k, relative] : levels) {
    out.push_back({top_k.is_none() ? kAllTokens : top_k.cast<std::int64_t>(),
                   relative.cast<double>()});
  }
  return out;
}

LogitTolerances make_tolerances(const std::optional<py::dict>& levels,
                                double absolute, double divergence,
                                double tie_sigmas, double tie_steps,
                                bool remove_shift) {
  LogitTolerances out;
  if (levels.has_value()) out.levels = levels_from(*levels);
  out.absolute = absolute;
  out.divergence = divergence;
  out.tie_sigmas = tie_sigmas;
  out.tie_steps = tie_steps;
  out.shift = remove_shift ? LogitShift::kRemoved : LogitShift::kKept;
  return out;
}

LogitMatch match(const py::object& ours, const py::object& reference,
                 const std::optional<LogitTolerances>& tolerances,
                 const std::string& module) {
  const LogitsArgument our_logits(ours, "ours");
  const LogitsArgument reference_logits(reference, "reference");
  // A copy: Python may change its own meanwhile.
  const LogitTolerances kept = tolerances.value_or(LogitTolerances());
  auto result = [&] {
    const py::gil_scoped_release release;
    return match_logits(our_logits.view(), reference_logits.view(), kept,
                        module);
  }();
  return unwrap(std::move(result));
}

std::string position_text(const PositionMatch& self) {
  return absl::StrFormat(
      "PositionMatch(%d, %s, our_token=%d, reference_token=%d, max_abs=%.3g, "
      "kl=%.3g, within_levels=%s)",
      self.position, top_token_name(self.top_token), self.our_token,
      self.reference_token, self.max_abs, self.kl,
      self.within_levels ? "True" : "False");
}

void bind_tolerances(py::module_& m) {
  const LogitTolerances standard;
  py::class_<LogitTolerances>(
      m, "LogitTolerances",
      "Bounds of a comparison. levels maps top_k, or None for the whole "
      "vocabulary, to the relative error allowed there.")
      .def(py::init(&make_tolerances), py::kw_only(),
           py::arg("levels") = py::none(),
           py::arg("absolute") = standard.absolute,
           py::arg("divergence") = standard.divergence,
           py::arg("tie_sigmas") = standard.tie_sigmas,
           py::arg("tie_steps") = standard.tie_steps,
           py::arg("remove_shift") = true)
      .def_property(
          "levels",
          [](const LogitTolerances& self) { return levels_dict(self.levels); },
          [](LogitTolerances& self, const py::dict& levels) {
            self.levels = levels_from(levels);
          })
      .def_readwrite("absolute", &LogitTolerances::absolute)
      .def_readwrite("divergence", &LogitTolerances::divergence)
      .def_readwrite("tie_sigmas", &LogitTolerances::tie_sigmas)
      .def_readwrite("tie_steps", &LogitTolerances::tie_steps)
      .def_property(
          "remove_shift",
          [](const LogitTolerances& self) {
            return self.shift == LogitShift::kRemoved;
          },
          [](LogitTolerances& self, bool remove) {
            self.shift = remove ? LogitShift::kRemoved : LogitShift::kKept;
          })
      .def("__repr__", [](const LogitTolerances& self) {
        return py::str(
                   "LogitTolerances(levels={}, absolute={}, divergence={}, "
                   "tie_sigmas={}, tie_steps={})")
            .format(levels_dict(self.levels), self.absolute, self.divergence,
                    self.tie_sigmas, self.tie_steps);
      });
}

void bind_position(py::module_& m) {
  py::class_<PositionMatch>(m, "PositionMatch", "One position of a comparison.")
      .def_readonly("position", &PositionMatch::position)
      .def_readonly("our_token", &PositionMatch::our_token)
      .def_readonly("reference_token", &PositionMatch::reference_token)
      .def_property_readonly(
          "top_token",
          [](const PositionMatch& self) {
            return std::string(top_token_name(self.top_token));
          },
          "'same', 'tie', 'tolerated' or 'flipped'.")
      .def_readonly("max_abs", &PositionMatch::max_abs)
      .def_readonly("rms", &PositionMatch::rms)
      .def_readonly("kl", &PositionMatch::kl, "KL(reference || ours) in nats.")
      .def_readonly("shift", &PositionMatch::shift)
      .def_readonly("relative_errors", &PositionMatch::relative_errors,
                    "One a level, in the order of LogitMatch.levels.")
      .def_readonly("within_levels", &PositionMatch::within_levels)
      .def_readonly("reference_margin", &PositionMatch::reference_margin)
      .def_readonly("pair_margin", &PositionMatch::pair_margin)
      .def_readonly("divergence", &PositionMatch::divergence)
      .def_readonly("noise", &PositionMatch::noise)
      .def_readonly("tie_bound", &PositionMatch::tie_bound)
      .def("__repr__", &position_text);
}

}  // namespace

void bind_logit_match(py::module_& m) {
  bind_tolerances(m);
  bind_position(m);
  bind_logit_match_result(m);
  m.def("match_logits", &match, py::arg("ours"), py::arg("reference"),
        py::arg("tolerances") = py::none(), py::kw_only(),
        py::arg("module") = "logits",
        "Compares float32, bfloat16 or float16 logits, [positions, vocab], of "
        "two runs that were fed the same tokens. NumPy arrays and CPU tensors "
        "are read in place. What each figure means stands in "
        "trnscout/logit_match.h.");
}

}  // namespace trnscout::python
