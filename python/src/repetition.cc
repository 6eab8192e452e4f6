#include "trnscout/repetition.h"

#include <pybind11/stl.h>

#include <cstdint>
#include <vector>

#include "bindings.h"
#include "status.h"

namespace trnscout::python {
namespace py = pybind11;
namespace {

Repetition look(const std::vector<std::int64_t>& tokens,
                std::int64_t max_period, std::int64_t min_repeats,
                std::int64_t min_tokens) {
  return unwrap(repetition(tokens, {.max_period = max_period,
                                    .min_repeats = min_repeats,
                                    .min_tokens = min_tokens}));
}

}  // namespace

void bind_repetition(py::module_& m) {
  const RepetitionOptions standard;
  py::class_<TokenLoop>(m, "TokenLoop",
                        "Tokens each of which is the one a period before.")
      .def_readonly("begin", &TokenLoop::begin)
      .def_readonly("tokens", &TokenLoop::tokens)
      .def_readonly("period", &TokenLoop::period)
      .def_property_readonly("repeats", &TokenLoop::repeats)
      .def("__repr__", [](const TokenLoop& self) {
        return py::str("TokenLoop(begin={}, tokens={}, period={})")
            .format(self.begin, self.tokens, self.period);
      });
  py::class_<Repetition>(m, "Repetition",
                         "How far a generation goes round in circles.")
      .def_readonly("tokens", &Repetition::tokens)
      .def_readonly("longest", &Repetition::longest)
      .def_readonly("tail", &Repetition::tail)
      .def_readonly("distinct", &Repetition::distinct,
                    "Different n-grams over n-grams, n from 1 to 4.")
      .def_readonly("loops", &Repetition::loops)
      .def("__repr__", [](const Repetition& self) {
        return py::str("Repetition(tokens={}, loops={}, tail={}, distinct={})")
            .format(self.tokens, self.loops, self.tail, self.distinct);
      });
  m.def("repetition", &look, py::arg("tokens"), py::kw_only(),
        py::arg("max_period") = standard.max_period,
        py::arg("min_repeats") = standard.min_repeats,
        py::arg("min_tokens") = standard.min_tokens,
        "Looks for stretches of tokens that repeat, and whether one lasts to "
        "the end.");
}

}  // namespace trnscout::python
