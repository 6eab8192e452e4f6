#include <algorithm>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "config_layers.h"
#include "config_state.h"
#include "printable.h"

namespace trnscout {
namespace {

// What a layer's cache is made from; a layer of its own may change any of it.
struct Heads {
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t value_dim = 0;
  std::int64_t kv_rank = 0;
  std::int64_t rope_dim = 0;
  std::int64_t window_tokens = 0;
  std::int64_t chunk_tokens = 0;
};

constexpr std::pair<absl::string_view, std::int64_t Heads::*> kHeadFields[] = {
    {"kv_heads", &Heads::kv_heads},   {"head_dim", &Heads::head_dim},
    {"value_dim", &Heads::value_dim}, {"kv_rank", &Heads::kv_rank},
    {"rope_dim", &Heads::rope_dim},   {"window", &Heads::window_tokens},
    {"chunk", &Heads::chunk_tokens},
};

Limits limits_of(std::int64_t Heads::*member) {
  return member == &Heads::window_tokens || member == &Heads::chunk_tokens
             ? kTokens
             : kCount;
}

Heads usual_heads(FieldReader& fields, const ModelConfig& config) {
  Heads out;
  for (const auto& [field, member] : kHeadFields) {
    out.*member = fields.number(field, limits_of(member)).value_or(0);
  }
  out.kv_heads = config.kv_heads;
  out.head_dim = config.head_dim;
  if (out.value_dim == 0) out.value_dim = out.head_dim;
  // Falcon's newer form repeats keys and values for every head before it keeps
  // them.
  if (fields.flag("new_decoder").value_or(false)) {
    out.kv_heads = config.q_heads;
  }
  if (fields.row().find("use_window") != nullptr &&
      !fields.flag("use_window").value_or(false)) {
    out.window_tokens = 0;
  }
  return out;
}

// Overrides by layer, from per_layer_config.
absl::StatusOr<std::map<std::int64_t, Heads>> own_heads(
    const FieldReader& fields, const Heads& usual, const ConfigValue& value,
    std::int64_t layers) {
  std::map<std::int64_t, Heads> out;
  for (const auto& [layer, part] : value.members) {
    std::int64_t index = 0;
    if (!absl::SimpleAtoi(layer, &index) || index < 0 || index >= layers) {
      return absl::InvalidArgumentError(
          absl::StrCat("per_layer_config has layer ", printable(layer), "; ",
                       fields.name("layers"), " is ", layers));
    }
    FieldReader own(fields.row(), &part, nullptr);
    Heads heads = usual;
    for (const auto& [field, member] : kHeadFields) {
      const ConfigValue* const given = own.given(field);
      if (given == nullptr) continue;
      heads.*member = own.number(field, limits_of(member)).value_or(0);
      if (member == &Heads::head_dim &&
          fields.row().find("value_dim") == nullptr) {
        heads.value_dim = heads.head_dim;
      }
    }
    if (!own.status().ok()) {
      return at(absl::StrCat("per_layer_config, layer ", index), own.status());
    }
    out[index] = heads;
  }
  return out;
}

// The heads of layers of full attention, in families that give them their own.
Heads full_attention_heads(FieldReader& fields, Heads heads) {
  const auto dim = fields.number("full_head_dim", kDimension);
  if (dim.has_value()) heads.head_dim = heads.value_dim = *dim;
  const auto kv_heads = fields.number("full_kv_heads", kDimension);
  if (kv_heads.has_value()) heads.kv_heads = *kv_heads;
  return heads;
}

bool has_window(absl::string_view type) {
  return type == "sliding_attention" || type == "chunked_attention" ||
         type == "hybrid_sliding" || type == "reference_sliding_attention";
}

bool has_state(absl::string_view type) {
  return type == "linear_attention" || type == "conv" || type == "hybrid" ||
         type == "hybrid_sliding";
}

LayerCacheKind kind_of(const LayerCache& cache, const Heads& heads) {
  if (has_state(cache.layer_type)) {
    return cache.layer_type == "hybrid" || cache.layer_type == "hybrid_sliding"
               ? LayerCacheKind::kHybrid
               : LayerCacheKind::kState;
  }
  if (cache.layer_type == "moe" || cache.layer_type == "mlp") {
    return LayerCacheKind::kNone;
  }
  if (heads.kv_rank > 0) return LayerCacheKind::kLatent;
  return cache.window_tokens > 0 ? LayerCacheKind::kSlidingWindow
                                 : LayerCacheKind::kFullAttention;
}

void set_attention(const Heads& heads, std::int64_t index_dim,
                   LayerCache& cache) {
  const bool latent = heads.kv_rank > 0;
  cache.kv_heads = latent ? 1 : heads.kv_heads;
  cache.key_dim = latent ? heads.kv_rank : heads.head_dim;
  cache.value_dim = latent ? heads.rope_dim : heads.value_dim;
  if (cache.layer_type == "indexed_attention") cache.index_dim = index_dim;
  // Their caches are the family's own classes.
  if (cache.layer_type == "compressed_sparse_attention" ||
      cache.layer_type == "heavily_compressed_attention" ||
      cache.layer_type == "minimax_m3_sparse" ||
      cache.layer_type == "reference_sliding_attention") {
    cache.counted = false;
  }
}

absl::StatusOr<LayerCache> layer_cache(std::string type, const Heads& heads,
                                       std::int64_t index_dim,
                                       const LayerState& state) {
  LayerCache out;
  const std::int64_t window =
      type == "chunked_attention" ? heads.chunk_tokens : heads.window_tokens;
  if (has_window(type) && window == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "it is of type ", type, "; ",
        type == "chunked_attention" ? "attention_chunk_size" : "sliding_window",
        " is missing"));
  }
  out.layer_type = std::move(type);
  if (has_window(out.layer_type)) out.window_tokens = window;
  out.kind = kind_of(out, heads);
  if (out.kind != LayerCacheKind::kNone && out.kind != LayerCacheKind::kState) {
    set_attention(heads, index_dim, out);
  }
  if (has_state(out.layer_type)) {
    out.conv_state = state.conv;
    out.recurrent_state = state.recurrent;
    out.counted = state.known;
  }
  return out;
}

