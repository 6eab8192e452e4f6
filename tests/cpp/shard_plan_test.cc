#include "trnscout/shard_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "status_matchers.h"

namespace trnscout {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr std::int64_t kGiB = std::int64_t{1} << 30;

struct ToyModel {
  ModelConfig config;
  ParallelPlan plan;
  std::vector<ParameterInfo> parameters;
};

// A decoder of the Llama kind: `layers` layers of 4 hidden^2 attention weights
// (with fewer KV heads) and an MLP, embeddings apart.
ToyModel toy(std::int64_t hidden, std::int64_t layers, std::int64_t q_heads,
             std::int64_t kv_heads) {
  ToyModel out;
  ModelConfig& c = out.config;
  c.model_type = "toy";
  c.hidden = hidden;
  c.layers = layers;
  c.q_heads = q_heads;
  c.kv_heads = kv_heads;
  c.head_dim = hidden / q_heads;
  c.intermediate = 4 * hidden;
  c.vocab = 1024;
  c.tie_word_embeddings = false;
  LayerCache cache;
  cache.kv_heads = kv_heads;
  cache.key_dim = c.head_dim;
  cache.value_dim = c.head_dim;
  c.layer_caches.assign(static_cast<std::size_t>(layers), cache);
  const std::int64_t kv = kv_heads * c.head_dim;
  const auto add = [&](std::string name, std::vector<std::int64_t> shape) {
    out.parameters.push_back({std::move(name), "BF16", std::move(shape), {}});
  };
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const std::string at = absl::StrCat("model.layers.", layer);
    add(absl::StrCat(at, ".self_attn.q_proj.weight"), {hidden, hidden});
    add(absl::StrCat(at, ".self_attn.k_proj.weight"), {kv, hidden});
    add(absl::StrCat(at, ".self_attn.v_proj.weight"), {kv, hidden});
    add(absl::StrCat(at, ".self_attn.o_proj.weight"), {hidden, hidden});
    add(absl::StrCat(at, ".mlp.up_proj.weight"), {4 * hidden, hidden});
    add(absl::StrCat(at, ".mlp.down_proj.weight"), {hidden, 4 * hidden});
    add(absl::StrCat(at, ".norm.weight"), {hidden});
  }
  add("model.embed_tokens.weight", {c.vocab, hidden});
  add("lm_head.weight", {c.vocab, hidden});
  out.plan.architecture = "ToyForCausalLM";
  out.plan.no_expert_plan_reason = "no experts";
  out.plan.tied = {{"lm_head.weight", "model.embed_tokens.weight"}};
  for (const char* const name : {"self_attn.q_proj", "self_attn.k_proj",
                                 "self_attn.v_proj", "mlp.up_proj"}) {
    out.plan.tensor_rules.push_back(
        {absl::StrCat("model.layers.*.", name), ParallelStyle::kColwise});
  }
  for (const char* const name : {"self_attn.o_proj", "mlp.down_proj"}) {
    out.plan.tensor_rules.push_back(
        {absl::StrCat("model.layers.*.", name), ParallelStyle::kRowwise});
  }
  return out;
}

PlanOptions options_with(std::int64_t core_bytes) {
  PlanOptions out;
  out.topology = *find_topology("trn2");
  out.topology.core_memory_bytes = core_bytes;
  out.max_length = 128;
  return out;
}

ShardPlan must_plan(const ToyModel& model, const PlanOptions& options) {
  auto out = plan_shards(model.config, model.plan, model.parameters, options);
  EXPECT_TRUE(out.ok()) << out.status();
  return *std::move(out);
}

std::int64_t weight_bytes(const ToyModel& model) {
  std::int64_t out = 0;
  for (const ParameterInfo& parameter : model.parameters) {
    std::int64_t elements = 1;
    for (const std::int64_t length : parameter.shape) elements *= length;
    out += 2 * elements;
  }
  return out;
}

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

TEST(ShardPlan, WhatIfReplicatesKvHeadsAndTheirWeights) {
  const ToyModel model = toy(4096, 40, 32, 2);
  PlanOptions options = options_with(6 * kGiB);
  options.kv_heads = KvHeadLayout::kReplicated;
  const ShardPlan plan = must_plan(model, options);
  ASSERT_TRUE(plan.fits) << plan.reason;
  EXPECT_EQ(plan.degrees, (Degrees{4, 4, 1}));
  EXPECT_THAT(plan.notes, Contains(HasSubstr("what-if")));
  // Two heads on four ranks: each rank keeps one, half of the whole cache.
  EXPECT_EQ(plan.bytes_per_core[PlanCategory::kCache].bytes,
            40 * 128 * 1 * 128 * 2 * 2);
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

// For random models: rank 0 holds no less than any other rank, the shards of
// all ranks cover each parameter, sharded bytes never grow with the degree, and
// replicated ones stay.
TEST(ShardPlan, ShardsShrinkAndCoverWhateverTheModel) {
  std::mt19937 random(3);
  for (int round = 0; round < 30; ++round) {
    const std::int64_t hidden =
        16 * (1 + static_cast<std::int64_t>(random() % 40));
    const ToyModel model =
        toy(hidden, 1 + static_cast<std::int64_t>(random() % 3), 16, 16);
    std::int64_t before = std::numeric_limits<std::int64_t>::max();
    std::int64_t replicated_before = -1;
    for (const std::int32_t degree : {2, 4, 8, 16}) {
      SCOPED_TRACE(absl::StrCat("hidden ", hidden, ", degree ", degree));
      std::int64_t largest = 0;
      std::int64_t first = 0;
      std::int64_t replicated = 0;
      std::vector<std::int64_t> covered(model.parameters.size(), 0);
      for (std::int32_t rank = 0; rank < degree; ++rank) {
        const auto held = rank_parameters(model.plan, model.parameters,
                                          {degree, degree, 1}, rank);
        ASSERT_TRUE(held.ok()) << held.status();
        std::int64_t sharded = 0;
        replicated = 0;
        for (std::size_t i = 0; i < held->size(); ++i) {
          std::int64_t elements = 1;
          for (const std::int64_t n : (*held)[i].shard.shape()) elements *= n;
          ((*held)[i].sharded ? sharded : replicated) += elements;
          covered[i] += (*held)[i].sharded ? elements : 0;
        }
        largest = std::max(largest, sharded);
        if (rank == 0) first = sharded;
      }
      EXPECT_EQ(first, largest);
      EXPECT_LE(largest, before);
      if (replicated_before >= 0) {
        EXPECT_EQ(replicated, replicated_before);
      }
      before = largest;
      replicated_before = replicated;
      for (std::size_t i = 0; i < covered.size(); ++i) {
        std::int64_t whole = 1;
        for (const std::int64_t n : model.parameters[i].shape) whole *= n;
        EXPECT_TRUE(covered[i] == 0 || covered[i] == whole)
            << model.parameters[i].name;
      }
    }
  }
}

}  // namespace
}  // namespace trnscout
