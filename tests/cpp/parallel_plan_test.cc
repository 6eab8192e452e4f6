#include "trnscout/parallel_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "status_matchers.h"
#include "trnscout/model_config.h"

namespace trnscout {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kNotFound = absl::StatusCode::kNotFound;
constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;
constexpr auto kWeight = ParameterRole::kWeight;
constexpr auto kBias = ParameterRole::kBias;

TensorInfo tensor(std::string name, std::vector<std::int64_t> shape) {
  TensorInfo out;
  out.name = std::move(name);
  out.dtype = "BF16";
  out.shape = std::move(shape);
  return out;
}

// The ranges along the one dimension of a vector of `size`.
DimensionSlice slice(ParallelStyle style, std::int64_t size, ParallelRank at) {
  const auto shard = shard_of(style, {size, 1}, kWeight, at);
  EXPECT_THAT(shard, IsOk());
  return shard.ok() ? shard->dimensions[0] : DimensionSlice();
}

TEST(ParallelStyle, KeepsItsNameThroughParsing) {
  for (int i = 0; i <= static_cast<int>(ParallelStyle::kEpRouter); ++i) {
    const auto style = static_cast<ParallelStyle>(i);
    const auto parsed = parse_parallel_style(parallel_style_name(style));
    ASSERT_THAT(parsed, IsOk());
    EXPECT_EQ(*parsed, style);
  }
}

TEST(ParallelStyle, ReadsEveryVocabulary) {
  const std::vector<std::pair<const char*, ParallelStyle>> names = {
      {"colwise_rep", ParallelStyle::kColwiseGatherOutput},
      {"local_packed_rowwise", ParallelStyle::kPackedRowwise},
      {"gather", ParallelStyle::kAllReduce},
      {"rowwise_allreduce", ParallelStyle::kRowwise},
      {"vocab_allreduce", ParallelStyle::kEmbeddingRowwise},
      {"moe_experts_allreduce", ParallelStyle::kMoeTpExperts},
      {"megamoe_router", ParallelStyle::kEpRouter},
  };
  for (const auto& [name, style] : names) {
    const auto parsed = parse_parallel_style(name);
    ASSERT_THAT(parsed, IsOk()) << name;
    EXPECT_EQ(*parsed, style) << name;
  }
}

TEST(ParallelStyle, RefusesOtherNames) {
  EXPECT_THAT(parse_parallel_style("diagonal\n"),
              StatusIs(kNotFound, "no parallel style is called diagonal\\x0a"));
}

TEST(ShardOf, CutsIntoCeilChunksWhichMayBeEmpty) {
  const auto colwise = ParallelStyle::kColwise;
  EXPECT_THAT(slice(colwise, 10, {0, 4}), ElementsAre(IndexRange{0, 3}));
  EXPECT_THAT(slice(colwise, 10, {2, 4}), ElementsAre(IndexRange{6, 9}));
  EXPECT_THAT(slice(colwise, 10, {3, 4}), ElementsAre(IndexRange{9, 10}));
  EXPECT_THAT(slice(colwise, 5, {3, 4}), IsEmpty());
  EXPECT_THAT(slice(colwise, 0, {0, 4}), IsEmpty());
}

TEST(ShardOf, PutsEveryIndexOnOneRank) {
  for (const ParallelStyle style :
       {ParallelStyle::kColwise, ParallelStyle::kPackedColwise,
        ParallelStyle::kEmbeddingRowwise}) {
    for (std::int64_t size = 0; size < 40; ++size) {
      for (const std::int32_t degree : {1, 2, 3, 4, 8}) {
        std::vector<int> seen(static_cast<std::size_t>(size));
        for (std::int32_t rank = 0; rank < degree; ++rank) {
          for (const IndexRange& range : slice(style, size, {rank, degree})) {
            for (std::int64_t i = range.begin; i < range.end; ++i) {
              ++seen[static_cast<std::size_t>(i)];
            }
          }
        }
        EXPECT_THAT(seen, testing::Each(1)) << size << " / " << degree;
      }
    }
  }
}

// Case C053: gate rows g0..g3, then up rows u0..u3.
TEST(ShardOf, CutsEachHalfOfAFusedWeight) {
  EXPECT_THAT(slice(ParallelStyle::kPackedColwise, 8, {0, 2}),
              ElementsAre(IndexRange{0, 2}, IndexRange{4, 6}));
  EXPECT_THAT(slice(ParallelStyle::kPackedColwise, 8, {1, 2}),
              ElementsAre(IndexRange{2, 4}, IndexRange{6, 8}));
  const auto experts =
      shard_of(ParallelStyle::kPackedRowwise, {4, 6, 8}, kWeight, {1, 2});
  ASSERT_THAT(experts, IsOk());
  EXPECT_THAT(experts->shape(), ElementsAre(4, 6, 4));
  EXPECT_THAT(experts->dimensions[2],
              ElementsAre(IndexRange{2, 4}, IndexRange{6, 8}));
}

TEST(ShardOf, KeepsTheBiasOfRowwiseWhole) {
  const auto bias = shard_of(ParallelStyle::kRowwise, {6}, kBias, {1, 2});
  ASSERT_THAT(bias, IsOk());
  EXPECT_THAT(bias->shape(), ElementsAre(6));
  const auto weight =
      shard_of(ParallelStyle::kRowwise, {6, 8}, kWeight, {1, 2});
  ASSERT_THAT(weight, IsOk());
  EXPECT_THAT(weight->shape(), ElementsAre(6, 4));
  const auto column = shard_of(ParallelStyle::kColwise, {6}, kBias, {1, 2});
  ASSERT_THAT(column, IsOk());
  EXPECT_THAT(column->dimensions[0], ElementsAre(IndexRange{3, 6}));
}

TEST(ShardOf, TellsTheBiasByItsOwnName) {
  EXPECT_EQ(parameter_role("model.o_proj.bias"), kBias);
  EXPECT_EQ(parameter_role("bias"), kBias);
  EXPECT_EQ(parameter_role("experts.down_proj_bias"), kWeight);
}

TEST(ShardOf, RefusesWhatCannotBeCut) {
  const auto style = ParallelStyle::kColwise;
  EXPECT_THAT(shard_of(style, {4, 4}, kWeight, {0, 0}),
              StatusIs(kInvalid, "degree 0 is not positive"));
  EXPECT_THAT(shard_of(style, {4, 4}, kWeight, {2, 2}),
              StatusIs(kInvalid, "rank 2 is not below the degree 2"));
  EXPECT_THAT(shard_of(style, {-4, 4}, kWeight, {0, 2}),
              StatusIs(kInvalid, "a dimension of -4 elements"));
  EXPECT_THAT(
      shard_of(style, {}, kWeight, {0, 2}),
      StatusIs(kInvalid, "colwise cannot cut a tensor of 0 dimensions"));
  EXPECT_THAT(shard_of(ParallelStyle::kEmbeddingColwise, {4}, kWeight, {0, 2}),
              StatusIs(kInvalid,
                       "embedding_colwise cannot cut a tensor of 1 dimension"));
  EXPECT_THAT(
      shard_of(ParallelStyle::kGroupedGemm, {6, 2, 2}, kWeight, {0, 4}),
      StatusIs(kInvalid, "6 experts cannot be split evenly over 4 ranks"));
}

TEST(ShardOf, HoldsLargeSizes) {
  constexpr std::int64_t kLargest = INT64_MAX;
  const auto last = slice(ParallelStyle::kColwise, kLargest, {63, 64});
  ASSERT_THAT(last, testing::SizeIs(1));
  EXPECT_EQ(last[0].end, kLargest);
}

TEST(FindParallelPlan, TakesArchitecturesAndModelTypes) {
  const auto by_name = find_parallel_plan("LlamaForCausalLM");
  ASSERT_THAT(by_name, IsOk());
  EXPECT_EQ(by_name->model_type, "llama");
  const auto by_type = find_parallel_plan("llama4");
  ASSERT_THAT(by_type, IsOk());
  EXPECT_EQ(by_type->architecture, "Llama4ForConditionalGeneration");
  EXPECT_THAT(by_name->tied,
              ElementsAre(Pair("lm_head.weight", "model.embed_tokens.weight")));
}

TEST(FindParallelPlan, KnowsEveryArchitectureItNames) {
  for (const std::string& name : parallel_plan_architectures()) {
    const auto plan = find_parallel_plan(name);
    ASSERT_THAT(plan, IsOk()) << name;
    EXPECT_EQ(plan->tensor_rules.empty(), !plan->no_tensor_plan_reason.empty());
    EXPECT_EQ(plan->expert_rules.empty(), !plan->no_expert_plan_reason.empty());
    // Compiles every pattern of the table.
    EXPECT_THAT(plan->parameters_of({}), IsOk()) << name;
  }
}

TEST(FindParallelPlan, RefusesWhatTheTableLacks) {
  EXPECT_THAT(find_parallel_plan("ResNet"),
              StatusIs(kNotFound, HasSubstr("no architecture or model type "
                                            "ResNet")));
  EXPECT_THAT(
      find_parallel_plan("llama", {{"text_config", "mistral"}}),
      StatusIs(kNotFound, HasSubstr("LlamaForCausalLM has no nested config "
                                    "text_config")));
  EXPECT_THAT(
      find_parallel_plan("llava", {{"text_config", "parrot"}}),
      StatusIs(kNotFound,
               HasSubstr("no model type parrot that can be the text_config of "
                         "LlavaForConditionalGeneration")));
}

TEST(FindParallelPlan, FollowsNestedConfigs) {
  const auto plan = find_parallel_plan("llava", {{"text_config", "mixtral"}});
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->tensor_rules,
              Contains(PlanRule{"model.language_model.layers.*.mlp.experts",
                                ParallelStyle::kMoeTpExperts}));
  EXPECT_THAT(plan->expert_rules, Not(IsEmpty()));
}

