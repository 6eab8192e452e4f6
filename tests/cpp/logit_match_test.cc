#include "trnscout/logit_match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "status_matchers.h"

namespace trnscout {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

LogitView view(const std::vector<float>& values, std::int64_t positions = 1) {
  const auto vocab = static_cast<std::int64_t>(values.size()) / positions;
  return {.data = values.data(),
          .type = LogitType::kFloat32,
          .positions = positions,
          .vocab = vocab,
          .row_stride = vocab};
}

float rounded_to_bfloat16(float value) {
  return static_cast<float>(
      std::nearbyint(std::ldexp(value, 7 - std::ilogb(value))) *
      std::ldexp(1.0, std::ilogb(value) - 7));
}

std::vector<float> rounded(std::vector<float> values) {
  for (float& value : values) value = rounded_to_bfloat16(value);
  return values;
}

std::vector<float> random_logits(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> logit(0.0F, 3.0F);
  std::vector<float> out(count);
  for (float& value : out) value = logit(random);
  return out;
}

// Divisors and differences by hand: T of top_k 2 is {4, 2}, of all {4, 2, -8}.
TEST(MatchLogits, DividesByTheLargestLogitOfTheLevel) {
  const std::vector<float> reference = {4, 2, -8};
  const std::vector<float> ours = {4, 2.5, -8};
  LogitTolerances tolerances;
  tolerances.levels = {{2, 0.2}, {kAllTokens, 0.05}};
  tolerances.absolute = 0.1;
  tolerances.shift = LogitShift::kKept;
  const auto match = match_logits(view(ours), view(reference), tolerances);
  ASSERT_THAT(match, IsOk());
  EXPECT_THAT(match->relative_errors, ElementsAre(0.4 / 4, 0.4 / 8));
  EXPECT_EQ(match->max_abs, 0.5);
  EXPECT_EQ(match->max_abs_token, 1);
  EXPECT_DOUBLE_EQ(match->rms, std::sqrt(0.25 / 3));
  EXPECT_EQ(match->worst_top_k, kAllTokens);
  EXPECT_DOUBLE_EQ(match->worst_ratio, 1.0);
  EXPECT_EQ(match->verdict, LogitVerdict::kMatch);
}

TEST(MatchLogits, DoesNotCountAConstantShift) {
  const std::vector<float> reference = {4, 2, -8, 1};
  const std::vector<float> ours = {7, 5, -5, 4};
  const auto match = match_logits(view(ours), view(reference));
  ASSERT_THAT(match, IsOk());
  EXPECT_DOUBLE_EQ(match->positions[0].shift, 3.0);
  EXPECT_THAT(match->relative_errors, ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(match->max_abs, 3.0);
  EXPECT_NEAR(match->kl_max, 0.0, 1e-15);
  LogitTolerances kept;
  kept.shift = LogitShift::kKept;
  EXPECT_EQ(match_logits(view(ours), view(reference), kept)->verdict,
            LogitVerdict::kMismatch);
}

TEST(MatchLogits, NamesTheLowestTokenAmongEquals) {
  const std::vector<float> reference = {1, 5, 5, 0};
  const auto match = match_logits(view(reference), view(reference));
  ASSERT_THAT(match, IsOk());
  EXPECT_EQ(match->positions[0].our_token, 1);
  EXPECT_EQ(match->positions[0].reference_token, 1);
  EXPECT_EQ(match->positions[0].reference_margin, 0.0);
  EXPECT_EQ(match->top1_agreement, 1.0);
  EXPECT_EQ(match->kl_max, 0.0);
}

std::vector<float> near_tie_reference() {
  return {1.3F, -2.7F, 4.1F, 10.01F, 3.3F, -5.2F, 0.7F, 10.02F, 7.77F, 6.1F};
}

// Both are 10.0 in bfloat16, and the lower id wins.
TEST(MatchLogits, CallsAFlipWithinTheNoiseOfRoundingATie) {
  const std::vector<float> reference = near_tie_reference();
  const std::vector<float> ours = rounded(reference);
  const auto match = match_logits(view(ours), view(reference));
  ASSERT_THAT(match, IsOk());
  const PositionMatch& at = match->positions[0];
  EXPECT_EQ(at.our_token, 3);
  EXPECT_EQ(at.reference_token, 7);
  EXPECT_EQ(at.top_token, TopToken::kTie);
  EXPECT_EQ(at.tie_bound, 0.0625);
  EXPECT_THAT(match->ties, ElementsAre(0));
  EXPECT_THAT(match->flips, IsEmpty());
  EXPECT_EQ(match->verdict, LogitVerdict::kTie);
  EXPECT_EQ(match->top1_agreement, 0.0);
}

// The same margin is no excuse where the other logits do not move at all.
TEST(MatchLogits, CallsASmallMarginAFlipWithoutNoise) {
  const std::vector<float> reference = near_tie_reference();
  std::vector<float> ours = reference;
  ours[3] = 10.03F;
  const auto match = match_logits(view(ours), view(reference));
  ASSERT_THAT(match, IsOk());
  EXPECT_EQ(match->positions[0].noise, 0.0);
  EXPECT_EQ(match->positions[0].top_token, TopToken::kFlipped);
  EXPECT_EQ(match->verdict, LogitVerdict::kMismatch);
  EXPECT_THAT(match->flips, ElementsAre(0));
}

// Nor where they move far: the levels fail.
TEST(MatchLogits, CallsASmallMarginAFlipWhereOtherLogitsAreFarOff) {
  const std::vector<float> reference = near_tie_reference();
  std::vector<float> ours = rounded(reference);
  ours[0] += 3;
  ours[4] -= 4;
  ours[8] -= 3;
  ours[9] += 3;
  const auto match = match_logits(view(ours), view(reference));
  ASSERT_THAT(match, IsOk());
  EXPECT_LT(match->positions[0].pair_margin, match->positions[0].noise);
  EXPECT_EQ(match->positions[0].top_token, TopToken::kFlipped);
}

TEST(MatchLogits, CallsAMarginPastTheHardBoundAFlip) {
  const std::vector<float> reference = {12, 10, 1, 2, 3, 4, 5, 6};
  std::vector<float> ours = {11, 11.5, 1.8F, 1.2F, 3.8F, 3.2F, 5.8F, 5.2F};
  LogitTolerances wide;
  wide.levels = {{kAllTokens, 1.0}};
  const auto match = match_logits(view(ours), view(reference), wide);
  ASSERT_THAT(match, IsOk());
  const PositionMatch& at = match->positions[0];
  EXPECT_LE(at.pair_margin + at.divergence, at.noise);
  EXPECT_GT(at.pair_margin, at.tie_bound);
  EXPECT_EQ(at.top_token, TopToken::kFlipped);
}

TEST(MatchLogits, ToleratesALeadBelowTheDivergenceTolerance) {
  const std::vector<float> reference = near_tie_reference();
  std::vector<float> ours = reference;
  ours[3] = 10.0205F;
  const auto match = match_logits(view(ours), view(reference));
  ASSERT_THAT(match, IsOk());
  EXPECT_EQ(match->positions[0].top_token, TopToken::kTolerated);
  EXPECT_TRUE(match->passes());
}

// Rounding to 18.0 and 18.125 keeps the order.
TEST(MatchLogits, MatchesWhereRoundingKeepsTheOrder) {
  const std::vector<float> reference = {18.05F, 18.10F, 3, 2, 1};
  const std::vector<float> ours = rounded(reference);
  EXPECT_EQ(ours[1], 18.125F);
  const auto match = match_logits(view(ours), view(reference));
  ASSERT_THAT(match, IsOk());
  EXPECT_EQ(match->positions[0].top_token, TopToken::kSame);
}

TEST(MatchLogits, LeavesOutWhatIsMaskedOnBothSides) {
  const std::vector<float> reference = {-kInf, 2, -kInf, 4, 1};
  const std::vector<float> ours = {-kInf, 2, -kInf, 4, 1.5};
  const auto match = match_logits(view(ours), view(reference));
  ASSERT_THAT(match, IsOk());
  EXPECT_FALSE(match->non_finite.has_value());
  EXPECT_EQ(match->positions[0].our_token, 3);
  EXPECT_EQ(match->max_abs_token, 4);
  EXPECT_DOUBLE_EQ(match->rms, std::sqrt(0.25 / 3));
  // A masked token is never named, not even where no token differs.
  EXPECT_EQ(match_logits(view(ours), view(ours))->max_abs_token, 1);
}

struct Unusable {
  std::vector<float> ours;
  std::vector<float> reference;
  const char* text;
};

TEST(MatchLogits, StopsWithoutATokenWhereALogitIsNoNumber) {
  const std::vector<Unusable> cases = {
      {{1, 2, kNan, 1},
       {1, 2, 1, 2},
       "ours, lm_head: nan at position 1, index 0"},
      {{1, 2, 1, kNan},
       {1, 2, 1, 2},
       "ours, lm_head: nan at position 1, index 1"},
      {{1, 2, kNan, kNan}, {1, 2, 1, 2}, "index 0; 2 not finite"},
      {{1, 2, 1, kInf}, {1, 2, 1, 2}, "inf at position 1, index 1"},
      {{1, 2, 1, 2}, {1, 2, kNan, 2}, "reference, lm_head: nan at position 1"},
      {{1, 2, -kInf, 2}, {1, 2, 1, 2}, "ours, lm_head: -inf at position 1"},
      {{1, 2, -kInf, -kInf}, {1, 2, -kInf, -kInf}, "-inf at position 1"},
  };
  for (const Unusable& one : cases) {
    SCOPED_TRACE(one.text);
    const auto match =
        match_logits(view(one.ours, 2), view(one.reference, 2), {}, "lm_head");
    ASSERT_THAT(match, IsOk());
    EXPECT_EQ(match->verdict, LogitVerdict::kNotFinite);
    EXPECT_FALSE(match->passes());
    EXPECT_EQ(match->positions.size(), 1U);
    ASSERT_TRUE(match->non_finite.has_value());
    EXPECT_THAT(non_finite_text(*match->non_finite), HasSubstr(one.text));
  }
}

double plain_kl(const std::vector<float>& ours,
                const std::vector<float>& reference) {
  double weight = 0, our_weight = 0, sum = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    weight += std::exp(static_cast<double>(reference[i]));
    our_weight += std::exp(static_cast<double>(ours[i]));
  }
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double log_p = reference[i] - std::log(weight);
    sum += std::exp(log_p) * (log_p - (ours[i] - std::log(our_weight)));
  }
  return sum;
}

