#include "trnscout/shard_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "status_matchers.h"
#include "toy_model.h"

namespace trnscout {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(ShardPlan, TakesOneCoreWhereTheModelFits) {
  const ToyModel model = toy(512, 4, 8, 4);
  const ShardPlan plan = must_plan(model, options_with(24 * kGiB));
  EXPECT_TRUE(plan.fits);
  EXPECT_FALSE(plan.tight);
  EXPECT_EQ(plan.degrees, (Degrees{1, 1, 1}));
  EXPECT_EQ(plan.bytes_per_core[PlanCategory::kShardedWeights].bytes, 0);
  EXPECT_EQ(plan.bytes_per_core[PlanCategory::kReplicatedWeights].bytes,
            weight_bytes(model));
  // 4 layers x 128 tokens x 4 KV heads x 64 x (key and value) x 2 bytes.
  EXPECT_EQ(plan.bytes_per_core[PlanCategory::kCache].bytes,
            4 * 128 * 4 * 64 * 2 * 2);
  EXPECT_EQ(plan.bytes_per_core[PlanCategory::kMicrocode].bytes, 192 << 20);
  EXPECT_TRUE(plan.rejected.empty());
}

TEST(ShardPlan, DividesByTheSmallestDegreeThatFitsAndSaysWhyNotLess) {
  const ToyModel model = toy(4096, 40, 32, 8);
  // 17.4 GB of weights: 8.1 GiB a core on 2, 4.1 on 4.
  const ShardPlan plan = must_plan(model, options_with(6 * kGiB));
  ASSERT_TRUE(plan.fits) << plan.reason;
  EXPECT_EQ(plan.degrees, (Degrees{4, 4, 1}));
  ASSERT_EQ(plan.rejected.size(), 2U);
  EXPECT_EQ(plan.rejected[0].degrees.cores, 1);
  EXPECT_THAT(plan.rejected[1].reason,
              AllOf(HasSubstr("of 6.00 GiB"), HasSubstr("sharded_weights")));
  EXPECT_EQ(plan.instance, "trn2.3xlarge");
  EXPECT_GT(plan.decode_tokens_per_second_bound, 0);
}

TEST(ShardPlan, RefusesDegreesThatDoNotDivideTheHeads) {
  const ToyModel model = toy(4096, 40, 32, 2);
  const ShardPlan plan = must_plan(model, options_with(6 * kGiB));
  EXPECT_FALSE(plan.fits);
  EXPECT_THAT(plan.reason, HasSubstr("on 16: tp_degree 16"));
  EXPECT_THAT(plan.rejected.back().reason,
              HasSubstr("tp_degree 16 does not divide the 2 KV heads, and "
                        "Transformers does not replicate them"));
  EXPECT_EQ(plan.largest_batch_x_length, 0);
  EXPECT_EQ(plan.instance, "");
}

TEST(ShardPlan, ProposesOnlyDegreesOfTheTopology) {
  const ToyModel model = toy(4096, 40, 32, 32);
  PlanOptions options = options_with(6 * kGiB);
  options.topology.tp_degrees = {1, 2, 8, 16, 32};
  EXPECT_EQ(must_plan(model, options).degrees.cores, 8);
  options.max_cores = 4;
  EXPECT_FALSE(must_plan(model, options).fits);
}

TEST(ShardPlan, WithoutAPlanThereIsOneCoreOrNone) {
  ToyModel model = toy(4096, 40, 32, 8);
  model.plan.tensor_rules.clear();
  model.plan.no_tensor_plan_reason = "its config has no base_model_tp_plan";
  const ShardPlan plan = must_plan(model, options_with(6 * kGiB));
  EXPECT_FALSE(plan.fits);
  EXPECT_THAT(plan.reason, HasSubstr("has no plan to divide ToyForCausalLM: "
                                     "its config has no base_model_tp_plan"));
  EXPECT_TRUE(must_plan(model, options_with(24 * kGiB)).fits);
}

TEST(ShardPlan, CountsATiedHeadOnce) {
  ToyModel model = toy(512, 2, 8, 4);
  const std::int64_t both = weight_bytes(model);
  model.config.tie_word_embeddings = true;
  const ShardPlan plan = must_plan(model, options_with(24 * kGiB));
  EXPECT_EQ(plan.bytes_per_core[PlanCategory::kReplicatedWeights].bytes,
            both - 2 * 1024 * 512);
}

TEST(ShardPlan, SaysWhatItMakesOfTies) {
  ToyModel model = toy(512, 2, 8, 4);
  const auto notes = [&model] {
    return must_plan(model, options_with(24 * kGiB)).notes;
  };
  EXPECT_THAT(notes(), ::testing::IsEmpty());
  model.config.tie_word_embeddings = true;
  EXPECT_THAT(notes(), ElementsAre(HasSubstr("counted once")));
  model.parameters.back().shape[0] = 1000;
  EXPECT_THAT(notes(), ElementsAre(HasSubstr("counted as two")));
  const std::int64_t whole = weight_bytes(toy(512, 2, 8, 4));
  model.parameters.pop_back();
  EXPECT_THAT(notes(), ::testing::IsEmpty());
  model.config.tie_word_embeddings = false;
  EXPECT_THAT(notes(), ElementsAre(HasSubstr("has no lm_head.weight")));
  EXPECT_EQ(must_plan(model, options_with(24 * kGiB))
                .bytes_per_core[PlanCategory::kReplicatedWeights]
                .bytes,
            whole);
}

TEST(ShardPlan, DividesExpertsWhereThePlanDoes) {
  ToyModel model = toy(1024, 2, 8, 8);
  model.config.experts = 8;
  model.config.experts_per_token = 2;
  model.config.moe_intermediate = 4096;
  for (int layer = 0; layer < 2; ++layer) {
    model.parameters.push_back(
        {absl::StrCat("model.layers.", layer, ".mlp.experts.gate_up_proj"),
         "BF16",
         {8, 8192, 1024},
         {}});
  }
  model.plan.no_expert_plan_reason = "";
  model.plan.expert_rules = {
      {"model.layers.*.mlp.experts.gate_up_proj", ParallelStyle::kGroupedGemm}};
  // Experts are 268 MB of 331; TP alone leaves them whole on each rank.
  const ShardPlan plan = must_plan(
      model,
      options_with((std::int64_t{192} << 20) + (std::int64_t{330} << 20)));
  ASSERT_TRUE(plan.fits) << plan.reason;
  EXPECT_EQ(plan.degrees, (Degrees{2, 2, 2}));
}

TEST(ShardPlan, LargestLengthFitsAndOneMoreDoesNot) {
  const ToyModel model = toy(1024, 8, 8, 8);
  PlanOptions options = options_with(2 * kGiB);
  const ShardPlan plan = must_plan(model, options);
  ASSERT_TRUE(plan.fits);
  options.max_cores = 1;
  options.max_length = plan.largest_batch_x_length;
  EXPECT_TRUE(must_plan(model, options).fits);
  ++options.max_length;
  EXPECT_FALSE(must_plan(model, options).fits);
}

TEST(ShardPlan, CountsDequantisedWeightsAndDropsTheirScales) {
  ToyModel model = toy(512, 2, 8, 4);
  model.config.quantization = {
      .method = "mxfp4", .bits = 4, .kept_modules = {}};
  const std::int64_t before =
      must_plan(model, options_with(24 * kGiB))
          .bytes_per_core[PlanCategory::kReplicatedWeights]
          .bytes;
  model.parameters.push_back(
      {"experts.down_proj_blocks", "U8", {4, 8, 2, 16}, {}});
  model.parameters.push_back({"experts.down_proj_scales", "U8", {4, 8, 2}, {}});
  const ShardPlan plan = must_plan(model, options_with(24 * kGiB));
  // Each of the 1024 bytes holds two weights of two bytes in bfloat16.
  EXPECT_EQ(plan.bytes_per_core[PlanCategory::kReplicatedWeights].bytes,
            before + 4096);
  EXPECT_THAT(plan.notes, Contains(HasSubstr("counted in bfloat16")));
}

TEST(ShardPlan, RefusesOptionsOutsideTheirLimits) {
  const ToyModel model = toy(512, 2, 8, 4);
  const auto planned = [&](auto change) {
    PlanOptions options = options_with(kGiB);
    change(options);
    return plan_shards(model.config, model.plan, model.parameters, options);
  };
  EXPECT_THAT(planned([](PlanOptions& o) { o.batch = 0; }),
              StatusIs(kInvalid, HasSubstr("batch is 0, must be positive")));
  EXPECT_THAT(planned([](PlanOptions& o) { o.max_length = -1; }),
              StatusIs(kInvalid, HasSubstr("max_length is -1")));
  EXPECT_THAT(planned([](PlanOptions& o) { o.max_cores = 0; }),
              StatusIs(kInvalid, HasSubstr("max_cores is 0")));
  EXPECT_THAT(planned([](PlanOptions& o) { o.dtype = "int4"; }),
              StatusIs(kInvalid, HasSubstr("dtype is int4")));
  EXPECT_THAT(
      planned([](PlanOptions& o) {
        o.topology.tp_degrees = {0, 1};
      }),
      StatusIs(kInvalid, HasSubstr("a degree of the topology is 0, must be")));
}

TEST(ShardPlan, RefusesModelsItCannotWeigh) {
  ToyModel model = toy(512, 2, 8, 4);
  EXPECT_THAT(plan_shards(model.config, model.plan, {}, options_with(kGiB)),
              StatusIs(kInvalid, HasSubstr("no parameters")));
  model.parameters[0].dtype = "F4";
  EXPECT_THAT(plan_shards(model.config, model.plan, model.parameters,
                          options_with(kGiB)),
              StatusIs(kInvalid, AllOf(HasSubstr("q_proj.weight"),
                                       HasSubstr("F4 has no bytes"))));
  model.parameters[0] = {"w", "BF16", {std::int64_t{1} << 62, 8}, {}};
  EXPECT_THAT(plan_shards(model.config, model.plan, model.parameters,
                          options_with(kGiB)),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("parameter w: its bytes pass 2^63 - 1")));
}

