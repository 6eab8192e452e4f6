#include "trnscout/model_config.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "config_fields.h"
#include "config_json.h"
#include "config_layers.h"
#include "config_parts.h"
#include "config_quantization.h"
#include "printable.h"
#include "regular_file.h"

namespace trnscout {
namespace {

constexpr Limits kVocabulary = {1, std::int64_t{1} << 31};
constexpr Limits kPositions = {1, std::int64_t{1} << 40};
constexpr Limits kHeadCount = {1, 1 << 16};

// head_dim where nothing gives it: by the class's rule, else hidden / heads.
std::int64_t derived_head_dim(FieldReader& fields, ModelConfig& config) {
  const absl::string_view rule = fields.fallback("head_dim");
  if (rule == "@nope_and_rope") {
    return fields.number("nope_dim", kCount).value_or(0) +
           fields.number("rope_dim", kCount).value_or(0);
  }
  if (rule == "@rope_dim" || rule == "@nope_dim") {
    const auto dim = fields.number(rule.substr(1), kCount);
    if (dim.has_value()) return *dim;
  }
  if (config.q_heads == 0) return 0;
  if (config.hidden < config.q_heads) {
    fields.fail(absl::InvalidArgumentError(absl::StrCat(
        fields.name("q_heads"), " is ", config.q_heads, "; it must be at most ",
        fields.name("hidden"), ", ", config.hidden)));
  }
  const std::int64_t hidden =
      rule == "@twice" ? 2 * config.hidden : config.hidden;
  if (hidden % config.q_heads != 0) {
    config.warnings.push_back(absl::StrCat(
        fields.name("hidden"), " ", config.hidden, " is no multiple of ",
        fields.name("q_heads"), " ", config.q_heads,
        "; head_dim is rounded down to ", hidden / config.q_heads));
  }
  return hidden / config.q_heads;
}

// Attention by experts has the KV heads once an expert that a token takes.
std::int64_t read_q_heads(FieldReader& fields) {
  if (fields.fallback("q_heads") != "@kv_by_experts") {
    return fields.required("q_heads", kHeadCount);
  }
  return fields.required("kv_heads", kHeadCount) *
         fields.required("experts_per_token", kHeadCount);
}

std::int64_t read_kv_heads(FieldReader& fields, const ModelConfig& config) {
  const auto multi_query = fields.flag("multi_query");
  const bool newer = fields.flag("new_decoder").value_or(false);
  if (multi_query.has_value() && !newer) {
    return *multi_query ? 1 : config.q_heads;
  }
  return fields.number("kv_heads", kHeadCount).value_or(config.q_heads);
}

void check_kv_heads(FieldReader& fields, const ModelConfig& config) {
  const std::int64_t kv = config.kv_heads;
  if (config.q_heads == 0 || kv == 0) return;
  if (kv <= config.q_heads && config.q_heads % kv == 0) return;
  const bool given = fields.given("kv_heads") != nullptr;
  fields.fail(absl::InvalidArgumentError(absl::StrCat(
      fields.name("kv_heads"), " is ", kv,
      given ? std::string()
            : absl::StrCat(" (the default of ", fields.row().class_name(), ")"),
      "; it must divide ", fields.name("q_heads"), ", ", config.q_heads)));
}

void read_experts(FieldReader& fields, ModelConfig& config) {
  config.experts = fields.number("experts", kCount).value_or(0);
  config.experts_per_token =
      fields.number("experts_per_token", kCount).value_or(0);
  config.moe_intermediate =
      fields.number("moe_intermediate", {0, 1 << 26}).value_or(0);
  config.shared_experts = fields.number("shared_experts", kCount).value_or(0);
  const auto shared = fields.number("shared_intermediate", {0, 1 << 26});
  if (config.shared_experts == 0 && shared.value_or(0) > 0 &&
      fields.row().find("shared_experts") == nullptr) {
    config.shared_experts = 1;
  }
  if (config.experts > 0 && config.experts_per_token > config.experts) {
    fields.fail(absl::InvalidArgumentError(
        absl::StrCat(fields.name("experts_per_token"), " is ",
                     config.experts_per_token, "; it must be at most ",
                     fields.name("experts"), ", ", config.experts)));
  }
}

// The layers of classes that make the count from others.
std::int64_t counted_layers(FieldReader& fields, std::int64_t layers) {
  constexpr Limits kLayers = {1, ModelConfig::kMaxLayers};
  if (fields.row().find("half_layers") != nullptr) {
    // Where both stand, Transformers sets the half from the whole.
    if (fields.given("layers") != nullptr) return layers / 2 * 2;
    return 2 * fields.number("half_layers", kLayers).value_or(layers / 2);
  }
  if (fields.row().find("stack_layers") == nullptr) return layers;
  const ConfigValue* const stack = fields.given("stack_layers");
  if (stack != nullptr && !stack->is_null()) return layers;
  // A file that has no count of a stack counts one stack, once.
  if (fields.given("layers") == nullptr) {
    layers = fields.number("stack_layers", kLayers).value_or(layers);
  }
  return layers * fields.number("outer_cycles", kCount).value_or(1) *
         (fields.number("inner_cycles", kCount).value_or(0) + 1);
}

// What counts elements, in the order in which the rules need it.
absl::Status read_sizes(FieldReader& fields, ModelConfig& config) {
  config.hidden = fields.required("hidden", kDimension);
  const Limits layers = {1, ModelConfig::kMaxLayers};
  const bool types_count = fields.row().find("types_count_layers") != nullptr;
  config.layers = types_count ? fields.number("layers", layers).value_or(0)
                              : fields.required("layers", layers);
  config.layers = counted_layers(fields, config.layers);
  config.vocab = fields.required("vocab", kVocabulary);
  config.q_heads = read_q_heads(fields);
  if (!fields.status().ok()) return fields.status();
  if (config.hidden == 0 || (config.layers == 0 && !types_count)) {
    return absl::UnimplementedError(
        absl::StrCat(fields.row().class_name(),
                     " has no hidden size and layers of one language model"));
  }
  config.kv_heads = read_kv_heads(fields, config);
  // 0 where a class's own default is 0: no rotary part in MLA.
  const std::int64_t least =
      fields.fallback("head_dim") == "0" || fields.fallback("kv_rank") != ""
          ? 0
          : 1;
  const auto head_dim = fields.number("head_dim", {least, kDimension.most});
  config.head_dim = head_dim.has_value() || !fields.status().ok()
                        ? head_dim.value_or(0)
                        : derived_head_dim(fields, config);
  config.intermediate = fields.number("intermediate", {0, 1 << 26}).value_or(0);
  if (fields.fallback("intermediate") == "@expanded" &&
      config.intermediate == 0) {
    config.intermediate =
        fields.number("ssm_expand", kCount).value_or(0) * config.hidden;
  }
  config.max_positions = fields.number("positions", kPositions).value_or(0);
  check_kv_heads(fields, config);
  read_experts(fields, config);
  return fields.status();
}

// A norm divides by the root of what it adds an epsilon to; of zeros, by zero.
absl::Status check_epsilons(const ConfigValue* text) {
  constexpr absl::string_view kRule = "it must be a number above 0";
  for (const char* name : {"rms_norm_eps", "layer_norm_eps", "norm_eps",
                           "layer_norm_epsilon", "norm_epsilon"}) {
    const ConfigValue* const value =
        text == nullptr ? nullptr : text->find(name);
    if (value == nullptr || value->is_null()) continue;
    double epsilon = 0;
    const bool number = value->kind == ConfigValue::Kind::kScalar &&
                        (value->scalar.kind == JsonKind::kWhole ||
                         value->scalar.kind == JsonKind::kNumber) &&
                        absl::SimpleAtod(value->scalar.text, &epsilon);
    if (!number || !(epsilon > 0)) return refuse_value(name, *value, kRule);
  }
  return absl::OkStatus();
}

absl::Status read_names(const ConfigValue& root, const ConfigValue* text,
                        ModelConfig& config) {
  const ConfigValue* const value = root.find("architectures");
  if (value != nullptr && !value->is_null()) {
    if (value->kind != ConfigValue::Kind::kArray) {
      return refuse_value("architectures", *value, "it must be a list");
    }
    for (const ConfigValue& item : value->items) {
      if (!item.is_string()) {
        return refuse_value("architectures", item, "it must hold names");
      }
      config.architectures.push_back(item.scalar.text);
    }
  }
  for (const ConfigValue* const object : {&root, text}) {
    for (const char* name : {"dtype", "torch_dtype"}) {
      const ConfigValue* const dtype =
          object == nullptr ? nullptr : object->find(name);
      if (dtype == nullptr || dtype->is_null() || !config.dtype.empty()) {
        continue;
      }
      if (!dtype->is_string()) {
        return refuse_value(name, *dtype, "it must be the name of a dtype");
      }
      config.dtype =
          std::string(absl::StripPrefix(dtype->scalar.text, "torch."));
    }
  }
  return absl::OkStatus();
}

// The whole's key counts, then the text's, then the defaults in that order.
absl::Status read_tie(const ConfigPart& whole, FieldReader& fields,
                      ModelConfig& config) {
  config.text_tie_word_embeddings = fields.flag("tie");
  FieldReader top(whole.row, whole.object, nullptr);
  config.tie_word_embeddings = top.flag("tie");
  if (!top.status().ok()) return top.status();
  if (!fields.status().ok()) return fields.status();
  if (!config.tie_word_embeddings.has_value()) {
    config.tie_word_embeddings = config.text_tie_word_embeddings;
  }
  if (config.text_path.empty() || top.given("tie") != nullptr ||
      fields.given("tie") == nullptr ||
      config.text_tie_word_embeddings == config.tie_word_embeddings) {
    return absl::OkStatus();
  }
  config.warnings.push_back(
      absl::StrCat("tie_word_embeddings stands only in ", config.text_path,
                   " and is followed; ", whole.row.class_name(),
                   " of Transformers takes its own default, ",
                   *config.tie_word_embeddings ? "true" : "false"));
  config.tie_word_embeddings = config.text_tie_word_embeddings;
  return absl::OkStatus();
}

absl::Status read_text(const ConfigPart& whole, const ConfigPart& text,
                       ModelConfig& config) {
  FieldReader fields(text.row, text.object, &whole.row);
  if (absl::Status status = read_sizes(fields, config); !status.ok()) {
    return status;
  }
  const auto types = read_layer_types(fields, config.layers);
  if (!types.ok()) return types.status();
  if (!types->empty()) config.layers = std::ssize(*types);
  if (config.layers < 1 || config.layers > ModelConfig::kMaxLayers) {
    return absl::InvalidArgumentError(absl::StrCat(
        "there are ", config.layers, " layers; there must be from 1 to ",
        ModelConfig::kMaxLayers));
  }
  if (absl::Status status = read_tie(whole, fields, config); !status.ok()) {
    return status;
  }
  return set_layer_caches(fields, *types, config);
}

absl::StatusOr<ModelConfig> parse_text(absl::string_view json_text) {
  ModelConfig config;
  const auto root = read_config_json(json_text, config.warnings);
  if (!root.ok()) return root.status();
  const auto whole = whole_part(*root, config.warnings);
  if (!whole.ok()) return whole.status();
  const auto text = text_part(*whole, config.warnings);
  if (!text.ok()) return text.status();
  config.model_type = whole->model_type;
  config.text_path = text->path;
  config.text_model_type = text->model_type;
  absl::Status status = read_names(*root, text->object, config);
  if (!status.ok()) return status;
  status = read_text(*whole, *text, config);
  if (status.ok()) status = check_epsilons(text->object);
  if (!status.ok()) {
    return text->path.empty() ? status : at(text->path, status);
  }
  const ConfigValue* quantization = root->find("quantization_config");
  if (quantization == nullptr && text->object != nullptr) {
    quantization = text->object->find("quantization_config");
  }
  auto quantized = read_quantization(quantization);
  if (!quantized.ok()) return quantized.status();
  config.quantization = *std::move(quantized);
  auto vision = read_vision(*whole);
  if (!vision.ok()) return vision.status();
  config.vision = *std::move(vision);
  return config;
}

// sum += the product of the factors, unless that passes 2^63 - 1.
bool add_product(std::initializer_list<std::int64_t> factors,
                 std::int64_t& sum) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) return false;
  }
  return !__builtin_add_overflow(sum, product, &sum);
}

}  // namespace

