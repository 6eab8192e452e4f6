#include "name_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "status_matchers.h"

namespace trnscout {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What a pattern meets in a name, or "-" where it meets nothing.
std::string met(absl::string_view regex, absl::string_view name) {
  const auto pattern = NamePattern::compile(regex);
  EXPECT_THAT(pattern, IsOk());
  const auto match =
      pattern.ok() ? pattern->search(name) : std::optional<NameMatch>();
  if (!match) return "-";
  return std::string(name.substr(match->begin, match->end - match->begin));
}

TEST(NamePattern, MeetsTheLeftmostPlace) {
  EXPECT_EQ(met("b.", "abcbd"), "bc");
  EXPECT_EQ(met(R"(\.gate\.)", "a.gate.b"), ".gate.");
  EXPECT_EQ(met(R"(\.gate\.)", "a_gate.b"), "-");
  EXPECT_EQ(met(".", ""), "-");
  EXPECT_EQ(met("", "a"), "");
}

TEST(NamePattern, IsGreedyAndTakesTheFirstAlternative) {
  EXPECT_EQ(met(R"(experts.*\.w1)", "experts.1.w1.w1.w2"), "experts.1.w1.w1");
  EXPECT_EQ(met("(a|ab|abc)c?", "abc"), "a");
  EXPECT_EQ(met("(ab|a|abc)c?", "abc"), "abc");
  EXPECT_EQ(met(R"(layers\.\d+$)", "layers.1.layers.23"), "layers.23");
  EXPECT_EQ(met("conv[123]x", "conv4x.conv2x"), "conv2x");
  EXPECT_EQ(met("(?:ab)?c", "abc"), "abc");
  EXPECT_EQ(met("(?:ab)?c", "ac"), "c");
}

TEST(NamePattern, KeepsWhatGroupsHold) {
  const auto pattern = NamePattern::compile(R"(^(a|b)\.(\d+)\.(c)?(.+))");
  ASSERT_THAT(pattern, IsOk());
  const auto match = pattern->search("b.12.rest");
  ASSERT_TRUE(match.has_value());
  EXPECT_THAT(match->groups, ElementsAre("b", "12", "", "rest"));
}

TEST(NamePattern, LooksAheadAndBehind) {
  EXPECT_EQ(met(R"(^model(?!\.(visual|text)))", "model.visual"), "-");
  EXPECT_EQ(met(R"(^model(?!\.(visual|text)))", "model.layers"), "model");
  EXPECT_EQ(met(R"(weight(?!\w))", "weight_scale.weight"), "weight");
  EXPECT_EQ(met(R"((?<!_)(?<!\w)norm\.)", "q_norm.norm.x"), "norm.");
  EXPECT_EQ(met(R"((?<!_)(?<!\w)norm\.)", "q_norm.x"), "-");
  EXPECT_EQ(met(R"(^model\.(?:(?!model\.))(.+))", "model.model.x"), "-");
  EXPECT_EQ(met("a(?=b)", "acab"), "a");
}

TEST(NamePattern, RefusesWhatItDoesNotKnow) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  const std::pair<const char*, const char*> bad[] = {
      {"(a", "a group without its end"},
      {"a)", "a closing bracket too many"},
      {"[a-z]", "a class of more than letters"},
      {"[ab", "a class without its end"},
      {R"(\s)", "an unknown escape"},
      {"a\\", "a backslash at the end"},
      {"(?P<x>a)", "an unknown kind of group"},
      {"*a", "a repeat of nothing"},
      {"^+a", "a repeat of nothing"},
      {"a$*", "a repeat of nothing"},
      {"(ab)*", "a repeat of more than one letter"},
      {"a+?", "a repeat that is not greedy"},
      {"(?<!a*)b", "a look behind of no one length"},
      {"a|b", "an alternative outside a group"},
  };
  for (const auto& [regex, why] : bad) {
    EXPECT_THAT(NamePattern::compile(regex), StatusIs(kInvalid, HasSubstr(why)))
        << regex;
  }
  EXPECT_THAT(NamePattern::compile(std::string(20, '(')),
              StatusIs(kInvalid, HasSubstr("nested too deep")));
}

TEST(NamePattern, SaysWhetherItTellsDigitsApart) {
  const auto tells = [](absl::string_view regex) {
    const auto pattern = NamePattern::compile(regex);
    EXPECT_THAT(pattern, IsOk());
    return pattern.ok() && pattern->tells_digits();
  };
  EXPECT_FALSE(tells(R"(layers\.\d+\.(\w+).*[ab](?!\w))"));
  EXPECT_FALSE(tells("[0123456789]x"));
  EXPECT_TRUE(tells("conv[12]x"));
  EXPECT_TRUE(tells(R"(layers\.0\.)"));
  EXPECT_TRUE(tells("a(?!7)"));
}

TEST(NamePattern, IsCompiledOnceWhereShared) {
  const auto first = NamePattern::shared("a.b");
  ASSERT_THAT(first, IsOk());
  const auto second = NamePattern::shared("a.b");
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(*first, *second);
  EXPECT_THAT(NamePattern::shared("a|b"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("an alternative outside a group")));
}

TEST(NamePattern, IsBoundedInHostileNames) {
  const auto pattern = NamePattern::compile(R"(a.*a\.?b)");
  ASSERT_THAT(pattern, IsOk());
  const std::string longest(NamePattern::kMaxNameBytes, 'a');
  EXPECT_FALSE(pattern->search(longest));
  EXPECT_FALSE(pattern->search(longest + "b"));  // past the limit
  EXPECT_TRUE(pattern->search(longest.substr(1) + "b"));
}

}  // namespace
}  // namespace trnscout