TEST(ShardPlan, RefusesALengthThatAnImageTakesPast64Bits) {
  ToyModel model = toy(512, 2, 8, 4);
  model.config.vision.emplace().image_tokens = 2;
  PlanOptions options = options_with(kGiB);
  options.max_length = std::numeric_limits<std::int64_t>::max() - 1;
  EXPECT_THAT(
      plan_shards(model.config, model.plan, model.parameters, options),
      StatusIs(absl::StatusCode::kOutOfRange,
               HasSubstr("max_length 9223372036854775806 and an image of 2 "
                         "tokens pass 2^63 - 1")));
}

TEST(ShardPlan, SpellsNamesFromFilesOnOneLine) {
  ToyModel model = toy(512, 2, 8, 4);
  model.config.quantization.method = "fp8\n\xff";
  EXPECT_THAT(must_plan(model, options_with(kGiB)).notes,
              Contains(HasSubstr("stored as fp8\\x0a\\xff;")));
  model.parameters[0].name = "w\n";
  model.parameters[0].dtype = "\xff";
  EXPECT_THAT(
      plan_shards(model.config, model.plan, model.parameters,
                  options_with(kGiB)),
      StatusIs(kInvalid, HasSubstr("parameter w\\x0a: element type \\xff")));
}

}  // namespace
}  // namespace trnscout
