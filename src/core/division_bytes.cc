#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "division.h"
#include "trnscout/memory_ledger.h"

namespace trnscout {
namespace {

double saturating(double bytes) { return std::min(bytes, 0x1p62); }

// Bytes that live at once while a prompt of all the tokens is read: inputs and
// outputs of a layer, its projections and the widest MLP, then one row of
// logits a sequence in float32.
double activation_bytes(const Question& question, const Division& division,
                        double tokens) {
  const ModelConfig& config = question.config;
  const double degree = division.degrees.tp_degree;
  const double experts =
      static_cast<double>(config.moe_intermediate * config.experts_per_token);
  const double widest =
      std::max(static_cast<double>(config.intermediate), experts);
  const double heads =
      static_cast<double>(config.q_heads + 2 * config.kv_heads) *
      static_cast<double>(config.head_dim);
  const double token = 4.0 * static_cast<double>(config.hidden) +
                       (heads + 2.0 * widest) / degree;
  return tokens * token * static_cast<double>(question.dtype_bytes) +
         4.0 * static_cast<double>(question.options.batch) *
             static_cast<double>(config.vocab);
}

PlannedBytes& at(CoreBytes& bytes, PlanCategory category) {
  return bytes.categories[static_cast<std::size_t>(category)];
}

void add_overhead(const Question& question, const Division& division,
                  std::int64_t length, CoreBytes& out) {
  const auto estimate = [&out](PlanCategory category, double bytes) {
    at(out, category) = {static_cast<std::int64_t>(bytes), Basis::kEstimated,
                         ""};
  };
  const Topology& topology = question.options.topology;
  const double tokens =
      static_cast<double>(question.options.batch) * static_cast<double>(length);
  const double activations =
      saturating(activation_bytes(question, division, tokens));
  estimate(PlanCategory::kActivations, activations);
  const auto step = static_cast<double>(topology.scratchpad_step_bytes);
  const double rounded = step > 0 ? std::ceil(activations / step) * step : 0;
  estimate(PlanCategory::kScratchpad, std::max(rounded - activations, 0.0));
  at(out, PlanCategory::kMicrocode).bytes = topology.core_microcode_bytes;
  const double collectives =
      division.degrees.cores > 1
          ? saturating(2.0 * tokens *
                       static_cast<double>(question.config.hidden *
                                           question.dtype_bytes))
          : 0.0;
  estimate(PlanCategory::kCollectives, collectives);
}

// Every number, without the words on it.
absl::StatusOr<CoreBytes> numbers(const Question& question,
                                  const Division& division,
                                  std::int64_t length) {
  const auto cache = division.cache.kv_bytes(question.options.batch, length,
                                             question.dtype_bytes);
  if (!cache.ok()) return cache.status();
  CoreBytes out;
  at(out, PlanCategory::kShardedWeights).bytes = division.weights.sharded_bytes;
  at(out, PlanCategory::kReplicatedWeights).bytes =
      division.weights.replicated_bytes;
  at(out, PlanCategory::kCache).bytes = cache->total();
  add_overhead(question, division, length, out);
  return out;
}

void add_formulas(const Question& question, const Division& division,
                  std::int64_t length, CoreBytes& out) {
  at(out, PlanCategory::kShardedWeights).formula =
      absl::StrFormat("shards of rank 0 of %d", division.degrees.cores);
  at(out, PlanCategory::kReplicatedWeights).formula =
      "parameters that no rule of the plan cuts";
  at(out, PlanCategory::kCache).formula =
      absl::StrFormat("static cache of %d x %d tokens, KV heads cut by %d",
                      question.options.batch, length, division.cache_degree);
  at(out, PlanCategory::kActivations).formula =
      "batch x length x (4 hidden + (heads + 2 widest MLP) / tp_degree) x "
      "dtype + batch x vocab x 4";
  at(out, PlanCategory::kScratchpad).formula = absl::StrCat(
      "activations rounded up to steps of ",
      format_bytes(question.options.topology.scratchpad_step_bytes));
  at(out, PlanCategory::kMicrocode).formula =
      "fixed, a physical core's times LNC";
  at(out, PlanCategory::kCollectives).formula =
      "two buffers of batch x length x hidden x dtype past one core";
}

}  // namespace

ModelConfig cache_of_one_rank(const ModelConfig& config, std::int32_t degree) {
  ModelConfig out;
  out.layer_caches = config.layer_caches;
  for (LayerCache& layer : out.layer_caches) {
    if (layer.kind == LayerCacheKind::kLatent) continue;
    layer.kv_heads = (layer.kv_heads + degree - 1) / degree;
  }
  return out;
}

absl::StatusOr<std::int64_t> total_bytes(const Question& question,
                                         const Division& division,
                                         std::int64_t length) {
  const auto bytes = numbers(question, division, length);
  if (!bytes.ok()) return bytes.status();
  return bytes->total();
}

absl::StatusOr<CoreBytes> weigh(const Question& question,
                                const Division& division, std::int64_t length) {
  auto out = numbers(question, division, length);
  if (out.ok()) add_formulas(question, division, length, *out);
  return out;
}

}  // namespace trnscout
