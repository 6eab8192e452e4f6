#include "trnscout/drift.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "status_matchers.h"

namespace trnscout {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(Drift, FitsALineExactly) {
  std::vector<double> errors;
  for (int i = 0; i < 64; ++i) errors.push_back(1 + 0.5 * i);
  const auto result = drift(errors);
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(result->medians, ElementsAre(4.75, 12.75, 20.75, 28.75));
  EXPECT_DOUBLE_EQ(result->slope, 0.5);
  EXPECT_DOUBLE_EQ(result->ratio, 28.75 / 4.75);
  EXPECT_TRUE(result->grows);
}

TEST(Drift, IsNotMovedBySinglePositions) {
  std::vector<double> errors(64, 1.0);
  errors[60] = 1000;
  errors[63] = 1000;
  const auto result = drift(errors);
  EXPECT_EQ(result->slope, 0.0);
  EXPECT_EQ(result->ratio, 1.0);
  EXPECT_FALSE(result->grows);
}

TEST(Drift, HasARatioWhereErrorsAreZero) {
  EXPECT_EQ(drift({{0, 0}}, {.window = 1})->ratio, 1.0);
  const auto from_zero = drift({{0, 1}}, {.window = 1});
  EXPECT_EQ(from_zero->ratio, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(from_zero->grows);
}

TEST(Drift, RefusesWhatHasNoTrend) {
  EXPECT_THAT(drift({{1, 2, 3}}, {.window = 2}),
              StatusIs(kInvalid, HasSubstr("3 positions make 1 windows of 2")));
  EXPECT_THAT(drift(std::vector<double>(1025), {.window = 1}),
              StatusIs(kInvalid, HasSubstr("from 2 to 1024 windows")));
  EXPECT_THAT(drift({{1, 2}}, {.window = 0}),
              StatusIs(kInvalid, HasSubstr("window is 0")));
  EXPECT_THAT(drift({{1, 2}}, {.window = 1, .growth = 1}),
              StatusIs(kInvalid, HasSubstr("growth is 1")));
  EXPECT_THAT(drift({{1, -2}}, {.window = 1}),
              StatusIs(kInvalid, HasSubstr("error at position 1 is -2")));
  EXPECT_THAT(drift({{std::nan(""), 2}}, {.window = 1}),
              StatusIs(kInvalid, HasSubstr("error at position 0 is nan")));
}

}  // namespace
}  // namespace trnscout
