#include "trnscout/repetition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "status_matchers.h"

namespace trnscout {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(Repetition, FindsThePeriodOfATail) {
  const std::vector<std::int64_t> tokens = {9, 8, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1};
  const auto result = repetition(tokens);
  ASSERT_THAT(result, IsOk());
  ASSERT_TRUE(result->tail.has_value());
  EXPECT_EQ(result->tail->begin, 2);
  EXPECT_EQ(result->tail->tokens, 10);
  EXPECT_EQ(result->tail->period, 3);
  EXPECT_EQ(result->tail->repeats(), 3);
  EXPECT_TRUE(result->loops);
}

TEST(Repetition, TellsAStretchInTheMiddleFromATail) {
  const std::vector<std::int64_t> tokens = {1, 5, 5, 5, 5, 5, 5, 5, 5, 2, 3};
  const auto result = repetition(tokens);
  ASSERT_THAT(result, IsOk());
  ASSERT_TRUE(result->longest.has_value());
  EXPECT_EQ(result->longest->begin, 1);
  EXPECT_EQ(result->longest->tokens, 8);
  EXPECT_EQ(result->longest->period, 1);
  EXPECT_FALSE(result->tail.has_value());
  EXPECT_FALSE(result->loops);
}

TEST(Repetition, CountsDifferentNgrams) {
  const auto result = repetition({{1, 2, 1, 2, 3}});
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(result->distinct, ElementsAre(3.0 / 5, 3.0 / 4, 1.0, 1.0));
  EXPECT_THAT(repetition({})->distinct, ElementsAre(0, 0, 0, 0));
}

TEST(Repetition, FindsNoneInTokensThatAllDiffer) {
  std::vector<std::int64_t> tokens(200);
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto result = repetition(tokens);
  EXPECT_FALSE(result->longest.has_value());
  EXPECT_THAT(result->distinct, ElementsAre(1, 1, 1, 1));
}

TEST(Repetition, RefusesBadOptionsAndTokens) {
  EXPECT_THAT(repetition({{1}}, {.max_period = 0}),
              StatusIs(kInvalid, HasSubstr("max_period is 0")));
  EXPECT_THAT(repetition({{1}}, {.max_period = 4097}),
              StatusIs(kInvalid, HasSubstr("from 1 to 4096")));
  EXPECT_THAT(repetition({{1}}, {.min_repeats = 1}),
              StatusIs(kInvalid, HasSubstr("min_repeats is 1")));
  EXPECT_THAT(repetition({{1}}, {.min_tokens = 0}),
              StatusIs(kInvalid, HasSubstr("min_tokens is 0")));
  EXPECT_THAT(repetition({{1, -3}}), StatusIs(absl::StatusCode::kOutOfRange,
                                              HasSubstr("position 1 is -3")));
}

}  // namespace
}  // namespace trnscout