std::string usual_type(const Heads& heads) {
  if (heads.window_tokens > 0) return "sliding_attention";
  return heads.chunk_tokens > 0 ? "chunked_attention" : "full_attention";
}

void warn_of_uncounted(ModelConfig& config) {
  std::map<std::string, std::size_t> uncounted;
  for (const LayerCache& cache : config.layer_caches) {
    if (!cache.counted) ++uncounted[cache.layer_type];
  }
  for (const auto& [type, count] : uncounted) {
    config.warnings.push_back(absl::StrCat(
        "the cache of ", counted(count, "layer"), " of type ", type,
        " is not counted: its size is not known for ",
        config.text_model_type.empty() ? "this family"
                                       : printable(config.text_model_type)));
  }
}

}  // namespace

absl::Status set_layer_caches(FieldReader& fields,
                              const std::vector<std::string>& types,
                              ModelConfig& config) {
  const Heads usual = usual_heads(fields, config);
  const Heads full = full_attention_heads(fields, usual);
  const std::int64_t index_dim = fields.number("index_dim", kCount).value_or(0);
  const std::int64_t window_factor =
      fields.number("window_kv_factor", kDimension).value_or(1);
  const LayerState state = layer_state(fields, config);
  std::int64_t sharing = 0;
  if (fields.row().find("shares_kv") != nullptr) {
    sharing = fields.number("shared_kv_layers", {0, config.layers}).value_or(0);
  }
  if (!fields.status().ok()) return fields.status();

  std::map<std::int64_t, Heads> own;
  const ConfigValue* const by_layer =
      fields.object() == nullptr ? nullptr
                                 : fields.object()->find("per_layer_config");
  const bool listed = by_layer != nullptr && !by_layer->is_null();
  if (listed) {
    auto read = own_heads(fields, usual, *by_layer, config.layers);
    if (!read.ok()) return read.status();
    own = *std::move(read);
  }
  for (std::int64_t i = 0; i < config.layers; ++i) {
    std::string type =
        types.empty() ? usual_type(usual) : types[static_cast<std::size_t>(i)];
    Heads heads = !listed && type == "full_attention" ? full : usual;
    if (const auto found = own.find(i); found != own.end()) {
      heads = found->second;
      if (types.empty()) type = usual_type(heads);
    }
    if (type == "sliding_attention") heads.kv_heads *= window_factor;
    auto cache = layer_cache(std::move(type), heads, index_dim, state);
    if (!cache.ok()) return at(absl::StrCat("layer ", i), cache.status());
    if (i >= config.layers - sharing) {
      LayerCache none;
      none.kind = LayerCacheKind::kNone;
      none.layer_type = std::move(cache->layer_type);
      *cache = std::move(none);
    }
    config.layer_caches.push_back(*std::move(cache));
  }
  warn_of_uncounted(config);
  return absl::OkStatus();
}

}  // namespace trnscout