TEST(StyleOf, LooksUpTheParameterThenItsModule) {
  const auto plan = find_parallel_plan("mixtral");
  ASSERT_THAT(plan, IsOk());
  const auto tensor = ParallelMode::kTensor;
  const auto query =
      plan->style_of("model.layers.31.self_attn.q_proj.weight", tensor);
  ASSERT_TRUE(query.has_value());
  EXPECT_EQ(query->style, ParallelStyle::kColwise);
  const auto experts =
      plan->style_of("model.layers.0.mlp.experts.gate_up_proj", tensor);
  ASSERT_TRUE(experts.has_value());
  EXPECT_EQ(experts->style, ParallelStyle::kPackedColwise);
  EXPECT_FALSE(plan->style_of("model.layers.0.input_layernorm.weight", tensor));
  EXPECT_FALSE(plan->style_of("model.norm.weight", tensor));
  EXPECT_FALSE(plan->style_of("", tensor));
}

TEST(StyleOf, GivesExpertsToTheExpertPlan) {
  const auto plan = find_parallel_plan("mixtral");
  ASSERT_THAT(plan, IsOk());
  const auto both = ParallelMode::kTensorAndExpert;
  const ParameterStyle expert{ParallelStyle::kGroupedGemm,
                              ParallelAxis::kExpert};
  const ParameterStyle query{ParallelStyle::kColwise, ParallelAxis::kTensor};
  EXPECT_EQ(plan->style_of("model.layers.0.mlp.experts.down_proj", both),
            expert);
  EXPECT_EQ(plan->style_of("model.layers.0.self_attn.q_proj.weight", both),
            query);
  EXPECT_FALSE(plan->style_of("model.layers.0.self_attn.q_proj.weight",
                              ParallelMode::kExpert));
}

