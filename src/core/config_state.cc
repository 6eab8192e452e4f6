#include "config_state.h"

#include <algorithm>

namespace trnscout {
namespace {

constexpr std::int64_t kFloat32Bytes = 4;
constexpr std::int64_t kInt64Bytes = 8;

std::int64_t count(FieldReader& fields, absl::string_view field) {
  return fields.number(field, kCount).value_or(0);
}

// A count, or what it follows from where nobody gave it.
std::int64_t count_or_rule(FieldReader& fields, const ModelConfig& config,
                           absl::string_view field) {
  const auto given = fields.number(field, kCount);
  if (given.has_value()) return *given;
  const absl::string_view rule = fields.fallback(field);
  if (rule == "@q_heads") return config.q_heads;
  if (rule == "@hidden") return config.hidden;
  if (rule == "@three_quarters" && config.q_heads > 0) {
    return 3 * config.hidden /
           (4 * count_or_rule(fields, config, "delta_k_heads"));
  }
  if (rule == "@twice_k") {
    return 2 * count_or_rule(fields, config, "delta_k_dim");
  }
  return 0;
}

// The width of a state-space layer: what the class says, else hidden times the
// expansion.
std::int64_t inner_width(FieldReader& fields, const ModelConfig& config) {
  const auto inner = fields.number("ssm_inner", kCount);
  if (inner.has_value()) return *inner;
  return count(fields, "ssm_expand") * config.hidden;
}

// Gu and Dao 2023 (Mamba), section 3.
LayerState mamba(FieldReader& fields, const ModelConfig& config) {
  const std::int64_t inner = inner_width(fields, config);
  return {.elements = inner * count(fields, "ssm_kernel"),
          .bytes = inner * count(fields, "ssm_state") * kFloat32Bytes,
          .known = true};
}

// Dao and Gu 2024 (Mamba-2), section 7: the convolution runs over x, B and C.
LayerState mamba2(FieldReader& fields, const ModelConfig& config) {
  const std::int64_t heads = count(fields, "ssm_heads");
  const auto given = fields.number("ssm_head_dim", kCount);
  const std::int64_t head_dim =
      given.has_value()
          ? *given
          : (heads > 0 && fields.row().find("ssm_head_dim") != nullptr
                 ? inner_width(fields, config) / heads
                 : config.head_dim);
  const std::int64_t state = count(fields, "ssm_state");
  const std::int64_t width =
      heads * head_dim + 2 * count(fields, "ssm_groups") * state;
  return {.elements = width * count(fields, "ssm_kernel"),
          .bytes = heads * head_dim * state * kFloat32Bytes,
          .known = true};
}

// Yang et al. 2024 (Gated Delta Networks): one matrix of k by v a value head.
LayerState delta(FieldReader& fields, const ModelConfig& config) {
  const std::int64_t k_dim = count_or_rule(fields, config, "delta_k_dim");
  const std::int64_t v_dim = count_or_rule(fields, config, "delta_v_dim");
  const std::int64_t v_heads = count_or_rule(fields, config, "delta_v_heads");
  const std::int64_t k_heads = count_or_rule(fields, config, "delta_k_heads");
  const std::int64_t width = 2 * k_heads * k_dim + v_heads * v_dim;
  return {.elements = width * count(fields, "delta_kernel"),
          .bytes = v_heads * k_dim * v_dim * kFloat32Bytes,
          .known = true};
}

// Qin et al. 2024 (Lightning Attention-2), section 3: one matrix a head.
LayerState lightning(const ModelConfig& config) {
  return {.elements = config.q_heads * config.head_dim * config.head_dim,
          .known = true};
}

// De et al. 2024 (Griffin), section 2.4: a gated unit behind a convolution.
LayerState rglru(FieldReader& fields, const ModelConfig& config) {
  const std::int64_t width = count_or_rule(fields, config, "lru_width");
  const std::int64_t kernel = count(fields, "lru_kernel");
  return {.elements = width * std::max<std::int64_t>(kernel - 1, 0),
          .bytes = width * kFloat32Bytes,
          .known = true};
}

// Zaya: two convolutions over queries and keys, and half a value of the token
// before.
LayerState cca(FieldReader& fields, const ModelConfig& config) {
  const std::int64_t taps =
      count(fields, "cca_first") + count(fields, "cca_second") - 2;
  const std::int64_t keys = config.kv_heads * config.head_dim;
  const std::int64_t width = config.q_heads * config.head_dim + keys;
  return {.elements = width * std::max<std::int64_t>(taps, 0) + keys / 2,
          .known = true};
}

// Inkling: four convolutions in float32, over keys, values and twice the hidden
// state.
LayerState sconv(FieldReader& fields, const ModelConfig& config) {
  const std::int64_t kernel = count(fields, "conv_kernel") * kFloat32Bytes;
  return {.bytes = 2 * config.hidden * kernel,
          .bytes_per_kv = kernel,
          .known = true};
}

}  // namespace

LayerState layer_state(FieldReader& fields, const ModelConfig& config) {
  const ConfigField* const formula = fields.row().find("state");
  if (formula == nullptr) return {};
  const absl::string_view name = formula->fallback;
  if (name == "mamba") return mamba(fields, config);
  if (name == "mamba2") return mamba2(fields, config);
  if (name == "delta") return delta(fields, config);
  if (name == "lightning") return lightning(config);
  if (name == "rglru") return rglru(fields, config);
  if (name == "cca") return cca(fields, config);
  if (name == "sconv") return sconv(fields, config);
  if (name == "conv") {
    return {.elements = config.hidden * count(fields, "conv_kernel"),
            .known = true};
  }
  return {};
}

// A convolution with holes over all streams, and the ids of the last tokens.
void add_lookup_states(FieldReader& fields, ModelConfig& config) {
  const ConfigValue* const layers = fields.given("ple_layers");
  if (layers == nullptr || layers->is_null()) return;
  if (layers->kind != ConfigValue::Kind::kArray) {
    return fields.fail(refuse_value(fields.name("ple_layers"), *layers,
                                    "it must be a list of layers"));
  }
  const std::int64_t ngram = count(fields, "ple_ngram");
  const std::int64_t taps = (count(fields, "ple_kernel") - 1) * ngram;
  for (const ConfigValue& item : layers->items) {
    const auto layer =
        whole_number(fields.name("ple_layers"), item, {1, config.layers});
    if (!layer.ok()) return fields.fail(layer.status());
    LayerCache& cache =
        config.layer_caches[static_cast<std::size_t>(*layer - 1)];
    cache.state += count(fields, "ple_streams") * config.hidden * taps;
    cache.state_bytes += (ngram - 1) * kInt64Bytes;
  }
}

}  // namespace trnscout
