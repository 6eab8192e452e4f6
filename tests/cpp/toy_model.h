#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "trnscout/shard_plan.h"

namespace trnscout {

inline constexpr std::int64_t kGiB = std::int64_t{1} << 30;

struct ToyModel {
  ModelConfig config;
  ParallelPlan plan;
  std::vector<ParameterInfo> parameters;
};

// A decoder of the Llama kind: `layers` layers of 4 hidden^2 attention weights
// (with fewer KV heads) and an MLP, embeddings apart.
inline ToyModel toy(std::int64_t hidden, std::int64_t layers,
                    std::int64_t q_heads, std::int64_t kv_heads) {
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

inline PlanOptions options_with(std::int64_t core_bytes) {
  PlanOptions out;
  out.topology = *find_topology("trn2");
  out.topology.core_memory_bytes = core_bytes;
  out.max_length = 128;
  return out;
}

inline ShardPlan must_plan(const ToyModel& model, const PlanOptions& options) {
  auto out = plan_shards(model.config, model.plan, model.parameters, options);
  EXPECT_TRUE(out.ok()) << out.status();
  return *std::move(out);
}

// A core that holds anything, in groups of `degree` alone.
inline PlanOptions at_degree(std::int32_t degree) {
  PlanOptions out = options_with(1024 * kGiB);
  out.topology.tp_degrees = {degree};
  return out;
}

inline std::vector<RankParameter> must_list(const ToyModel& model,
                                            const PlanOptions& options,
                                            std::int32_t degree,
                                            std::int32_t rank) {
  auto out = rank_parameters(model.config, model.plan, model.parameters,
                             options, {degree, degree, 1}, rank);
  EXPECT_TRUE(out.ok()) << out.status();
  return out.ok() ? *std::move(out) : std::vector<RankParameter>();
}

inline std::int64_t weight_bytes(const ToyModel& model) {
  std::int64_t out = 0;
  for (const ParameterInfo& parameter : model.parameters) {
    std::int64_t elements = 1;
    for (const std::int64_t length : parameter.shape) elements *= length;
    out += 2 * elements;
  }
  return out;
}

}  // namespace trnscout
