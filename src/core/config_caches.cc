#include <algorithm>
#include <map>
#include <utility>

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

// What all layers of a class have in common.
struct Shared {
  std::int64_t index_dim = 0;
  std::int64_t csa_rate = 0;
  std::int64_t hca_rate = 0;
  LayerState state;
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

// The same for layers with a window.
Heads window_heads(FieldReader& fields, Heads heads) {
  heads.kv_heads *= fields.number("window_kv_factor", kDimension).value_or(1);
  const auto kv_heads = fields.number("window_kv_heads", kDimension);
  if (kv_heads.has_value()) heads.kv_heads = *kv_heads;
  const auto dim = fields.number("window_head_dim", kDimension);
  if (dim.has_value()) heads.head_dim = heads.value_dim = *dim;
  return heads;
}

// Some indexers keep a gate for each key, and a flag for both.
Shared shared_parts(FieldReader& fields, const ModelConfig& config) {
  Shared out;
  out.index_dim = fields.number("index_dim", kCount).value_or(0);
  if (fields.row().find("index_gates") != nullptr) {
    out.index_dim = 2 * out.index_dim + 1;
  }
  out.csa_rate = fields.number("csa_rate", kDimension).value_or(0);
  out.hca_rate = fields.number("hca_rate", kDimension).value_or(0);
  out.state = layer_state(fields, config);
  return out;
}

bool is_compressed(absl::string_view type) {
  return type == "compressed_sparse_attention" ||
         type == "heavily_compressed_attention";
}

bool has_window(absl::string_view type) {
  return type == "sliding_attention" || type == "chunked_attention" ||
         type == "hybrid_sliding" || type == "reference_sliding_attention" ||
         is_compressed(type);
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
  if (cache.layer_type == "indexed_attention" ||
      cache.layer_type == "minimax_m3_sparse") {
    cache.index_dim = index_dim;
  }
}

// DeepSeek-V4, sections 2.3.1 and 2.3.2: values are the keys, of the window;
// before it there is one entry a block, which the tokens of the block that is
// not full wait for, each with a gate. The sparse form keeps entries of an
// indexer beside, and the half of its last block that the next one reads, whose
// gates are in float32.
void set_blocks(const Shared& shared, LayerCache& cache) {
  constexpr std::int64_t kFloat32Bytes = 4;
  const bool sparse = cache.layer_type == "compressed_sparse_attention";
  cache.value_dim = 0;
  cache.block_tokens = sparse ? shared.csa_rate : shared.hca_rate;
  cache.block_dim = cache.key_dim + (sparse ? shared.index_dim : 0);
  cache.open_dim = (sparse ? 4 : 2) * cache.block_dim;
  cache.counted = cache.block_tokens > 0;
  if (!sparse) return;
  cache.state = cache.block_tokens * cache.block_dim;
  cache.state_bytes = cache.state * kFloat32Bytes;
}

absl::StatusOr<LayerCache> layer_cache(std::string type, const Heads& heads,
                                       const Shared& shared) {
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
    set_attention(heads, shared.index_dim, out);
  }
  if (is_compressed(out.layer_type)) set_blocks(shared, out);
  if (has_state(out.layer_type)) {
    const LayerState& state = shared.state;
    out.state = state.elements;
    out.state_bytes =
        state.bytes + state.bytes_per_kv * out.elements_per_token();
    out.counted = state.known;
  }
  // The window is of what comes behind the prompt, which stays whole; with a
  // prompt that fills the rest, all tokens are kept.
  if (out.layer_type == "reference_sliding_attention") {
    out.kind = LayerCacheKind::kFullAttention;
    out.window_tokens = 0;
  }
  return out;
}

std::string usual_type(const Heads& heads) {
  if (heads.window_tokens > 0) return "sliding_attention";
  return heads.chunk_tokens > 0 ? "chunked_attention" : "full_attention";
}

// Layers that share the indexer of one before keep no keys of it. The first one
// with an indexer keeps the positions for all, in families that need them.
absl::Status drop_shared_indexers(FieldReader& fields, ModelConfig& config) {
  constexpr std::int64_t kInt64Bytes = 8;
  const auto shares = shared_indexers(fields, config.layers);
  if (!shares.ok()) return shares.status();
  std::int64_t positions = fields.number("index_positions", kCount).value_or(0);
  for (std::size_t i = 0; i < config.layer_caches.size(); ++i) {
    LayerCache& cache = config.layer_caches[i];
    if (cache.layer_type != "indexed_attention") continue;
    if (i < shares->size() && (*shares)[i]) cache.index_dim = 0;
    cache.token_bytes = std::exchange(positions, 0) * kInt64Bytes;
  }
  return fields.status();
}

// A cache that grows keeps one token less than its window between two steps.
// Families with compressed layers have no static one.
void shorten_growing_windows(ModelConfig& config) {
  const auto compressed = [](const LayerCache& cache) {
    return is_compressed(cache.layer_type);
  };
  if (std::none_of(config.layer_caches.begin(), config.layer_caches.end(),
                   compressed)) {
    return;
  }
  for (LayerCache& cache : config.layer_caches) {
    if (cache.window_tokens > 0) --cache.window_tokens;
  }
}

// Layers that run in a loop keep each further pass behind the others.
absl::Status repeat_loops(FieldReader& fields, ModelConfig& config) {
  const Limits layers = {0, ModelConfig::kMaxLayers};
  const auto from = fields.number("loop_from", layers);
  const auto to = fields.number("loop_to", layers);
  const auto passes = fields.number("loop_passes", kDimension);
  if (!fields.status().ok()) return fields.status();
  if (!from.has_value() || !to.has_value() || !passes.has_value()) {
    return absl::OkStatus();
  }
  // The class's own loop may lie past the layers of a smaller model.
  const std::int64_t first = std::min(*from, config.layers);
  const std::int64_t looped =
      std::max<std::int64_t>(std::min(*to, config.layers) - first, 0);
  if (config.layers + (*passes - 1) * looped > ModelConfig::kMaxLayers) {
    return absl::InvalidArgumentError(absl::StrCat(
        fields.name("loop_passes"), " is ", *passes, "; with ", looped,
        " layers in the loop there are more than ", ModelConfig::kMaxLayers));
  }
  const std::vector<LayerCache> once = config.layer_caches;
  for (std::int64_t pass = 1; pass < *passes; ++pass) {
    config.layer_caches.insert(config.layer_caches.end(), once.begin() + first,
                               once.begin() + first + looped);
  }
  return absl::OkStatus();
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
  const Heads windowed = window_heads(fields, usual);
  const Shared shared = shared_parts(fields, config);
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
    if (has_window(type)) heads = windowed;
    if (const auto found = own.find(i); found != own.end()) {
      heads = found->second;
      if (types.empty()) type = usual_type(heads);
    }
    auto cache = layer_cache(std::move(type), heads, shared);
    if (!cache.ok()) return at(absl::StrCat("layer ", i), cache.status());
    if (i >= config.layers - sharing) {
      LayerCache none;
      none.kind = LayerCacheKind::kNone;
      none.layer_type = std::move(cache->layer_type);
      *cache = std::move(none);
    }
    config.layer_caches.push_back(*std::move(cache));
  }
  add_lookup_states(fields, config);
  if (!fields.status().ok()) return fields.status();
  if (absl::Status status = drop_shared_indexers(fields, config);
      !status.ok()) {
    return status;
  }
  shorten_growing_windows(config);
  warn_of_uncounted(config);
  return repeat_loops(fields, config);
}

}  // namespace trnscout
