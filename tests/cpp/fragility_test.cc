#include "trnscout/fragility.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "status_matchers.h"

namespace trnscout {
namespace {

using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

LogitView view(const std::vector<float>& values, std::int64_t positions) {
  const auto vocab = static_cast<std::int64_t>(values.size()) / positions;
  return {.data = values.data(),
          .type = LogitType::kFloat32,
          .positions = positions,
          .vocab = vocab,
          .row_stride = vocab};
}

// By hand: half a step at 10 is 2^-5, at 3 it is 2^-7, at 1 it is 2^-8.
TEST(Fragility, JudgesMarginsByTheStepOfBfloat16) {
  const std::vector<float> logits = {10, 1, 10.03125F,  //
                                     3,  1, 1};
  const auto result = fragility(view(logits, 2), {.most_fragile = 1});
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->positions, 2);
  EXPECT_EQ(result->smallest_margin, 0.03125);
  EXPECT_EQ(result->smallest_margin_position, 0);
  EXPECT_EQ(result->within_rounding, 1);
  ASSERT_EQ(result->most_fragile.size(), 1U);
  const FragilePosition& at = result->most_fragile[0];
  EXPECT_EQ(at.token, 2);
  EXPECT_EQ(at.runner_up, 0);
  EXPECT_EQ(at.rounding, 2 * std::ldexp(1.0, -5));
  // margin h over a deviation of h * sqrt(2 / 3), h half a step
  EXPECT_NEAR(at.flip_probability, 0.5 * std::erfc(std::sqrt(0.75)), 1e-12);
  EXPECT_NEAR(result->expected_flips, at.flip_probability, 1e-12);
  EXPECT_NEAR(result->any_flip_probability, at.flip_probability, 1e-12);
}

TEST(Fragility, GrowsWithTheNoise) {
  const std::vector<float> logits = {10, 10.5F};
  double last = 0;
  for (const double noise : {1.0, 2.0, 4.0, 8.0}) {
    const auto result = fragility(view(logits, 1), {.noise_scale = noise});
    EXPECT_GT(result->expected_flips, last);
    last = result->expected_flips;
  }
  EXPECT_LT(last, 0.5);
}

TEST(Fragility, GivesAnExactTieEvenOdds) {
  const std::vector<float> logits = {0, 0, 5, 5};
  const auto result = fragility(view(logits, 2));
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->expected_flips, 1.0);
  EXPECT_DOUBLE_EQ(result->any_flip_probability, 0.75);
  EXPECT_EQ(result->most_fragile[0].token, 0);
  EXPECT_EQ(result->most_fragile[0].runner_up, 1);
}

TEST(Fragility, RefusesWhatHasNoMargin) {
  const std::vector<float> one = {1};
  EXPECT_THAT(fragility(view(one, 1)),
              StatusIs(kInvalid, HasSubstr("vocabulary is 1")));
  EXPECT_THAT(fragility(LogitView{}),
              StatusIs(kInvalid, HasSubstr("shape is [0, 0]")));
  const std::vector<float> masked = {1, 2, 1, -kInf};
  EXPECT_THAT(fragility(view(masked, 2)),
              StatusIs(kInvalid, HasSubstr("position 1 has one token")));
  const std::vector<float> nan = {1, std::nanf("")};
  EXPECT_THAT(fragility(view(nan, 1)),
              StatusIs(kInvalid, HasSubstr("reference: nan at position 0")));
  const std::vector<float> two = {1, 2};
  EXPECT_THAT(fragility(view(two, 1), {.noise_scale = 0}),
              StatusIs(kInvalid, HasSubstr("noise_scale is 0")));
  EXPECT_THAT(fragility(view(two, 1), {.most_fragile = -1}),
              StatusIs(kInvalid, HasSubstr("most_fragile is -1")));
}

}  // namespace
}  // namespace trnscout
