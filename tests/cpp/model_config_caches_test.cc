// What the layers of a config keep between the steps of a generation.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "status_matchers.h"
#include "trnscout/model_config.h"

namespace trnscout {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

absl::StatusOr<ModelConfig> parse(const std::string& text) {
  return ModelConfig::parse(text, "config.json");
}

ModelConfig parsed(const std::string& text) {
  auto config = parse(text);
  EXPECT_THAT(config, IsOk());
  return config.ok() ? *std::move(config) : ModelConfig();
}

// A Llama-3.1-8B with `more` fields behind its own.
std::string llama(const std::string& more = "") {
  return R"({"model_type":"llama","hidden_size":4096,"num_hidden_layers":32,)"
         R"("num_attention_heads":32,"num_key_value_heads":8)" +
         (more.empty() ? "" : "," + more) + "}";
}

std::int64_t cache_bytes(const ModelConfig& config, std::int64_t length) {
  const auto bytes = config.kv_bytes(1, length, 2);
  EXPECT_THAT(bytes, IsOk());
  return bytes.ok() ? bytes->total() : -1;
}

TEST(LayerCaches, KeepWindowsShort) {
  const ModelConfig config = parsed(
      R"({"model_type":"gpt_oss","num_hidden_layers":4,"sliding_window":128})");
  ASSERT_EQ(config.layer_caches.size(), 4u);
  EXPECT_EQ(config.layer_caches[0].kind, LayerCacheKind::kSlidingWindow);
  EXPECT_EQ(config.layer_caches[0].window_tokens, 128);
  EXPECT_EQ(config.layer_caches[1].kind, LayerCacheKind::kFullAttention);
  const std::int64_t token = 2 * 8 * 64 * 2;
  EXPECT_EQ(cache_bytes(config, 1000), token * (2 * 1000 + 2 * 128));
  EXPECT_EQ(cache_bytes(config, 100), token * 4 * 100);
}

TEST(LayerCaches, FollowThePatternThatTheFileNames) {
  const ModelConfig gemma =
      parsed(R"({"model_type":"gemma3_text","num_hidden_layers":4,)"
             R"("sliding_window_pattern":2})");
  EXPECT_EQ(gemma.layer_caches[1].layer_type, "full_attention");
  EXPECT_EQ(gemma.layer_caches[2].layer_type, "sliding_attention");
  const ModelConfig jamba = parsed(
      R"({"model_type":"jamba","num_hidden_layers":4,"attn_layer_period":2,)"
      R"("attn_layer_offset":1})");
  EXPECT_EQ(jamba.layer_caches[0].layer_type, "linear_attention");
  EXPECT_EQ(jamba.layer_caches[3].layer_type, "full_attention");
  const ModelConfig qwen = parsed(
      R"({"model_type":"qwen2","num_hidden_layers":4,"max_window_layers":3,)"
      R"("use_sliding_window":true})");
  EXPECT_EQ(qwen.layer_caches[2].layer_type, "full_attention");
  EXPECT_EQ(qwen.layer_caches[3].window_tokens, 4096);
  const ModelConfig nemotron =
      parsed(R"({"model_type":"nemotron_h","hybrid_override_pattern":"M*-"})");
  EXPECT_EQ(nemotron.layers, 3);
  EXPECT_EQ(nemotron.layer_caches[1].kind, LayerCacheKind::kFullAttention);
  EXPECT_EQ(nemotron.layer_caches[2].kind, LayerCacheKind::kNone);
}

TEST(LayerCaches, HoldTheLatentOfMlaOnce) {
  const ModelConfig config = parsed(R"({"model_type":"deepseek_v3"})");
  EXPECT_EQ(config.layer_caches[0].kind, LayerCacheKind::kLatent);
  EXPECT_EQ(config.layer_caches[0].elements_per_token(), 512 + 64);
  EXPECT_EQ(*config.kv_bytes_per_token(2), 61 * 576 * 2);
}

TEST(LayerCaches, HoldStatesWhateverTheLength) {
  const ModelConfig config = parsed(R"({"model_type":"mamba2"})");
  EXPECT_EQ(config.q_heads, 0);
  EXPECT_EQ(config.layer_caches[0].kind, LayerCacheKind::kState);
  EXPECT_EQ(cache_bytes(config, 10), cache_bytes(config, 10'000));
  EXPECT_GT(cache_bytes(config, 10), 0);
}

TEST(LayerCaches, AreNotCountedWhereTheSizeIsNotKnown) {
  const ModelConfig config =
      parsed(R"({"model_type":"qwen3","num_hidden_layers":2,)"
             R"("layer_types":["linear_attention","full_attention"]})");
  const auto bytes = config.kv_bytes(1, 10, 2);
  ASSERT_THAT(bytes, IsOk());
  EXPECT_EQ(bytes->uncounted_layers, 1);
  EXPECT_THAT(config.warnings,
              testing::Contains(HasSubstr(
                  "the cache of 1 layer of type linear_attention is not "
                  "counted: its size is not known for qwen3")));
}

TEST(LayerCaches, HoldBlocksAsTheirEntries) {
  const ModelConfig config = parsed(
      R"({"model_type":"deepseek_v4","num_hidden_layers":3,"head_dim":16,)"
      R"("index_head_dim":8,"sliding_window":8,)"
      R"("compress_ratios":[0,4,128,0],"compress_rate_hca":6})");
  ASSERT_EQ(config.layer_caches.size(), 3u);
  EXPECT_EQ(config.layer_caches[0].layer_type, "sliding_attention");
  EXPECT_EQ(config.layer_caches[0].window_tokens, 7);
  const LayerCache& sparse = config.layer_caches[1];
  EXPECT_EQ(sparse.layer_type, "compressed_sparse_attention");
  EXPECT_EQ(sparse.block_tokens, 4);
  EXPECT_EQ(sparse.block_dim, 16 + 8);
  EXPECT_EQ(config.layer_caches[2].block_tokens, 6);
  EXPECT_EQ(config.layer_caches[2].open_dim, 2 * 16);
}

TEST(LayerCaches, FollowTheListsOfCheckpoints) {
  const ModelConfig minimax =
      parsed(R"({"model_type":"minimax_m3_vl_text","num_hidden_layers":2,)"
             R"("sparse_attention_config":{"sparse_attention_freq":[0,1],)"
             R"("sparse_index_dim":32}})");
  EXPECT_EQ(minimax.layer_caches[0].index_dim, 0);
  EXPECT_EQ(minimax.layer_caches[1].layer_type, "minimax_m3_sparse");
  EXPECT_EQ(minimax.layer_caches[1].index_dim, 32);
  const ModelConfig kimi = parsed(
      R"({"model_type":"kimi_linear","num_hidden_layers":3,)"
      R"("linear_attn_config":{"kda_layers":[1,3],"full_attn_layers":[2],)"
      R"("head_dim":8,"num_heads":2,"short_conv_kernel_size":4}})");
  EXPECT_EQ(kimi.layer_caches[0].layer_type, "linear_attention");
  EXPECT_EQ(kimi.layer_caches[0].state, 3 * 2 * 8 * 4);
  EXPECT_EQ(kimi.layer_caches[0].state_bytes, 2 * 8 * 8 * 4);
  EXPECT_EQ(kimi.layer_caches[1].kind, LayerCacheKind::kLatent);
  EXPECT_THAT(parse(R"({"model_type":"deepseek_v4","num_hidden_layers":1,)"
                    R"("compress_ratios":[5]})"),
              StatusIs(kInvalid, HasSubstr("compress_ratios is 5; it must be "
                                           "a code of a layer type")));
}

TEST(LayerCaches, ShareIndexers) {
  const std::string glm =
      R"({"model_type":"glm_moe_dsa","num_hidden_layers":4,)";
  const auto dims = [](const ModelConfig& config) {
    std::vector<std::int64_t> out;
    for (const LayerCache& cache : config.layer_caches) {
      out.push_back(cache.index_dim);
    }
    return out;
  };
  EXPECT_THAT(dims(parsed(glm + R"("index_topk_pattern":"FSSF"})")),
              ElementsAre(128, 0, 0, 128));
  EXPECT_THAT(dims(parsed(glm + R"("index_topk_freq":2})")),
              ElementsAre(128, 128, 0, 128));
  EXPECT_THAT(dims(parsed(glm + R"("indexer_types":["full","shared","full",)"
                                R"("shared"]})")),
              ElementsAre(128, 0, 128, 0));
  EXPECT_THAT(parse(glm + R"("indexer_types":[1]})"),
              StatusIs(kInvalid, HasSubstr("indexer_types is 1; it must be "
                                           "full or shared")));
}

TEST(LayerCaches, StandOncePerPassOfALoop) {
  const std::string loop =
      R"({"model_type":"inkling2_loop_text","loop_num_passes":)";
  const ModelConfig config = parsed(loop + "3}");
  EXPECT_EQ(config.layers, 24);
  ASSERT_EQ(config.layer_caches.size(), 24u + 2 * 12);
  EXPECT_EQ(config.layer_caches[24], config.layer_caches[6]);
  EXPECT_EQ(parsed(loop + "1}").layer_caches.size(), 24u);
  const std::string few = loop + R"(3,"num_hidden_layers":)";
  EXPECT_EQ(parsed(few + "7}").layer_caches.size(), 7u + 2 * 1);
  EXPECT_EQ(parsed(few + "3}").layer_caches.size(), 3u);
  EXPECT_THAT(parse(loop + "100000}"),
              StatusIs(kInvalid, HasSubstr("loop_num_passes is 100000; with 12 "
                                           "layers in the loop there are more "
                                           "than 100000")));
}

TEST(LayerCaches, TakeOverridesOfALayer) {
  const ModelConfig config = parsed(llama(
      R"("per_layer_config":{"1":{"head_dim":64},"2":{"sliding_window":16}})"));
  EXPECT_EQ(config.layer_caches[0].key_dim, 128);
  EXPECT_EQ(config.layer_caches[1].key_dim, 64);
  EXPECT_EQ(config.layer_caches[1].value_dim, 64);
  EXPECT_THAT(parse(llama(R"("per_layer_config":{"32":{}})")),
              StatusIs(kInvalid, HasSubstr("per_layer_config has layer 32; "
                                           "num_hidden_layers is 32")));
}

TEST(KvBytes, RefusesWhatIsNotPositiveOrTooLarge) {
  const ModelConfig config = parsed(llama());
  EXPECT_THAT(config.kv_bytes(0, 1, 2),
              StatusIs(kInvalid,
                       "batch is 0, length 1, dtype_bytes 2; each "
                       "must be at least 1"));
  EXPECT_THAT(config.kv_bytes(1, -1, 2), StatusIs(kInvalid, HasSubstr("-1")));
  EXPECT_THAT(config.kv_bytes(std::int64_t{1} << 40, std::int64_t{1} << 40, 2),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("more than 2^63 - 1 bytes")));
}

TEST(KvBytesPerToken, RefusesWhatIsNotPositiveOrTooLarge) {
  const ModelConfig config = parsed(llama());
  EXPECT_THAT(config.kv_bytes_per_token(0),
              StatusIs(kInvalid, "dtype_bytes is 0; it must be at least 1"));
  EXPECT_THAT(config.kv_bytes_per_token(INT64_MAX),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("has more than 2^63 - 1 bytes")));
}

}  // namespace
}  // namespace trnscout