// Transformers replaces every other one of numbers that stand side by side.
TEST(StyleOf, ReplacesNumbersAsTheLibraryDoes) {
  ParallelPlan plan;
  plan.tensor_rules = {{"a.*.0.b", ParallelStyle::kColwise},
                       {"a.*", ParallelStyle::kRowwise},
                       {"w1", ParallelStyle::kReplicate}};
  const auto style = [&plan](absl::string_view name) {
    const auto found = plan.style_of(name, ParallelMode::kTensor);
    return found ? std::string(parallel_style_name(found->style)) : "none";
  };
  EXPECT_EQ(style("a.1.0.b"), "colwise");
  EXPECT_EQ(style("a.1.2.b"), "none");
  EXPECT_EQ(style("a.12"), "rowwise");
  EXPECT_EQ(style("a.12.weight"), "rowwise");
  EXPECT_EQ(style("w1.weight"), "replicate");
  EXPECT_EQ(style("0.weight"), "none");
}

TEST(ParametersOf, StacksExpertsAndJoinsTheirHalves) {
  const auto plan = find_parallel_plan("mixtral");
  ASSERT_THAT(plan, IsOk());
  std::vector<TensorInfo> tensors;
  for (int expert = 0; expert < 12; ++expert) {
    const std::string start =
        absl::StrCat("model.layers.0.block_sparse_moe.experts.", expert, ".w");
    tensors.push_back(tensor(start + "1.weight", {6, 4}));
    tensors.push_back(tensor(start + "2.weight", {4, 6}));
    tensors.push_back(tensor(start + "3.weight", {6, 4}));
  }
  const auto loaded = plan->parameters_of(tensors);
  ASSERT_THAT(loaded, IsOk());
  ASSERT_THAT(loaded->parameters, testing::SizeIs(2));
  const ParameterInfo& down = loaded->parameters[0];
  EXPECT_EQ(down.name, "model.layers.0.mlp.experts.down_proj");
  EXPECT_THAT(down.shape, ElementsAre(12, 4, 6));
  EXPECT_EQ(down.dtype, "BF16");
  EXPECT_EQ(down.tensors[2],
            "model.layers.0.block_sparse_moe.experts.2.w2."
            "weight");
  const ParameterInfo& gate_up = loaded->parameters[1];
  EXPECT_EQ(gate_up.name, "model.layers.0.mlp.experts.gate_up_proj");
  EXPECT_THAT(gate_up.shape, ElementsAre(12, 12, 4));
  EXPECT_THAT(gate_up.tensors, testing::SizeIs(24));
}

