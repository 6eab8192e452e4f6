#include "trnscout/what_if.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "status_matchers.h"

namespace trnscout {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(WhatIf, IsWhatTransformersDoesByDefault) {
  const auto none = parse_what_if({});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(*none, WhatIf());
  EXPECT_EQ(none->kv_heads, KvHeadLayout::kTransformers);
  EXPECT_EQ(none->vocab, VocabLayout::kTransformers);
  EXPECT_EQ(none->fused, FusedLayout::kTransformers);
}

TEST(WhatIf, CombinesInAnyOrderAndTakesANameTwice) {
  const auto two = parse_what_if({"split-fused-qkv", "pad-vocab", "pad-vocab"});
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(two->kv_heads, KvHeadLayout::kTransformers);
  EXPECT_EQ(two->vocab, VocabLayout::kPadded);
  EXPECT_EQ(two->fused, FusedLayout::kSplit);
  const auto all = parse_what_if(what_if_names());
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(*all, (WhatIf{KvHeadLayout::kReplicated, VocabLayout::kPadded,
                          FusedLayout::kSplit}));
}

TEST(WhatIf, RefusesOtherNamesWithTheList) {
  EXPECT_THAT(what_if_names(),
              ElementsAre("replicate-kv", "pad-vocab", "split-fused-qkv"));
  for (const char* const name : {"magic", "", "Pad-Vocab", "pad-vocab "}) {
    EXPECT_THAT(
        parse_what_if({"pad-vocab", name}),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr("only replicate-kv, pad-vocab, split-fused-qkv")))
        << name;
  }
}

}  // namespace
}  // namespace trnscout
