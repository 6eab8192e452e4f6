// What each rank holds, in the layout of Transformers and in what-if layouts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "status_matchers.h"
#include "toy_model.h"
#include "trnscout/shard_plan.h"

namespace trnscout {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(RankParameters, WhatIfReplicatesKvHeadsAndTheirWeights) {
  const ToyModel model = toy(4096, 40, 32, 2);
  PlanOptions options = options_with(6 * kGiB);
  options.what_if.kv_heads = KvHeadLayout::kReplicated;
  const ShardPlan plan = must_plan(model, options);
  ASSERT_TRUE(plan.fits) << plan.reason;
  EXPECT_EQ(plan.degrees, (Degrees{4, 4, 1}));
  EXPECT_THAT(plan.notes, Contains(HasSubstr("what-if replicate-kv: each of "
                                             "the 2 KV heads is on 2 ranks")));
  // Two heads on four ranks: each rank keeps one, half of the whole cache.
  EXPECT_EQ(plan.bytes_per_core[PlanCategory::kCache].bytes,
            40 * 128 * 1 * 128 * 2 * 2);
}

TEST(RankParameters, WhatIfCopiesTheOnlyKvHeadToAllRanks) {
  const ToyModel model = toy(512, 1, 8, 1);
  PlanOptions options = at_degree(4);
  options.what_if.kv_heads = KvHeadLayout::kReplicated;
  for (const RankParameter& held : must_list(model, options, 4, 3)) {
    if (held.name != "model.layers.0.self_attn.k_proj.weight") continue;
    EXPECT_FALSE(held.sharded);
    EXPECT_EQ(held.bytes, 2 * 64 * 512);
  }
  EXPECT_EQ(
      must_plan(model, options).bytes_per_core[PlanCategory::kCache].bytes,
      128 * 64 * 2 * 2);
}

TEST(RankParameters, WhatIfPadsTheVocabularyAndSaysWhatItCosts) {
  ToyModel model = toy(512, 1, 8, 8);
  model.config.vocab = 1001;
  for (ParameterInfo& parameter : model.parameters) {
    if (parameter.shape.front() == 1024) parameter.shape.front() = 1001;
  }
  PlanOptions options = at_degree(4);
  options.what_if.vocab = VocabLayout::kPadded;
  // Three rows of 512 in each of two weights, two bytes each.
  EXPECT_THAT(must_plan(model, options).notes,
              Contains(AllOf(HasSubstr("what-if pad-vocab: 3 rows of zeros"),
                             HasSubstr("1004 out of the 1001"),
                             HasSubstr("6144 bytes"))));
  std::int64_t rows = 0;
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    for (const RankParameter& held : must_list(model, options, 4, rank)) {
      if (held.name != "lm_head.weight") continue;
      EXPECT_EQ(held.shard.shape(), (std::vector<std::int64_t>{251, 512}));
      EXPECT_EQ(held.shard.padding_rows, rank == 3 ? 3 : 0);
      EXPECT_EQ(held.bytes, 2 * 251 * 512);
      for (const IndexRange& range : held.shard.dimensions[0]) {
        EXPECT_EQ(range.begin, rows);
        rows = range.end;
      }
    }
  }
  EXPECT_EQ(rows, 1001);
}

TEST(RankParameters, SaysWhereAWhatIfChangesNothing) {
  PlanOptions options = at_degree(4);
  options.what_if = {KvHeadLayout::kReplicated, VocabLayout::kPadded,
                     FusedLayout::kSplit};
  EXPECT_THAT(
      must_plan(toy(512, 1, 8, 8), options).notes,
      AllOf(
          Contains("what-if replicate-kv: changes nothing at tp_degree 4"),
          Contains("what-if pad-vocab: adds no row to 1024 at tp_degree 4"),
          Contains("what-if split-fused-qkv: changes nothing at tp_degree 4")));
}