TEST(ParametersOf, PutsABaseModelsTensorsInTheirPlace) {
  const auto plan = find_parallel_plan("llama");
  ASSERT_THAT(plan, IsOk());
  const auto loaded = plan->parameters_of(
      {tensor("embed_tokens.weight", {8, 4}), tensor("lm_head.weight", {8, 4}),
       tensor("rest.weight", {1})});
  ASSERT_THAT(loaded, IsOk());
  ASSERT_THAT(loaded->parameters, testing::SizeIs(2));
  EXPECT_EQ(loaded->parameters[0].name, "lm_head.weight");
  EXPECT_EQ(loaded->parameters[1].name, "model.embed_tokens.weight");
  EXPECT_THAT(loaded->left_out, ElementsAre("rest.weight"));
}

TEST(ParametersOf, LeavesOutWhatTheLibraryIgnores) {
  const auto plan = find_parallel_plan("deepseek_v3");
  ASSERT_THAT(plan, IsOk());
  const auto loaded = plan->parameters_of(
      {tensor("model.layers.61.enorm.weight", {4}),
       tensor("model.layers.60.input_layernorm.weight", {4})});
  ASSERT_THAT(loaded, IsOk());
  EXPECT_THAT(loaded->parameters, testing::SizeIs(1));
  EXPECT_THAT(loaded->left_out, ElementsAre("model.layers.61.enorm.weight"));
}

TEST(ParametersOf, RefusesTensorsThatDoNotFit) {
  const auto plan = find_parallel_plan("mixtral");
  ASSERT_THAT(plan, IsOk());
  const std::string start = "model.layers.0.block_sparse_moe.experts.";
  EXPECT_THAT(
      plan->parameters_of({tensor(start + "0.w2.weight", {4, 6}),
                           tensor(start + "1.w2.weight", {4, 7})}),
      StatusIs(kInvalid, AllOf(HasSubstr("mlp.experts.down_proj"),
                               HasSubstr("1.w2.weight has shape [4, 7]"))));
  EXPECT_THAT(
      plan->parameters_of({tensor(start + "0.w1.weight", {4, 6}),
                           tensor(start + "0.w3.weight", {4, 7})}),
      StatusIs(kInvalid, HasSubstr("cannot be joined to [1, 4, 6] along "
                                   "dimension 1")));
  EXPECT_THAT(plan->parameters_of({tensor(start + "0.w1.weight", {4, 6})}),
              StatusIs(kInvalid, HasSubstr("the checkpoint lacks its part")));
  EXPECT_THAT(
      plan->parameters_of({tensor(start + "0.w1.weight", {INT64_MAX, 0}),
                           tensor(start + "0.w3.weight", {INT64_MAX, 0})}),
      StatusIs(kInvalid, HasSubstr("past 64 bits")));
}

