#include "trnscout/token_match.h"

#include <pybind11/stl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bindings.h"
#include "status.h"

namespace trnscout::python {
namespace py = pybind11;
namespace {

TokenMatch match(const std::vector<std::int64_t>& ours,
                 const std::vector<std::int64_t>& theirs,
                 std::optional<std::int64_t> vocab) {
  return unwrap(match_tokens(ours, theirs, {.vocab = vocab}));
}

}  // namespace

void bind_token_match(py::module_& m) {
  py::class_<TokenDifference>(m, "TokenDifference",
                              "First place where two sequences part.")
      .def_readonly("position", &TokenDifference::position)
      .def_readonly("ours", &TokenDifference::ours,
                    "None where ours had ended.")
      .def_readonly("theirs", &TokenDifference::theirs,
                    "None where theirs had ended.")
      .def("__repr__", [](const TokenDifference& self) {
        return py::str("TokenDifference(position={}, ours={}, theirs={})")
            .format(self.position, self.ours, self.theirs);
      });
  py::class_<TokenMatch>(m, "TokenMatch",
                         "Two greedy sequences beside each other.")
      .def_readonly("our_tokens", &TokenMatch::our_tokens)
      .def_readonly("their_tokens", &TokenMatch::their_tokens)
      .def_readonly("same_tokens", &TokenMatch::same_tokens)
      .def_readonly("first_difference", &TokenMatch::first_difference)
      .def_readonly("last_shared_token", &TokenMatch::last_shared_token)
      .def_property_readonly("equal", &TokenMatch::equal)
      .def("__str__", &token_match_text)
      .def("__repr__", [](const TokenMatch& self) {
        return "TokenMatch(" + token_match_text(self) + ")";
      });
  m.def("match_tokens", &match, py::arg("ours"), py::arg("theirs"),
        py::kw_only(), py::arg("vocab") = py::none(),
        "Compares two sequences of token ids. Raises OutOfRangeError where an "
        "id is negative or not below vocab.");
}

}  // namespace trnscout::python