absl::string_view layer_cache_kind_name(LayerCacheKind kind) {
  constexpr std::array<absl::string_view, 6> kNames = {
      "none", "full_attention", "sliding_window", "latent", "state", "hybrid"};
  return kNames[static_cast<std::size_t>(kind)];
}

absl::StatusOr<ModelConfig> ModelConfig::parse(absl::string_view json_text,
                                               absl::string_view source_name) {
  auto config = parse_text(json_text);
  if (!config.ok()) return at(source_name, config.status());
  return config;
}

absl::StatusOr<ModelConfig> ModelConfig::open(
    const std::filesystem::path& dir) {
  const std::filesystem::path path = dir / "config.json";
  const std::string name = printable_path(path);
  const auto file = RegularFile::open(path);
  if (!file.ok()) return at(name, file.status());
  if (file->size_bytes() > kMaxFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", file->size_bytes(),
                     " bytes are past the limit of ", kMaxFileBytes));
  }
  const auto text = file->read(0, file->size_bytes());
  if (!text.ok()) return at(name, text.status());
  return parse(*text, name);
}

absl::StatusOr<CacheBytes> ModelConfig::kv_bytes(
    std::int64_t batch, std::int64_t length, std::int64_t dtype_bytes) const {
  if (batch < 1 || length < 1 || dtype_bytes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch is ", batch, ", length ", length, ", dtype_bytes ",
                     dtype_bytes, "; each must be at least 1"));
  }
  CacheBytes out;
  bool fits = true;
  for (const LayerCache& cache : layer_caches) {
    if (!cache.counted) ++out.uncounted_layers;
    if (!cache.counted || !fits) continue;
    const std::int64_t tokens = cache.window_tokens == 0
                                    ? length
                                    : std::min(length, cache.window_tokens);
    const std::int64_t block = std::max<std::int64_t>(cache.block_tokens, 1);
    const std::int64_t open = std::min(length, block - 1);
    std::int64_t& kept = out.attention_bytes;
    fits = add_product({batch, tokens, cache.elements_per_token(), dtype_bytes},
                       kept) &&
           add_product({batch, length / block, cache.block_dim, dtype_bytes},
                       kept) &&
           add_product({batch, open, cache.open_dim, dtype_bytes}, kept) &&
           add_product({batch, length, cache.token_bytes}, kept) &&
           add_product({batch, cache.state, dtype_bytes}, out.state_bytes) &&
           add_product({batch, cache.state_bytes}, out.state_bytes);
  }
  std::int64_t total = out.attention_bytes;
  if (!fits || __builtin_add_overflow(total, out.state_bytes, &total)) {
    return absl::OutOfRangeError(absl::StrCat("the cache of batch ", batch,
                                              " and length ", length,
                                              " has more than 2^63 - 1 bytes"));
  }
  return out;
}

absl::StatusOr<std::int64_t> ModelConfig::kv_bytes_per_token(
    std::int64_t dtype_bytes) const {
  if (dtype_bytes < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "dtype_bytes is ", dtype_bytes, "; it must be at least 1"));
  }
  std::int64_t bytes = 0;
  for (const LayerCache& cache : layer_caches) {
    if (!cache.counted) continue;
    const std::int64_t block = std::max<std::int64_t>(cache.block_tokens, 1);
    std::int64_t entry = 0;
    const bool fits =
        add_product({cache.elements_per_token(), dtype_bytes}, bytes) &&
        add_product({cache.token_bytes}, bytes) &&
        add_product({cache.block_dim, dtype_bytes}, entry) &&
        add_product({entry / block}, bytes);
    if (fits) continue;
    return absl::OutOfRangeError(
        absl::StrCat("the cache of one token, at ", dtype_bytes,
                     " bytes an element, has more than 2^63 - 1 bytes"));
  }
  return bytes;
}

}  // namespace trnscout