TEST(ParametersOf, LeavesANumberThatCannotGrow) {
  const auto plan = find_parallel_plan("inkling2_text");
  ASSERT_THAT(plan, IsOk());
  const auto loaded = plan->parameters_of(
      {tensor("model.llm.attn_res.attn_queries.7", {4}),
       tensor("model.llm.attn_res.attn_queries.9223372036854775807", {4})});
  ASSERT_THAT(loaded, IsOk());
  std::vector<std::string> names;
  for (const auto& parameter : loaded->parameters) {
    names.push_back(parameter.name);
  }
  EXPECT_THAT(names, ElementsAre("model.layers.8.attention_input.query",
                                 "model.layers.9223372036854775807."
                                 "attention_input.query"));
}

TEST(ParametersOf, RefusesNamesThatAreTooLong) {
  const auto plan = find_parallel_plan("llama");
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->parameters_of({tensor(std::string(1001, 'a'), {1})}),
              StatusIs(kInvalid, HasSubstr("1001 bytes is past the limit")));
}

TEST(ParametersOf, NamesTheConversionThatNeedsMoreThanShapes) {
  const auto plan = find_parallel_plan("inkling2_text");
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(
      plan->parameters_of({tensor("model.llm.unembed.weight", {8, 4})}),
      StatusIs(kUnimplemented, AllOf(HasSubstr("Inkling2UnpadVocab"),
                                     HasSubstr("needs more than the shapes"))));
}

TEST(ParametersOf, TurnsExpertsByTheHiddenSizeOfTheConfig) {
  const auto plan = find_parallel_plan("qwen3_vl_moe");
  ASSERT_THAT(plan, IsOk());
  ModelConfig config;
  config.hidden = 6;
  const std::string start = "model.language_model.layers.0.mlp.experts.";
  for (const bool stored_turned : {false, true}) {
    const std::vector<std::int64_t> up = {2, 8, 6};
    const std::vector<std::int64_t> turned = {2, 6, 8};
    const auto loaded = plan->parameters_of(
        {tensor(start + "gate_up_proj", stored_turned ? turned : up),
         tensor(start + "down_proj", stored_turned ? up : turned)},
        config);
    ASSERT_THAT(loaded, IsOk());
    ASSERT_THAT(loaded->parameters, testing::SizeIs(2));
    EXPECT_EQ(loaded->parameters[0].shape, turned);  // down_proj
    EXPECT_EQ(loaded->parameters[1].shape, up);
  }
  const auto odd = tensor(start + "down_proj", {2, 5, 7});
  EXPECT_THAT(plan->parameters_of({odd}, config),
              StatusIs(kInvalid, HasSubstr("has no dimension of the hidden "
                                           "size 6")));
  EXPECT_THAT(plan->parameters_of({odd}),
              StatusIs(kUnimplemented, HasSubstr("conversion Transpose")));
}

TEST(ParametersOf, SplitsFusedProjectionsByTheHeadsOfTheConfig) {
  const auto plan = find_parallel_plan("molmo2");
  ASSERT_THAT(plan, IsOk());
  ModelConfig config;
  config.q_heads = 4;
  config.kv_heads = 2;
  config.head_dim = 3;
  const std::string name =
      "model.transformer.blocks.0.self_attn.att_proj.weight";
  const auto loaded = plan->parameters_of({tensor(name, {24, 5})}, config);
  ASSERT_THAT(loaded, IsOk());
  std::vector<std::vector<std::int64_t>> shapes;
  for (const auto& parameter : loaded->parameters) {
    shapes.push_back(parameter.shape);
  }
  EXPECT_THAT(shapes, ElementsAre(ElementsAre(6, 5), ElementsAre(12, 5),
                                  ElementsAre(6, 5)));  // k, q, v
  EXPECT_THAT(plan->parameters_of({tensor(name, {25, 5})}, config),
              StatusIs(kInvalid, HasSubstr("is not as long as the heads")));
  EXPECT_THAT(plan->parameters_of({tensor(name, {24, 5})}),
              StatusIs(kUnimplemented, HasSubstr("conversion Split")));
}

TEST(ParametersOf, RefusesAPlanOfNoKnownArchitecture) {
  ParallelPlan plan;
  plan.architecture = "Homemade";
  EXPECT_THAT(plan.parameters_of({}),
              StatusIs(kNotFound, HasSubstr("Homemade")));
}

}  // namespace
}  // namespace trnscout
