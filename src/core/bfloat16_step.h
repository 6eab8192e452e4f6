#pragma once

#include <cmath>

namespace trnscout {

// Distance of neighbouring numbers at the size of `value` in a type with
// `significant_bits`, the leading one counted: 8 in bfloat16, 11 in float16.
inline double number_step(double value, int significant_bits) {
  if (value == 0) return 0;
  return std::ldexp(1.0, std::ilogb(value) + 1 - significant_bits);
}

inline double bfloat16_step(double value) { return number_step(value, 8); }

}  // namespace trnscout
