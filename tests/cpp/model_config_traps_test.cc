// C108. Fields of a config.json that are traps: each is refused with its name,
// its value and the rule.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "status_matchers.h"
#include "trnscout/model_config.h"

namespace trnscout {
namespace {

struct BadField {
  std::string field;  // with its value
  std::string message;
};

class BadFields : public testing::TestWithParam<BadField> {};

TEST_P(BadFields, AreRefusedWithFieldValueAndRule) {
  const auto& [field, message] = GetParam();
  EXPECT_THAT(
      ModelConfig::parse(R"({"model_type":"mixtral",)" + field + "}",
                         "config.json"),
      StatusIs(absl::StatusCode::kInvalidArgument, "config.json: " + message));
}

constexpr char kLayerRule[] = "; it must be a whole number from 1 to 100000";

INSTANTIATE_TEST_SUITE_P(
    Traps, BadFields,
    testing::Values(
        BadField{R"("num_hidden_layers":1000000000)",
                 absl::StrCat("num_hidden_layers is 1000000000", kLayerRule)},
        BadField{R"("num_hidden_layers":-1)",
                 absl::StrCat("num_hidden_layers is -1", kLayerRule)},
        BadField{R"("num_hidden_layers":0)",
                 absl::StrCat("num_hidden_layers is 0", kLayerRule)},
        BadField{R"("num_hidden_layers":2.5)",
                 absl::StrCat("num_hidden_layers is 2.5", kLayerRule)},
        BadField{R"("num_hidden_layers":1e300)",
                 absl::StrCat("num_hidden_layers is 1e300", kLayerRule)},
        BadField{R"("num_hidden_layers":-1e300)",
                 absl::StrCat("num_hidden_layers is -1e300", kLayerRule)},
        BadField{R"("num_hidden_layers":"2")",
                 absl::StrCat("num_hidden_layers is \"2\"", kLayerRule)},
        BadField{R"("num_hidden_layers":true)",
                 absl::StrCat("num_hidden_layers is true", kLayerRule)},
        BadField{R"("num_hidden_layers":null)",
                 "num_hidden_layers is null; it must be a number"},
        BadField{R"("num_attention_heads":0)",
                 "num_attention_heads is 0; it must be a whole number from 1 "
                 "to 65536"},
        BadField{R"("num_key_value_heads":0)",
                 "num_key_value_heads is 0; it must be a whole number from 1 "
                 "to 65536"},
        BadField{R"("num_key_value_heads":64)",
                 "num_key_value_heads is 64; it must divide "
                 "num_attention_heads, 32"},
        BadField{R"("num_key_value_heads":6)",
                 "num_key_value_heads is 6; it must divide "
                 "num_attention_heads, 32"},
        BadField{R"("num_attention_heads":12)",
                 "num_key_value_heads is 8 (the default of MixtralConfig); it "
                 "must divide num_attention_heads, 12"},
        BadField{R"("hidden_size":16)",
                 "num_attention_heads is 32; it must be at most hidden_size, "
                 "16"},
        BadField{R"("hidden_size":2147483648)",
                 "hidden_size is 2147483648; it must be a whole number from 1 "
                 "to 1048576"},
        BadField{R"("hidden_size":18446744073709551616)",
                 "hidden_size is 18446744073709551616; it must be a whole "
                 "number from 1 to 1048576"},
        BadField{R"("vocab_size":0)",
                 "vocab_size is 0; it must be a whole number from 1 to "
                 "2147483648"},
        BadField{R"("head_dim":0)",
                 "head_dim is 0; it must be a whole number from 1 to "
                 "1048576"},
        BadField{R"("intermediate_size":[1,2])",
                 "intermediate_size is [...]; it must be a whole number from "
                 "0 to 67108864"},
        BadField{R"("num_experts_per_tok":9)",
                 "num_experts_per_tok is 9; it must be at most "
                 "num_local_experts, 8"},
        BadField{R"("sliding_window":-1)",
                 "sliding_window is -1; it must be a whole number from 0 to "
                 "1099511627776"},
        BadField{R"("tie_word_embeddings":"yes")",
                 "tie_word_embeddings is \"yes\"; it must be true or false"},
        BadField{R"("rms_norm_eps":0)",
                 "rms_norm_eps is 0; it must be a number above 0"},
        BadField{R"("rms_norm_eps":0.0)",
                 "rms_norm_eps is 0.0; it must be a number above 0"},
        BadField{R"("rms_norm_eps":NaN)",
                 "rms_norm_eps is NaN; it must be a number above 0"},
        BadField{R"("rms_norm_eps":"small")",
                 "rms_norm_eps is \"small\"; it must be a number above 0"},
        BadField{R"("architectures":"Mixtral")",
                 "architectures is \"Mixtral\"; it must be a list"},
        BadField{R"("dtype":16)",
                 "dtype is 16; it must be the name of a dtype"}));

// C108: a list of widths is read where a class has one, and refused elsewhere.
TEST(ModelConfig, TakesTheWidestOfAListWhereAClassHasOne) {
  const auto config = ModelConfig::parse(
      R"({"model_type":"gemma3n_text","num_hidden_layers":2,)"
      R"("num_kv_shared_layers":0,"intermediate_size":[8,16]})",
      "config.json");
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->intermediate, 16);
}

}  // namespace
}  // namespace trnscout
