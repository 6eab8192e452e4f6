#include "trnscout/ggml_type.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace trnscout {
namespace {

TEST(GgmlType, IsFoundByIdAndByName) {
  const std::vector<GgmlType> types = ggml_types();
  ASSERT_GT(types.size(), 30u);
  for (std::size_t i = 0; i < types.size(); ++i) {
    SCOPED_TRACE(types[i].name);
    const GgmlType* const by_id = find_ggml_type(types[i].id);
    ASSERT_NE(by_id, nullptr);
    EXPECT_EQ(by_id, find_ggml_type(types[i].name));
    EXPECT_EQ(by_id->name, types[i].name);
    EXPECT_GT(types[i].block_bytes, 0);
    if (i > 0) {
      EXPECT_LT(types[i - 1].id, types[i].id);
    }
  }
}

TEST(GgmlType, IsNullWhereFilesHoldNoSuchType) {
  for (const std::uint32_t id : {4U, 5U, 9U, 31U, 36U, 1000U}) {
    EXPECT_EQ(find_ggml_type(id), nullptr) << id;
  }
  EXPECT_EQ(find_ggml_type("q4_k"), nullptr);
  EXPECT_EQ(find_ggml_type(""), nullptr);
}

}  // namespace
}  // namespace trnscout
