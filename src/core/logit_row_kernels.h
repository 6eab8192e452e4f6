#pragma once

// The loops of RowKernels for vectors of `lanes` doubles. See logit_row_maths.h
// for why everything is in an unnamed namespace.

#include <cstdint>
#include <cstring>

#include "logit_row.h"
#include "logit_row_maths.h"

namespace trnscout {
namespace {

template <int lanes>
struct Loops : Maths<lanes> {
  using typename Maths<lanes>::Doubles;
  using typename Maths<lanes>::Floats;
  using Maths<lanes>::load;
  using Maths<lanes>::higher;
  using Maths<lanes>::lower;
  using Maths<lanes>::sum_of;
  using Maths<lanes>::highest_of;
  using Maths<lanes>::exponential;
  using Maths<lanes>::excess;
  using Maths<lanes>::excess_near;

  // Calls `step(ours, reference, used)` for each vector; the last one repeats
  // the row's last values, with `used` 0, where the row has ended.
  template <typename Step>
  static inline void each(const float* ours, const float* reference,
                          std::int64_t count, Step step) {
    const Doubles all = Doubles{} + 1.0;
    std::int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      step(load(ours + i), load(reference + i), all);
    }
    if (i == count) return;
    float last_ours[lanes];
    float last_reference[lanes];
    Doubles used = all;
    for (int lane = 0; lane < lanes; ++lane) {
      const std::int64_t at = i + lane < count ? i + lane : count - 1;
      last_ours[lane] = ours[at];
      last_reference[lane] = reference[at];
      if (i + lane >= count) used[lane] = 0;
    }
    step(load(last_ours), load(last_reference), used);
  }

  static RowDifference difference(const float* ours, const float* reference,
                                  std::int64_t count) {
    constexpr RowDifference start{};
    Doubles sum_r{}, sum_d{}, sum_dd{}, sum_rr{}, sum_rd{};
    Doubles max_o = Doubles{} + start.max_ours, max_r = max_o, max_d = max_o;
    Doubles min_r = Doubles{} + start.min_reference, min_d = min_r;
    each(ours, reference, count, [&](Doubles o, Doubles r, Doubles used) {
      const Doubles d = o - r;
      sum_r += r * used;
      sum_d += d * used;
      sum_dd += d * d * used;
      sum_rr += r * r * used;
      sum_rd += r * d * used;
      max_o = higher(o, max_o);
      max_r = higher(r, max_r);
      min_r = lower(r, min_r);
      max_d = higher(d, max_d);
      min_d = lower(d, min_d);
    });
    return {.sum_reference = sum_of(sum_r),
            .sum_difference = sum_of(sum_d),
            .sum_difference_squares = sum_of(sum_dd),
            .sum_reference_squares = sum_of(sum_rr),
            .sum_products = sum_of(sum_rd),
            .max_ours = highest_of(max_o),
            .max_reference = highest_of(max_r),
            .min_reference = -highest_of(-min_r),
            .max_difference = highest_of(max_d),
            .min_difference = -highest_of(-min_d)};
  }

  template <typename Excess>
  static inline RowDivergence diverge(const float* ours, const float* reference,
                                      std::int64_t count, double max_reference,
                                      double centre, Excess excess_of) {
    Doubles weight{}, weighted_x{}, weighted_g{};
    const Doubles lowest = Doubles{} - 708.0;
    each(ours, reference, count, [&](Doubles o, Doubles r, Doubles used) {
      const Doubles w = exponential(higher(r - max_reference, lowest)) * used;
      const Doubles x = (o - r) - centre;
      weight += w;
      weighted_x += w * x;
      weighted_g += w * excess_of(x);
    });
    return {sum_of(weight), sum_of(weighted_x), sum_of(weighted_g)};
  }

  static RowDivergence divergence_near(const float* ours,
                                       const float* reference,
                                       std::int64_t count, double max_reference,
                                       double centre) {
    return diverge(ours, reference, count, max_reference, centre,
                   [](Doubles x) { return excess_near(x); });
  }

  static RowDivergence divergence(const float* ours, const float* reference,
                                  std::int64_t count, double max_reference,
                                  double centre) {
    return diverge(ours, reference, count, max_reference, centre,
                   [](Doubles x) { return excess(x); });
  }

  static constexpr int kBlock = 16;

  static inline bool any_at_least(const float* values, float pivot) {
    Floats part{};
    auto reached = part != part;  // nowhere
    for (int i = 0; i < kBlock; i += lanes) {
      std::memcpy(&part, values + i, sizeof(part));
      reached |= part >= pivot;
    }
    std::uint64_t words[lanes / 2];
    std::memcpy(words, &reached, sizeof(words));
    std::uint64_t any = 0;
    for (const std::uint64_t word : words) any |= word;
    return any != 0;
  }

  static std::int64_t at_least(const float* values, std::int64_t count,
                               float pivot, std::int32_t* indices,
                               std::int64_t room) {
    std::int64_t found = 0;
    std::int64_t i = 0;
    const auto take = [&](std::int64_t at) {
      if (!(values[at] >= pivot)) return;
      if (found < room) indices[found] = static_cast<std::int32_t>(at);
      ++found;
    };
    for (; i + kBlock <= count; i += kBlock) {
      if (!any_at_least(values + i, pivot)) continue;
      if (found + kBlock > room) {
        for (int j = 0; j < kBlock; ++j) take(i + j);
        continue;
      }
      for (int j = 0; j < kBlock; ++j) {  // no branch to guess wrong
        indices[found] = static_cast<std::int32_t>(i + j);
        found += values[i + j] >= pivot ? 1 : 0;
      }
    }
    for (; i < count; ++i) take(i);
    return found;
  }

  static double sum(const float* values, std::int64_t count) {
    Doubles first{}, second{};
    std::int64_t i = 0;
    for (; i + 2 * lanes <= count; i += 2 * lanes) {
      first += load(values + i);
      second += load(values + i + lanes);
    }
    double out = sum_of(first + second);
    for (; i < count; ++i) out += static_cast<double>(values[i]);
    return out;
  }

  static void widen_bfloat16(const std::uint16_t* values, std::int64_t count,
                             float* out) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint32_t bits = static_cast<std::uint32_t>(values[i]) << 16;
      std::memcpy(out + i, &bits, sizeof(bits));
    }
  }

  // Exponent and mantissa as they are, then scaled by a power of two, which
  // also makes subnormal numbers right; infinities and NaN get all ones back.
  static void widen_float16(const std::uint16_t* values, std::int64_t count,
                            float* out) {
    constexpr float kScale = 5192296858534827628530496329220096.0F;  // 2^112
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint32_t half = values[i];
      const std::uint32_t magnitude = (half & 0x7fffU) << 13;
      float value;
      std::memcpy(&value, &magnitude, sizeof(value));
      value *= kScale;
      std::uint32_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      bits |= (half & 0x7c00U) == 0x7c00U ? 0x7f800000U : 0U;
      bits |= (half & 0x8000U) << 16;
      std::memcpy(out + i, &bits, sizeof(bits));
    }
  }

  static constexpr RowKernels kernels() {
    return {&difference, &divergence_near, &divergence,   &at_least,
            &sum,        &widen_bfloat16,  &widen_float16};
  }
};

}  // namespace
}  // namespace trnscout
