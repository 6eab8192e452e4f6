#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

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

// What the division takes beside weights and cache. Units: bytes.
struct Overhead {
  double activations = 0;
  double scratchpad = 0;
  double collectives = 0;
};

Overhead overhead_of(const Question& question, const Division& division,
                     std::int64_t length) {
  const double tokens =
      static_cast<double>(question.options.batch) * static_cast<double>(length);
  Overhead out;
  out.activations = saturating(activation_bytes(question, division, tokens));
  const auto step =
      static_cast<double>(question.options.topology.scratchpad_step_bytes);
  const double rounded =
      step > 0 ? std::ceil(out.activations / step) * step : 0;
  out.scratchpad = std::max(rounded - out.activations, 0.0);
  if (division.degrees.cores > 1) {
    out.collectives = saturating(
        2.0 * tokens *
        static_cast<double>(question.config.hidden * question.dtype_bytes));
  }
  return out;
}

absl::StatusOr<std::int64_t> cache_bytes(const Question& question,
                                         const Division& division,
                                         std::int64_t length) {
  const auto bytes = division.cache.kv_bytes(question.options.batch, length,
                                             question.dtype_bytes);
  if (!bytes.ok()) return bytes.status();
  return bytes->total();
}

PlannedBytes& at(CoreBytes& bytes, PlanCategory category) {
  return bytes.categories[static_cast<std::size_t>(category)];
}

void add_weights(const Division& division, CoreBytes& out) {
  at(out, PlanCategory::kShardedWeights) = {
      division.weights.sharded_bytes, Basis::kCounted,
      absl::StrFormat("shards of rank 0 of %d", division.degrees.cores)};
  at(out, PlanCategory::kReplicatedWeights) = {
      division.weights.replicated_bytes, Basis::kCounted,
      "parameters that no rule of the plan cuts"};
}

void add_overhead(const Question& question, const Division& division,
                  std::int64_t length, CoreBytes& out) {
  const Topology& topology = question.options.topology;
  const Overhead overhead = overhead_of(question, division, length);
  at(out, PlanCategory::kActivations) = {
      static_cast<std::int64_t>(overhead.activations), Basis::kEstimated,
      "batch x length x (4 hidden + (heads + 2 widest MLP) / tp_degree) x "
      "dtype + batch x vocab x 4"};
  at(out, PlanCategory::kScratchpad) = {
      static_cast<std::int64_t>(overhead.scratchpad), Basis::kEstimated,
      absl::StrCat("activations rounded up to steps of ",
                   format_bytes(topology.scratchpad_step_bytes))};
  at(out, PlanCategory::kMicrocode) = {topology.core_microcode_bytes,
                                       Basis::kCounted,
                                       "fixed, a physical core's times LNC"};
  at(out, PlanCategory::kCollectives) = {
      static_cast<std::int64_t>(overhead.collectives), Basis::kEstimated,
      "two buffers of batch x length x hidden x dtype past one core"};
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
  const auto cache = cache_bytes(question, division, length);
  if (!cache.ok()) return cache.status();
  const Overhead overhead = overhead_of(question, division, length);
  std::int64_t out = 0;
  for (const std::int64_t part :
       {division.weights.sharded_bytes, division.weights.replicated_bytes,
        *cache, static_cast<std::int64_t>(overhead.activations),
        static_cast<std::int64_t>(overhead.scratchpad),
        question.options.topology.core_microcode_bytes,
        static_cast<std::int64_t>(overhead.collectives)}) {
    if (__builtin_add_overflow(out, part, &out)) {
      return std::numeric_limits<std::int64_t>::max();
    }
  }
  return out;
}

absl::StatusOr<CoreBytes> weigh(const Question& question,
                                const Division& division, std::int64_t length) {
  CoreBytes out;
  add_weights(division, out);
  const auto cache = cache_bytes(question, division, length);
  if (!cache.ok()) return cache.status();
  at(out, PlanCategory::kCache) = {
      *cache, Basis::kCounted,
      absl::StrFormat("static cache of %d x %d tokens, KV heads cut by %d",
                      question.options.batch, length, division.cache_degree)};
  add_overhead(question, division, length, out);
  return out;
}

}  // namespace trnscout
