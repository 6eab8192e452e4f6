#include "trnscout/token_match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "status_matchers.h"

namespace trnscout {
namespace {

using ::testing::HasSubstr;

TEST(MatchTokens, FindsTheFirstDifference) {
  const auto match = match_tokens({{1, 2, 3}}, {{1, 9, 3}});
  ASSERT_THAT(match, IsOk());
  EXPECT_FALSE(match->equal());
  EXPECT_EQ(match->first_difference->position, 1);
  EXPECT_EQ(match->first_difference->ours, 2);
  EXPECT_EQ(match->first_difference->theirs, 9);
  EXPECT_EQ(token_match_text(*match),
            "tokens differ first at position 1: ours has token 2, theirs token "
            "9");
}

TEST(MatchTokens, CountsAnEarlierEndAsADifference) {
  const auto match = match_tokens({{1}}, {{1, 4}});
  ASSERT_THAT(match, IsOk());
  EXPECT_EQ(match->first_difference->position, 1);
  EXPECT_FALSE(match->first_difference->ours.has_value());
  EXPECT_EQ(match->first_difference->theirs, 4);
  EXPECT_THAT(token_match_text(*match), HasSubstr("ours has the end"));
  EXPECT_TRUE(match_tokens({}, {})->equal());
}

TEST(MatchTokens, RefusesWhatIsNoToken) {
  EXPECT_THAT(match_tokens({{1, -2}}, {{1}}),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("ours: token at position 1 is -2")));
  EXPECT_THAT(match_tokens({{1}}, {{8}}, {.vocab = 8}),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("theirs: token at position 0 is 8, the "
                                 "vocabulary has 8")));
  EXPECT_THAT(
      match_tokens({{1}}, {{1}}, {.vocab = 0}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("vocab is 0")));
}

}  // namespace
}  // namespace trnscout
