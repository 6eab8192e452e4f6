#include "config_state.h"

namespace trnscout {
namespace {

std::int64_t count(FieldReader& fields, absl::string_view field) {
  return fields.number(field, kCount).value_or(0);
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
  return {inner * count(fields, "ssm_kernel"),
          inner * count(fields, "ssm_state"), true};
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
  return {width * count(fields, "ssm_kernel"), heads * head_dim * state, true};
}

// Yang et al. 2024 (Gated Delta Networks): one matrix of k by v a value head.
LayerState delta(FieldReader& fields) {
  const std::int64_t k_dim = count(fields, "delta_k_dim");
  const std::int64_t v_dim = count(fields, "delta_v_dim");
  const std::int64_t v_heads = count(fields, "delta_v_heads");
  const std::int64_t width =
      2 * count(fields, "delta_k_heads") * k_dim + v_heads * v_dim;
  return {width * count(fields, "delta_kernel"), v_heads * k_dim * v_dim, true};
}

}  // namespace

LayerState layer_state(FieldReader& fields, const ModelConfig& config) {
  const ConfigField* const formula = fields.row().find("state");
  if (formula == nullptr) return {};
  const absl::string_view name = formula->fallback;
  if (name == "mamba") return mamba(fields, config);
  if (name == "mamba2") return mamba2(fields, config);
  if (name == "delta") return delta(fields);
  if (name == "conv") {
    return {config.hidden * count(fields, "conv_kernel"), 0, true};
  }
  return {};
}

}  // namespace trnscout
