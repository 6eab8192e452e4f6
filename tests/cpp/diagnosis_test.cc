#include "trnscout/diagnosis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "status_matchers.h"

namespace trnscout {
namespace {

using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

MismatchFacts facts_of(const std::vector<std::int64_t>& ours,
                       const std::vector<std::int64_t>& theirs) {
  MismatchFacts facts;
  facts.tokens = *match_tokens(ours, theirs);
  facts.prompt_tokens = 10;
  return facts;
}

MismatchCause cause(const MismatchFacts& facts) {
  const auto diagnosis = diagnose(facts);
  EXPECT_THAT(diagnosis, IsOk());
  EXPECT_FALSE(diagnosis->sentence.empty());
  return diagnosis->cause;
}

TEST(Diagnose, TellsPrefillFromDecode) {
  EXPECT_EQ(cause(facts_of({1, 2}, {1, 2})), MismatchCause::kNone);
  EXPECT_EQ(cause(facts_of({9, 2}, {1, 2})), MismatchCause::kPrefill);
  MismatchFacts facts = facts_of({1, 9}, {1, 2});
  EXPECT_EQ(cause(facts), MismatchCause::kDecodeOrCache);
  facts.prefill_logits_match = Answer::kNo;
  EXPECT_EQ(cause(facts), MismatchCause::kPrefill);
  facts = facts_of({9}, {1});
  facts.prefill_logits_match = Answer::kYes;
  EXPECT_EQ(cause(facts), MismatchCause::kDecodeOrCache);
  EXPECT_THAT(diagnose(facts)->sentence, HasSubstr("choosing the token"));
}

TEST(Diagnose, NamesTheSlidingCacheOnlyPastItsWindow) {
  MismatchFacts facts = facts_of({1, 2, 3, 9}, {1, 2, 3, 4});
  facts.window = 12;  // the token at position 3 has 13 before it
  EXPECT_EQ(cause(facts), MismatchCause::kSlidingCache);
  facts.window = 13;
  EXPECT_EQ(cause(facts), MismatchCause::kDecodeOrCache);
  facts.window = 9;  // full from the start, and the first tokens were right
  EXPECT_EQ(cause(facts), MismatchCause::kDecodeOrCache);
}

TEST(Diagnose, NamesTheFirstModulePastItsBound) {
  MismatchFacts facts = facts_of({1, 9}, {1, 2});
  facts.sharded = Answer::kYes;
  facts.modules = {{"layers.0", 0.01, 0.02},
                   {"layers.1", 0.03, 0.02},
                   {"layers.2", 0.90, 0.02}};
  EXPECT_EQ(cause(facts), MismatchCause::kDecodeOrCache);
  facts.one_core_matches = Answer::kYes;
  EXPECT_EQ(cause(facts), MismatchCause::kSharding);
  EXPECT_EQ(diagnose(facts)->module, "layers.1");
  EXPECT_THAT(diagnose(facts)->sentence,
              HasSubstr("layers.1 is the first past its bound: 0.03, 0.02"));
  facts.modules = {{"embed", std::numeric_limits<double>::quiet_NaN(), 1.0}};
  EXPECT_EQ(diagnose(facts)->module, "embed");
}

TEST(Diagnose, SeesEndOfTextThatOneSideIgnored) {
  MismatchFacts facts = facts_of({1, 2, 5}, {1, 2});
  facts.eos_tokens = {2, 7};
  EXPECT_EQ(cause(facts), MismatchCause::kEosIgnored);
  EXPECT_THAT(diagnose(facts)->sentence, HasSubstr("ours goes on"));
  facts.eos_tokens = {5};  // theirs keeps it to itself
  EXPECT_EQ(cause(facts), MismatchCause::kEosIgnored);
  facts.eos_tokens = {7};
  EXPECT_EQ(cause(facts), MismatchCause::kDecodeOrCache);
}

TEST(Diagnose, SeesAPaddedRowThatWon) {
  MismatchFacts facts = facts_of({50263}, {11});
  facts.vocab = 50257;
  EXPECT_EQ(cause(facts), MismatchCause::kPaddedVocabulary);
  facts.vocab = 50264;
  EXPECT_EQ(cause(facts), MismatchCause::kPrefill);
}

TEST(Diagnose, PutsNonFiniteValuesFirst) {
  MismatchFacts facts = facts_of({0, 0}, {1, 2});
  facts.non_finite = NonFinite{.module = "layers.4", .position = 1, .index = 2};
  facts.non_finite->nans = 3;
  EXPECT_EQ(cause(facts), MismatchCause::kNotFinite);
  EXPECT_EQ(diagnose(facts)->module, "layers.4");
}

TEST(Diagnose, RefusesFactsThatCannotBe) {
  MismatchFacts facts = facts_of({1}, {2});
  facts.prompt_tokens = -1;
  EXPECT_THAT(diagnose(facts),
              StatusIs(kInvalid, HasSubstr("prompt_tokens is -1")));
  facts = facts_of({1}, {2});
  facts.window = 0;
  EXPECT_THAT(diagnose(facts), StatusIs(kInvalid, HasSubstr("window is 0")));
  facts = facts_of({1}, {2});
  facts.vocab = 0;
  EXPECT_THAT(diagnose(facts), StatusIs(kInvalid, HasSubstr("vocab is 0")));
  facts = facts_of({1}, {2});
  facts.modules = {{"a", 1.0, 0.0}};
  EXPECT_THAT(diagnose(facts), StatusIs(kInvalid, HasSubstr("a: bound is 0")));
  facts.modules = {{"a", -1.0, 1.0}};
  EXPECT_THAT(diagnose(facts), StatusIs(kInvalid, HasSubstr("error is -1")));
}

}  // namespace
}  // namespace trnscout