TEST(MatchLogits, AgreesWithPlainArithmeticAtEverySizeAndDistance) {
  for (const std::size_t vocab : {1U, 2U, 7U, 8U, 9U, 31U, 4099U, 20001U}) {
    const std::vector<float> reference = random_logits(vocab, 1);
    const std::vector<float> noise = random_logits(vocab, 2);
    for (const float scale : {0.001F, 0.1F, 1.0F, 10.0F}) {
      SCOPED_TRACE(::testing::Message() << vocab << " by " << scale);
      std::vector<float> ours = reference;
      double squares = 0;
      for (std::size_t i = 0; i < vocab; ++i) {
        ours[i] += scale * noise[i];
        squares += std::pow(static_cast<double>(ours[i]) - reference[i], 2);
      }
      const auto match = match_logits(view(ours), view(reference));
      ASSERT_THAT(match, IsOk());
      const double kl = plain_kl(ours, reference);
      EXPECT_NEAR(match->kl_max, kl, 1e-11 * kl + 1e-14);
      EXPECT_NEAR(match->rms, std::sqrt(squares / static_cast<double>(vocab)),
                  1e-12);
    }
  }
}

TEST(MatchLogits, StaysFiniteForLogitsPastTheRangeOfExp) {
  const std::vector<float> reference = {3e38F, -3e38F, 0, 1000};
  const std::vector<float> ours = {-3e38F, 3e38F, 0, 1000};
  const auto match = match_logits(view(ours), view(reference));
  ASSERT_THAT(match, IsOk());
  EXPECT_NEAR(match->kl_max / 6e38, 1.0, 1e-6);
}

