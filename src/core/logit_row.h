#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace trnscout {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Sums over one pair of rows, in double. With d = ours - reference:
struct RowDifference {
  double sum_reference = 0;   // not finite where any reference is not
  double sum_difference = 0;  // not finite where any value of either is not
  double sum_difference_squares = 0;
  double sum_reference_squares = 0;
  double sum_products = 0;  // of reference and d
  double max_ours = -kInfinity;
  double max_reference = -kInfinity;
  double min_reference = kInfinity;
  double max_difference = -kInfinity;
  double min_difference = kInfinity;
};

// With weight = exp(reference - max_reference) and x = d - centre.
struct RowDivergence {
  double weight = 0;
  double weighted_x = 0;
  double weighted_g = 0;  // of g(x) = exp(x) - 1 - x, which is never negative
};

// How far x may lie from 0 in `divergence_near`, whose polynomial is exact to
// double precision there, and in `divergence`, where exp(x) must not overflow.
inline constexpr double kNearLimit = 0.25;
inline constexpr double kDivergenceLimit = 600.0;

// The loops over a row that take the time, for one set of CPU instructions.
struct RowKernels {
  RowDifference (*difference)(const float* ours, const float* reference,
                              std::int64_t count);
  RowDivergence (*divergence_near)(const float* ours, const float* reference,
                                   std::int64_t count, double max_reference,
                                   double centre);
  RowDivergence (*divergence)(const float* ours, const float* reference,
                              std::int64_t count, double max_reference,
                              double centre);
  // Writes the indices of values not below `pivot`, in order, and returns how
  // many there are; writes nothing past `room`.
  std::int64_t (*at_least)(const float* values, std::int64_t count, float pivot,
                           std::int32_t* indices, std::int64_t room);
  // Returns the sum, which is finite exactly where every value is.
  double (*sum)(const float* values, std::int64_t count);
  void (*widen_bfloat16)(const std::uint16_t* values, std::int64_t count,
                         float* out);
  void (*widen_float16)(const std::uint16_t* values, std::int64_t count,
                        float* out);
};

// The kernels that the CPU at hand can run, slowest first, and the fastest of
// them. One file holds these for a processor family with choices, another for
// those without.
std::vector<const RowKernels*> runnable_row_kernels();
const RowKernels& row_kernels();

// Each is in the source file of its name, built for those instructions.
const RowKernels& portable_row_kernels();
const RowKernels& avx2_row_kernels();
const RowKernels& avx512_row_kernels();

}  // namespace trnscout
