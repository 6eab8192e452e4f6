#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace trnscout {

/// What one layer keeps between the steps of a generation.
enum class LayerCacheKind : std::uint8_t {
  kNone,           ///< nothing: no attention, or another layer's keys are used
  kFullAttention,  ///< keys and values of every token
  kSlidingWindow,  ///< keys and values of the last `window_tokens`
  kLatent,         ///< MLA: one compressed key and one rotary key a token
  kState,          ///< a state of fixed size: linear attention, convolution
  kHybrid,         ///< keys and values, and a state beside them
};

/// Returns the kind's name as it stands in records, for example "latent".
absl::string_view layer_cache_kind_name(LayerCacheKind kind);

/// One layer's cache. Units: elements of one sequence, unless the name says it.
struct LayerCache {
  LayerCacheKind kind = LayerCacheKind::kFullAttention;
  std::string layer_type;  ///< as Transformers names it: "sliding_attention"
  std::int64_t kv_heads = 0;
  std::int64_t key_dim = 0;        ///< a head; kv_lora_rank in MLA
  std::int64_t value_dim = 0;      ///< a head; qk_rope_head_dim in MLA
  std::int64_t index_dim = 0;      ///< a token's key of a sparse indexer
  std::int64_t window_tokens = 0;  ///< 0 is without end
  std::int64_t token_bytes = 0;    ///< a token, whatever the dtype: positions
  std::int64_t block_tokens = 0;   ///< that one compressed entry stands for
  std::int64_t block_dim = 0;      ///< a compressed entry
  std::int64_t open_dim = 0;       ///< a token of a block that is not full yet
  std::int64_t state = 0;          ///< in the cache's dtype
  std::int64_t state_bytes = 0;    ///< whatever the dtype: float32 states
  /// False where the size is not known; the layer then counts for nothing.
  bool counted = true;

  /// Elements that grow with each token, before a window or a block is full.
  std::int64_t elements_per_token() const {
    return kv_heads * (key_dim + value_dim) + index_dim;
  }
  friend bool operator==(const LayerCache&, const LayerCache&) = default;
};

/// Bytes of a static cache, as Transformers allocates it; of a growing one at
/// its largest, in families that have no static one.
struct CacheBytes {
  std::int64_t attention_bytes = 0;
  std::int64_t state_bytes = 0;
  std::int64_t uncounted_layers = 0;  ///< whose size is not known

  std::int64_t total() const { return attention_bytes + state_bytes; }
  friend bool operator==(const CacheBytes&, const CacheBytes&) = default;
};

/// How the weights are stored, where that is not in a plain dtype.
struct Quantization {
  std::string method;     ///< "mxfp4", "fp8", "gptq", ...; empty for none
  std::int64_t bits = 0;  ///< of a weight without its scales; 0: not said
  std::vector<std::string> kept_modules;  ///< that stay in the plain dtype

  /// Says whether a generation of cores cannot compute on what is stored, so
  /// that the weights take the bytes of `ModelConfig::dtype` there. Trn3 ("v4")
  /// has mxfp4 and fp8; earlier ones have neither the formats nor e4m3fn.
  ///
  /// Source: aws-neuron/aws-neuron-sdk: data-types.rst, 2026-08-21.
  bool dequantized_on(absl::string_view neuron_core) const;
  friend bool operator==(const Quantization&, const Quantization&) = default;
};

/// The part that reads images.
struct VisionConfig {
  std::string model_type;
  std::int64_t hidden = 0;        ///< 0 where it is not said
  std::int64_t layers = 0;        ///< 0 where it is not said
  std::int64_t image_tokens = 0;  ///< an image; 0 where its size decides

  friend bool operator==(const VisionConfig&, const VisionConfig&) = default;
};

/// What a config.json says of the language model in it: one meaning a field,
/// whatever the family calls it and wherever the text is nested.
///
/// What the file leaves out has the default of the family's class, as in
/// Transformers. A count that a family does not have, or says nowhere, is 0.
/// JSON is read as Python reads it: NaN and Infinity pass in fields that are
/// not used, and of two equal keys the last one counts, with a warning.
///
/// Source: huggingface/transformers 5.24: the classes in CONFIG_MAPPING, by
///         src/core/config_table.inc.
struct ModelConfig {
  static constexpr std::int64_t kMaxFileBytes = 16 << 20;
  static constexpr std::int64_t kMaxLayers = 100'000;

  std::string model_type;  ///< of the whole; empty where it is not said
  std::vector<std::string> architectures;
  std::string text_path;  ///< where the text is nested: "text_config"; or empty
  std::string text_model_type;

  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t vocab = 0;
  std::int64_t q_heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t intermediate = 0;  ///< the widest layer's
  std::int64_t experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t moe_intermediate = 0;
  std::int64_t shared_experts = 0;
  std::int64_t max_positions = 0;
  /// As the model ties them; without value where no class says.
  std::optional<bool> tie_word_embeddings;
  /// The nested config's own, which Transformers does not follow.
  std::optional<bool> text_tie_word_embeddings;
  std::string dtype;  ///< for example "bfloat16"; empty where it is not said
  /// One a layer; layers that run in a loop have one a further pass behind.
  std::vector<LayerCache> layer_caches;
  Quantization quantization;
  std::optional<VisionConfig> vision;
  std::vector<std::string> warnings;

  /// Reads the text of a config.json; `source_name` begins every message.
  ///
  /// Errors: InvalidArgument - not JSON, with line and column; not an object;
  ///         a value that is used has the wrong type or lies outside its
  ///         limits; a field without a default is missing; two fields do not
  ///         fit each other; the epsilon of a norm is not above 0. The message
  ///         has field, value and rule.
  ///         Unimplemented - the family has no single language model, with its
  ///         own hidden size and layers, that its config describes.
  /// Cost:   memory in proportion to the text and to the layers.
  static absl::StatusOr<ModelConfig> parse(absl::string_view json_text,
                                           absl::string_view source_name);

  /// Reads `dir`/config.json.
  ///
  /// Errors: NotFound - there is none.
  ///         InvalidArgument - it is no regular file, or longer than the limit.
  ///         Any of `parse`. What errno stands for - it cannot be read.
  static absl::StatusOr<ModelConfig> open(const std::filesystem::path& dir);

  /// Bytes that a static cache takes, windows and states included. Blocks that
  /// are not full are counted at their largest.
  ///
  /// Errors: InvalidArgument - an argument is not positive.
  ///         OutOfRange - the sum is past 2^63 - 1.
  absl::StatusOr<CacheBytes> kv_bytes(std::int64_t batch, std::int64_t length,
                                      std::int64_t dtype_bytes) const;

  /// Bytes that all layers add for one token of one sequence, windows apart.
  ///
  /// Errors: as of `kv_bytes`.
  absl::StatusOr<std::int64_t> kv_bytes_per_token(
      std::int64_t dtype_bytes) const;

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

}  // namespace trnscout
