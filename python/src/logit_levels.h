#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <vector>

#include "trnscout/logit_match.h"

namespace trnscout::python {

// Python says None for the whole vocabulary.
inline pybind11::object top_k_object(std::int64_t top_k) {
  return top_k == kAllTokens ? pybind11::object(pybind11::none())
                             : pybind11::int_(top_k);
}

inline pybind11::dict levels_dict(const std::vector<TopKTolerance>& levels) {
  pybind11::dict out;
  for (const TopKTolerance& level : levels) {
    out[top_k_object(level.top_k)] = level.relative;
  }
  return out;
}

void bind_logit_match_result(pybind11::module_& m);

}  // namespace trnscout::python