TEST(MatchLogits, ReadsRowsThatLieApartAndBackwards) {
  const std::vector<float> apart = {1, 2, 9, 4, 3, 9};
  const LogitView strided = {.data = apart.data() + 3,
                             .type = LogitType::kFloat32,
                             .positions = 2,
                             .vocab = 2,
                             .row_stride = -3};
  const std::vector<float> dense = {4, 3, 1, 2};
  const auto match = match_logits(strided, view(dense, 2));
  ASSERT_THAT(match, IsOk());
  EXPECT_EQ(match->max_abs, 0.0);
  EXPECT_EQ(match->positions[1].our_token, 1);
}

TEST(MatchLogits, RefusesWhatIsNoComparison) {
  const std::vector<float> four(4);
  EXPECT_THAT(
      match_logits(view(four), view(four, 2)),
      StatusIs(kInvalid, HasSubstr("ours is [1, 4], the reference [2, 2]")));
  EXPECT_THAT(match_logits(LogitView{}, view(four)),
              StatusIs(kInvalid, HasSubstr("ours: shape is [0, 0]")));
  LogitView empty = view(four);
  empty.data = nullptr;
  EXPECT_THAT(match_logits(view(four), empty),
              StatusIs(kInvalid, HasSubstr("reference: there is no data")));
  LogitView odd = view(four);
  odd.data = reinterpret_cast<const char*>(four.data()) + 1;
  EXPECT_THAT(match_logits(odd, view(four)),
              StatusIs(kInvalid, HasSubstr("not aligned to the 4 bytes")));
  LogitView wide = view(four);
  wide.vocab = std::int64_t{1} << 31;
  EXPECT_THAT(match_logits(wide, view(four)),
              StatusIs(kInvalid, HasSubstr("vocabulary is 2147483648")));
}

