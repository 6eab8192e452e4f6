#pragma once

// Arithmetic on vectors of `lanes` doubles, in the compiler's own vector types.
// Everything is in an unnamed namespace: each source that includes this is
// built for other instructions, and the linker must not take one's code for
// another's. For the same reason nothing of the standard library is called.

#include <cstdint>
#include <cstring>

#include "logit_row.h"

namespace trnscout {
namespace {

template <int lanes>
struct Vectors {
  typedef double Doubles __attribute__((vector_size(8 * lanes)));
  typedef std::int64_t Longs __attribute__((vector_size(8 * lanes)));
  typedef float Floats __attribute__((vector_size(4 * lanes)));
};

template <int lanes>
struct Maths {
  using Doubles = typename Vectors<lanes>::Doubles;
  using Longs = typename Vectors<lanes>::Longs;
  using Floats = typename Vectors<lanes>::Floats;

  static inline Doubles load(const float* values) {
    Floats out;
    std::memcpy(&out, values, sizeof(out));
    return __builtin_convertvector(out, Doubles);
  }
  static inline Doubles higher(Doubles a, Doubles b) { return a > b ? a : b; }
  static inline Doubles lower(Doubles a, Doubles b) { return a < b ? a : b; }
  static inline double sum_of(Doubles values) {
    double out = 0;
    for (int lane = 0; lane < lanes; ++lane) out += values[lane];
    return out;
  }
  static inline double highest_of(Doubles values) {
    double out = values[0];
    for (int lane = 1; lane < lanes; ++lane) {
      if (values[lane] > out) out = values[lane];
    }
    return out;
  }

  // exp(x) for x in [-708, 709], to within 3e-13 of it: x = n ln 2 + f with |f|
  // at most ln(2) / 2, a Taylor polynomial in f, and n added to the exponent.
  static inline Doubles exponential(Doubles x) {
    constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52
    constexpr double kLog2E = 1.4426950408889634;
    constexpr double kLn2High = 0.693147180369123816490;
    constexpr double kLn2Low = 1.90821492927058770002e-10;
    const Doubles shifted = x * kLog2E + kRound;
    const Doubles n = shifted - kRound;
    const Doubles f = (x - n * kLn2High) - n * kLn2Low;
    Doubles p = f * (1.0 / 3628800) + 1.0 / 362880;
    p = p * f + 1.0 / 40320;
    p = p * f + 1.0 / 5040;
    p = p * f + 1.0 / 720;
    p = p * f + 1.0 / 120;
    p = p * f + 1.0 / 24;
    p = p * f + 1.0 / 6;
    p = p * f + 0.5;
    p = p * f + 1.0;
    p = p * f + 1.0;
    // The low bits of `shifted` hold n; the shift drops what lies above them.
    return (Doubles)((Longs)p + ((Longs)shifted << 52));
  }

  // exp(x) - 1 - x for |x| <= kNearLimit: the first term left out is
  // x^13 / 13!, below 2^-53 of the first.
  static inline Doubles excess_near(Doubles x) {
    Doubles p = x * (1.0 / 479001600) + 1.0 / 39916800;
    p = p * x + 1.0 / 3628800;
    p = p * x + 1.0 / 362880;
    p = p * x + 1.0 / 40320;
    p = p * x + 1.0 / 5040;
    p = p * x + 1.0 / 720;
    p = p * x + 1.0 / 120;
    p = p * x + 1.0 / 24;
    p = p * x + 1.0 / 6;
    p = p * x + 0.5;
    return p * x * x;
  }

  static inline Doubles excess(Doubles x) {
    // Past the limit, the subtraction loses no more than 6 of 53 bits.
    const Doubles far = exponential(x) - 1.0 - x;
    const Doubles size = x < 0.0 ? -x : x;
    return size > kNearLimit ? far : excess_near(x);
  }
};

}  // namespace
}  // namespace trnscout