// Halves of six in chunks of two leave the fourth rank with nothing.
TEST(RankParameters, RejectsDegreesAtWhichAPackedWeightDoesNotLoad) {
  ToyModel model = toy(512, 1, 8, 8);
  const std::string name = "model.layers.0.mlp.experts.gate_up_proj";
  model.plan.tensor_rules.push_back({"model.layers.*.mlp.experts.gate_up_proj",
                                     ParallelStyle::kPackedColwise});
  model.parameters.push_back({name, "BF16", {4, 12, 512}, {name}});
  const ShardPlan plan = must_plan(model, at_degree(4));
  EXPECT_FALSE(plan.fits);
  EXPECT_THAT(plan.reason,
              HasSubstr("rank 3 of 4 would hold nothing of "
                        "model.layers.0.mlp.experts.gate_up_proj, two halves "
                        "of 6 in chunks of 2"));
  EXPECT_THAT(rank_parameters(model.config, model.plan, model.parameters,
                              at_degree(4), {4, 4, 1}, 0),
              StatusIs(kInvalid, HasSubstr("rank 3 of 4 would hold nothing")));
  // Two ranks have three each; an uneven cut into 2 and 1 loads as well.
  EXPECT_TRUE(must_plan(model, at_degree(2)).fits);
  model.parameters.back().shape[1] = 14;
  EXPECT_TRUE(must_plan(model, at_degree(4)).fits);
  // Experts that are stored one by one are stacked from empty tensors.
  model.parameters.back().shape[1] = 12;
  model.parameters.back().tensors = {"w1", "w3"};
  EXPECT_TRUE(must_plan(model, at_degree(4)).fits);
}

TEST(RankParameters, RefusesWhatIsNoRankOfADivision) {
  const ToyModel model = toy(512, 2, 8, 4);
  const auto listed = [&](Degrees degrees, std::int32_t rank) {
    return rank_parameters(model.config, model.plan, model.parameters,
                           options_with(kGiB), degrees, rank);
  };
  EXPECT_TRUE(listed({4, 4, 1}, 3).ok());
  EXPECT_THAT(listed({4, 4, 1}, 4),
              StatusIs(kInvalid, HasSubstr("rank 4 is not below the 4 cores")));
  EXPECT_THAT(listed({4, 4, 1}, -1), StatusIs(kInvalid, HasSubstr("rank -1")));
  for (const Degrees& degrees : {Degrees{0, 1, 1}, Degrees{4, 2, 2},
                                 Degrees{4, 1, 1}, Degrees{2, 2, 4}}) {
    EXPECT_THAT(listed(degrees, 0),
                StatusIs(kInvalid, HasSubstr("is no division")));
  }
  EXPECT_THAT(
      listed({8, 8, 1}, 0),
      StatusIs(kInvalid, AllOf(HasSubstr("8 cores (tp_degree 8, ep_degree 1)"),
                               HasSubstr("does not divide the 4 KV heads"))));
}

std::int64_t elements(const std::vector<std::int64_t>& shape) {
  std::int64_t out = 1;
  for (const std::int64_t length : shape) out *= length;
  return out;
}

struct Totals {
  std::int64_t sharded_bytes = 0;
  std::int64_t replicated_bytes = 0;
};

Totals totals(const std::vector<RankParameter>& held) {
  Totals out;
  for (const RankParameter& parameter : held) {
    EXPECT_EQ(parameter.bytes, 2 * elements(parameter.shard.shape()));
    (parameter.sharded ? out.sharded_bytes : out.replicated_bytes) +=
        parameter.bytes;
  }
  return out;
}

