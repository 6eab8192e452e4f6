#include "trnscout/diagnosis.h"

#include <pybind11/stl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bindings.h"
#include "status.h"

namespace trnscout::python {
namespace py = pybind11;
namespace {

Answer answer(std::optional<bool> value) {
  if (!value.has_value()) return Answer::kUnknown;
  return *value ? Answer::kYes : Answer::kNo;
}

Diagnosis judge(
    const TokenMatch& tokens, const std::optional<NonFinite>& non_finite,
    std::int64_t prompt_tokens, std::optional<std::int64_t> vocab,
    std::optional<std::int64_t> window,
    const std::vector<std::int64_t>& eos_tokens,
    std::optional<bool> prefill_logits_match, std::optional<bool> sharded,
    std::optional<bool> one_core_matches,
    const std::vector<std::tuple<std::string, double, double>>& modules) {
  MismatchFacts facts;
  facts.tokens = tokens;
  facts.non_finite = non_finite;
  facts.prompt_tokens = prompt_tokens;
  facts.vocab = vocab;
  facts.window = window;
  facts.eos_tokens = eos_tokens;
  facts.prefill_logits_match = answer(prefill_logits_match);
  facts.sharded = answer(sharded);
  facts.one_core_matches = answer(one_core_matches);
  for (const auto& [module, error, bound] : modules) {
    facts.modules.push_back({module, error, bound});
  }
  return unwrap(diagnose(facts));
}

}  // namespace

void bind_diagnosis(py::module_& m) {
  py::class_<Diagnosis>(m, "Diagnosis", "The likely cause of a mismatch.")
      .def_property_readonly(
          "cause",
          [](const Diagnosis& self) {
            return std::string(mismatch_cause_name(self.cause));
          },
          "'none', 'not_finite', 'padded_vocabulary', 'eos_ignored', "
          "'sharding', 'prefill', 'sliding_cache' or 'decode_or_cache'.")
      .def_readonly("module", &Diagnosis::module,
                    "First module past its bound, or not finite.")
      .def_readonly("sentence", &Diagnosis::sentence)
      .def("__str__", [](const Diagnosis& self) { return self.sentence; })
      .def("__repr__", [](const Diagnosis& self) {
        return "Diagnosis(" + std::string(mismatch_cause_name(self.cause)) +
               ": " + self.sentence + ")";
      });
  m.def("diagnose", &judge, py::arg("tokens"), py::kw_only(),
        py::arg("non_finite") = py::none(), py::arg("prompt_tokens") = 0,
        py::arg("vocab") = py::none(), py::arg("window") = py::none(),
        py::arg("eos_tokens") = std::vector<std::int64_t>(),
        py::arg("prefill_logits_match") = py::none(),
        py::arg("sharded") = py::none(),
        py::arg("one_core_matches") = py::none(),
        py::arg("modules") =
            std::vector<std::tuple<std::string, double, double>>(),
        "Names the likely cause of a mismatch from the facts at hand; modules "
        "are (name, error, bound) in the order of execution.");
}

}  // namespace trnscout::python