TEST(MatchLogits, RefusesTolerancesThatBoundNothing) {
  const std::vector<float> four(4);
  const auto status = [&](auto change) {
    LogitTolerances tolerances;
    change(tolerances);
    return match_logits(view(four), view(four), tolerances).status();
  };
  using T = LogitTolerances;
  EXPECT_THAT(status([](T& t) { t.levels = {}; }),
              StatusIs(kInvalid, HasSubstr("there is no level")));
  EXPECT_THAT(status([](T& t) {
                t.levels = {{-1, 0.1}};
              }),
              StatusIs(kInvalid, HasSubstr("top_k is -1")));
  EXPECT_THAT(status([](T& t) {
                t.levels = {{5, 0.1}, {5, 0.2}};
              }),
              StatusIs(kInvalid, HasSubstr("top_k 5 is given twice")));
  EXPECT_THAT(status([](T& t) {
                t.levels = {{5, 0.0}};
              }),
              StatusIs(kInvalid, HasSubstr("relative is 0")));
  EXPECT_THAT(status([](T& t) { t.absolute = -1; }),
              StatusIs(kInvalid, HasSubstr("absolute is -1")));
  EXPECT_THAT(status([](T& t) { t.divergence = 0; }),
              StatusIs(kInvalid, HasSubstr("divergence is 0")));
  EXPECT_THAT(status([](T& t) { t.tie_sigmas = kNan; }),
              StatusIs(kInvalid, HasSubstr("tie_sigmas is nan")));
  EXPECT_THAT(status([](T& t) { t.tie_steps = kInf; }),
              StatusIs(kInvalid, HasSubstr("tie_steps is inf")));
}

TEST(FindNonFinite, CountsEveryKindAndNamesTheFirst) {
  const std::vector<float> values = {1, -kInf, kNan, kInf, kNan, 2};
  const auto found = find_non_finite(view(values, 2), "layers.3.mlp");
  ASSERT_THAT(found, IsOk());
  ASSERT_TRUE(found->has_value());
  EXPECT_EQ(non_finite_text(**found, 6),
            "layers.3.mlp: -inf at position 0, index 1; 4 of 6 not finite");
  EXPECT_EQ((*found)->nans, 2);
}

TEST(FindNonFinite, AllowsMasksInARowThatOffersAToken) {
  const std::vector<float> values = {1, -kInf, -kInf, -kInf};
  const auto found =
      find_non_finite(view(values, 2), "logits", NegativeInfinity::kMasked);
  ASSERT_THAT(found, IsOk());
  ASSERT_TRUE(found->has_value());
  EXPECT_EQ((*found)->position, 1);
  EXPECT_EQ((*found)->count(), 2);
}

TEST(FindNonFinite, FindsNothingInTheLargestNumbers) {
  const std::vector<float> values(1000, std::numeric_limits<float>::max());
  EXPECT_FALSE(find_non_finite(view(values), "m")->has_value());
  EXPECT_THAT(find_non_finite(LogitView{}, "m"),
              StatusIs(kInvalid, HasSubstr("m: shape is [0, 0]")));
}

}  // namespace
}  // namespace trnscout