// Every row is on one rank, but for KV heads past their number, which are on
// neighbours, and parameters that all have.
void expect_every_row_in_its_place(const ToyModel& model,
                                   const PlanOptions& options,
                                   std::int32_t degree) {
  const std::int64_t kv = model.config.kv_heads;
  const std::int32_t copies =
      degree > kv ? static_cast<std::int32_t>(degree / kv) : 1;
  std::vector<std::vector<RankParameter>> ranks;
  for (std::int32_t rank = 0; rank < degree; ++rank) {
    ranks.push_back(must_list(model, options, degree, rank));
  }
  for (std::size_t i = 0; i < ranks[0].size(); ++i) {
    if (!ranks[0][i].sharded) continue;
    const std::string& name = ranks[0][i].name;
    const bool is_kv = name.find("k_proj") != std::string::npos ||
                       name.find("v_proj") != std::string::npos;
    const bool by_columns = name.find("o_proj") != std::string::npos ||
                            name.find("down_proj") != std::string::npos;
    std::int64_t next = 0;
    for (std::int32_t rank = 0; rank < degree; rank += is_kv ? copies : 1) {
      const ParameterShard& shard =
          ranks[static_cast<std::size_t>(rank)][i].shard;
      for (std::int32_t copy = 1; is_kv && copy < copies; ++copy) {
        EXPECT_EQ(ranks[static_cast<std::size_t>(rank + copy)][i].shard, shard)
            << name;
      }
      for (const IndexRange& range : shard.dimensions[by_columns ? 1 : 0]) {
        EXPECT_EQ(range.begin, next) << name;
        next = range.end;
      }
    }
    EXPECT_EQ(next, model.parameters[i].shape[by_columns ? 1 : 0]) << name;
  }
}

// For random models, in each layout: every row lands where the style says, rank
// 0 holds no less than any other and just what the plan counts, sharded bytes
// never grow with the degree, replicated ones stay, and of all categories only
// collectives may grow.
TEST(RankParameters, ShrinkAndCoverWhateverTheModelAndTheLayout) {
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    const std::int64_t kv = std::int64_t{1} << (random() % 5);
    ToyModel model = toy(16 * (1 + static_cast<std::int64_t>(random() % 40)),
                         1 + static_cast<std::int64_t>(random() % 3), 16, kv);
    PlanOptions options = options_with(1024 * kGiB);
    options.what_if.kv_heads = KvHeadLayout::kReplicated;
    if (round % 2 == 0) options.what_if.vocab = VocabLayout::kPadded;
    model.config.vocab = 1024 - static_cast<std::int64_t>(random() % 20);
    for (ParameterInfo& parameter : model.parameters) {
      if (parameter.name.find("layers") == std::string::npos) {
        parameter.shape.front() = model.config.vocab;
      }
    }
    CoreBytes before;
    for (const std::int32_t degree : {2, 4, 8, 16}) {
      SCOPED_TRACE(absl::StrCat("hidden ", model.config.hidden, ", kv ", kv,
                                ", degree ", degree));
      options.topology.tp_degrees = {degree};
      const ShardPlan plan = must_plan(model, options);
      ASSERT_TRUE(plan.fits) << plan.reason;
      const CoreBytes& now = plan.bytes_per_core;
      const Totals first = totals(must_list(model, options, degree, 0));
      EXPECT_EQ(now[PlanCategory::kShardedWeights].bytes, first.sharded_bytes);
      EXPECT_EQ(now[PlanCategory::kReplicatedWeights].bytes,
                first.replicated_bytes);
      for (std::int32_t rank = 1; rank < degree; ++rank) {
        const Totals other = totals(must_list(model, options, degree, rank));
        EXPECT_LE(other.sharded_bytes, first.sharded_bytes);
        EXPECT_EQ(other.replicated_bytes, first.replicated_bytes);
      }
      expect_every_row_in_its_place(model, options, degree);
      if (degree > 2) {
        for (const auto category :
             {PlanCategory::kShardedWeights, PlanCategory::kCache,
              PlanCategory::kActivations, PlanCategory::kMicrocode}) {
          EXPECT_LE(now[category].bytes, before[category].bytes)
              << plan_category_name(category);
        }
        // A lone KV head is on every rank, as what no rule cuts.
        EXPECT_EQ(now[PlanCategory::kReplicatedWeights].bytes,
                  before[PlanCategory::kReplicatedWeights].bytes);
      }
      before = now;
    }
  }
}

}  // namespace
}  // namespace trnscout
