#include "logit_row.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "top_tokens.h"

namespace trnscout {
namespace {

std::vector<float> random_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> value(0.0F, 3.0F);
  std::vector<float> out(count);
  for (float& one : out) one = value(random);
  return out;
}

TEST(RowKernels, DivergenceAgreesWithTheStandardLibrary) {
  for (const RowKernels* one : runnable_row_kernels()) {
    for (const std::int64_t count : {1, 3, 8, 17, 1000}) {
      const auto reference = random_values(static_cast<std::size_t>(count), 1);
      auto ours = random_values(static_cast<std::size_t>(count), 2);
      double weight = 0, weighted_x = 0, weighted_g = 0;
      for (std::size_t i = 0; i < ours.size(); ++i) {
        const double x = static_cast<double>(ours[i]) - reference[i] - 0.25;
        const double w = std::exp(reference[i] - 9.0);
        weight += w;
        weighted_x += w * x;
        weighted_g += w * (std::expm1(x) - x);
      }
      const RowDivergence sums = one->divergence(ours.data(), reference.data(),
                                                 count, /*max_reference=*/9.0,
                                                 /*centre=*/0.25);
      EXPECT_NEAR(sums.weight / weight, 1.0, 1e-12);
      EXPECT_NEAR(sums.weighted_x, weighted_x, 1e-11 * weight);
      EXPECT_NEAR(sums.weighted_g / weighted_g, 1.0, 1e-10);
    }
  }
}

TEST(RowKernels, WidensEveryNumberOf16Bits) {
  std::vector<std::uint16_t> halves(65536);
  std::iota(halves.begin(), halves.end(), std::uint16_t{0});
  std::vector<float> wide(halves.size());
  for (const RowKernels* one : runnable_row_kernels()) {
    one->widen_float16(halves.data(), 65536, wide.data());
    for (std::size_t i = 0; i < halves.size(); ++i) {
      const int exponent = (halves[i] >> 10) & 31;
      const double fraction = halves[i] & 1023;
      const double sign = halves[i] >= 32768 ? -1 : 1;
      if (exponent == 31) {
        EXPECT_EQ(std::isnan(wide[i]), fraction != 0);
        EXPECT_EQ(std::isinf(wide[i]), fraction == 0);
        EXPECT_EQ(std::signbit(wide[i]), sign < 0);
      } else if (exponent == 0) {
        EXPECT_EQ(wide[i], sign * std::ldexp(fraction, -24));
      } else {
        EXPECT_EQ(wide[i], sign * std::ldexp(1024 + fraction, exponent - 25));
      }
    }
    one->widen_bfloat16(halves.data(), 65536, wide.data());
    for (std::size_t i = 0; i < halves.size(); ++i) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(wide[i]), i << 16);
    }
  }
}

TEST(RowKernels, ListsNoMoreThanThereIsRoomFor) {
  const std::vector<float> values(100, 1.0F);
  for (const RowKernels* one : runnable_row_kernels()) {
    std::vector<std::int32_t> indices(20, -1);
    EXPECT_EQ(one->at_least(values.data(), 100, 1.0F, indices.data(), 19), 100);
    EXPECT_EQ(indices[18], 18);
    EXPECT_EQ(indices[19], -1);
  }
}

// Rows long enough to be sampled, with many equals, and in bad orders.
TEST(TopTokens, AgreeWithASort) {
  for (const std::size_t count : {1U, 5U, 5000U, 50000U}) {
    for (const int kind : {0, 1, 2, 3}) {
      auto row = random_values(count, 3);
      if (kind == 1)
        for (float& value : row) value = std::round(value);
      if (kind == 2) std::sort(row.begin(), row.end());
      if (kind == 3) std::fill(row.begin(), row.end(), -0.0F);
      std::vector<std::int32_t> order(count);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
        return row[static_cast<std::size_t>(a)] >
               row[static_cast<std::size_t>(b)];
      });
      TopTokens top(static_cast<std::int64_t>(count));
      for (const std::int64_t k : {1, 2, 50, 1000}) {
        top.select(row, k);
        ASSERT_EQ(top.size(),
                  std::min<std::int64_t>(k, static_cast<std::int64_t>(count)));
        top.sort(top.size());
        for (std::int64_t i = 0; i < top.size(); ++i) {
          ASSERT_EQ(top.index(i), order[static_cast<std::size_t>(i)]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace trnscout
