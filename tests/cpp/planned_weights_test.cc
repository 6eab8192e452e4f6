// Bytes of quantised weights: names, types and shapes as the formats store
// them.

#include "planned_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "status_matchers.h"

namespace trnscout {
namespace {

constexpr std::int64_t kOut = 256;
constexpr std::int64_t kIn = 512;
constexpr std::int64_t kBfloat16Bytes = 2;
constexpr std::int64_t kDequantized = kOut * kIn * kBfloat16Bytes;

// What a generation of cores holds of the parameters, in bytes.
std::int64_t bytes_on(absl::string_view neuron_core, const std::string& method,
                      std::int64_t bits,
                      const std::vector<ParameterInfo>& parameters) {
  ModelConfig config;
  config.quantization = {.method = method, .bits = bits, .kept_modules = {}};
  const ParallelPlan plan;
  const auto held =
      weights_on_core(config, plan, parameters, kBfloat16Bytes, neuron_core);
  EXPECT_THAT(held, IsOk());
  std::int64_t sum = 0;
  if (!held.ok()) return -1;
  for (const CoreWeight& weight : held->weights) sum += weight.bytes;
  return sum;
}

// Frantar et al. 2022 (GPTQ), as AutoGPTQ stores it: weights packed along the
// input, zeros and scales a group of 128, and the group of each input.
TEST(QuantizedWeights, OfGptqCountAsTheirWeights) {
  const std::vector<ParameterInfo> layer = {
      {"q_proj.qweight", "I32", {kIn * 4 / 32, kOut}, {}},
      {"q_proj.qzeros", "I32", {kIn / 128, kOut * 4 / 32}, {}},
      {"q_proj.scales", "F16", {kIn / 128, kOut}, {}},
      {"q_proj.g_idx", "I32", {kIn}, {}}};
  EXPECT_EQ(bytes_on("v3", "gptq", 4, layer), kDequantized);
  EXPECT_EQ(bytes_on("v4", "gptq", 4, layer), kDequantized);
  const std::vector<ParameterInfo> eight = {
      {"q_proj.qweight", "I32", {kIn * 8 / 32, kOut}, {}}};
  EXPECT_EQ(bytes_on("v3", "gptq", 8, eight), kDequantized);
}

// Three bits cross the borders of elements: never less than the weights take,
// and at most 3.2 % more.
TEST(QuantizedWeights, OfThreeBitsAreRoundedUp) {
  const std::int64_t bytes = bytes_on(
      "v3", "gptq", 3, {{"q_proj.qweight", "I32", {kIn * 3 / 32, kOut}, {}}});
  EXPECT_GE(bytes, kDequantized);
  EXPECT_LE(bytes, kDequantized * 1032 / 1000);
}

// Lin et al. 2023 (AWQ), as AutoAWQ stores it: packed along the output.
TEST(QuantizedWeights, OfAwqCountAsTheirWeights) {
  EXPECT_EQ(bytes_on("v3", "awq", 4,
                     {{"q_proj.qweight", "I32", {kIn, kOut * 4 / 32}, {}},
                      {"q_proj.qzeros", "I32", {kIn / 128, kOut * 4 / 32}, {}},
                      {"q_proj.scales", "F16", {kIn / 128, kOut}, {}}}),
            kDequantized);
}

// Blocks of 128 by 128 with a float32 scale each, as DeepSeek-V3 has them; the
// experts of Transformers in one tensor have theirs under a name of their own.
TEST(QuantizedWeights, OfFp8CountAsTheyAreStoredWhereACoreHasThem) {
  const std::vector<ParameterInfo> layer = {
      {"q_proj.weight", "F8_E4M3", {kOut, kIn}, {}},
      {"q_proj.weight_scale_inv", "F32", {kOut / 128, kIn / 128}, {}},
      {"q_proj.activation_scale", "F32", {1}, {}}};
  const std::vector<ParameterInfo> experts = {
      {"experts.down_proj", "F8_E4M3", {2, kOut, kIn}, {}},
      {"experts.down_proj_scale_inv", "F32", {2, kOut / 128, kIn / 128}, {}}};
  EXPECT_EQ(bytes_on("v3", "fp8", 8, layer), kDequantized);
  EXPECT_EQ(bytes_on("v3", "fp8", 8, experts), 2 * kDequantized);
  // The scales beside them, in the dtype of the model.
  EXPECT_EQ(bytes_on("v4", "fp8", 8, layer),
            kOut * kIn + (2 * 4 + 1) * kBfloat16Bytes);
  EXPECT_EQ(bytes_on("v4", "fp8", 8, experts),
            2 * (kOut * kIn + 2 * 4 * kBfloat16Bytes));
}

// OCP Microscaling 1.0: 32 weights of four bits, two a byte, share a scale of
// one byte.
TEST(QuantizedWeights, OfMxfp4CountAsTheyAreStoredWhereACoreHasThem) {
  const std::vector<ParameterInfo> experts = {
      {"experts.gate_up_proj_blocks", "U8", {1, kOut, kIn / 32, 16}, {}},
      {"experts.gate_up_proj_scales", "U8", {1, kOut, kIn / 32}, {}},
      {"experts.gate_up_proj_bias", "BF16", {1, kOut}, {}}};
  const std::int64_t bias = kOut * kBfloat16Bytes;
  EXPECT_EQ(bytes_on("v3", "mxfp4", 4, experts), kDequantized + bias);
  EXPECT_EQ(bytes_on("v4", "mxfp4", 4, experts),
            kOut * kIn / 2 + kOut * kIn / 32 + bias);
}

TEST(QuantizedWeights, OfCompressedTensorsCountAsTheirWeights) {
  EXPECT_EQ(bytes_on("v3", "compressed-tensors", 4,
                     {{"q_proj.weight_packed", "I32", {kOut, kIn / 8}, {}},
                      {"q_proj.weight_scale", "BF16", {kOut, kIn / 128}, {}},
                      {"q_proj.weight_global_scale", "F32", {1}, {}},
                      {"q_proj.weight_g_idx", "I32", {kIn}, {}},
                      {"q_proj.weight_shape", "I64", {2}, {}}}),
            kDequantized);
}

}  // namespace
}  // namespace trnscout
