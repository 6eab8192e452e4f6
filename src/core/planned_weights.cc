#include "planned_weights.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace trnscout {
namespace {

struct StoredType {
  absl::string_view name;
  std::int64_t bits;
  // Loading casts it to the dtype that was asked for.
  bool floats;
};

// Element types that a load takes. Eight bits that float are those of fp8
// checkpoints, which a core computes on or not; see `Quantization`.
constexpr std::array<StoredType, 15> kTypes = {{{"F64", 64, true},
                                                {"F32", 32, true},
                                                {"F16", 16, true},
                                                {"BF16", 16, true},
                                                {"I64", 64, false},
                                                {"U64", 64, false},
                                                {"I32", 32, false},
                                                {"U32", 32, false},
                                                {"I16", 16, false},
                                                {"U16", 16, false},
                                                {"I8", 8, false},
                                                {"U8", 8, false},
                                                {"BOOL", 8, false},
                                                {"F8_E4M3", 8, false},
                                                {"F8_E5M2", 8, false}}};

absl::StatusOr<StoredType> stored_type(const ParameterInfo& parameter) {
  for (const StoredType& type : kTypes) {
    if (type.name == parameter.dtype) return type;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("parameter ", parameter.name, ": element type ",
                   parameter.dtype, " has no bytes on a Neuron core"));
}

// Stored next to quantised weights to scale them; gone once they are not.
bool is_quantization_detail(absl::string_view name) {
  for (const absl::string_view suffix :
       {"_scales", ".scales", "_scale_inv", ".weight_scale", "_global_scale",
        ".qzeros", ".g_idx", ".weight_g_idx", ".input_scale",
        "activation_scale", ".weight_zero_point", ".weight_shape"}) {
    if (absl::EndsWith(name, suffix)) return true;
  }
  return false;
}

// Weights that one stored element stands for.
std::int64_t packed_weights(const Quantization& quantization,
                            const StoredType& type, absl::string_view name) {
  if (quantization.bits == 0 || type.floats) return 1;
  const bool packed = absl::EndsWith(name, "_blocks") ||
                      absl::EndsWith(name, ".qweight") ||
                      absl::EndsWith(name, ".weight_packed");
  // Three bits cross the borders of elements: rounded up, so that the weights
  // are never more than is counted.
  return packed ? (type.bits + quantization.bits - 1) / quantization.bits : 1;
}

std::int64_t bytes_on_core(const ParameterInfo& parameter,
                           const StoredType& type, const ModelConfig& config,
                           std::int64_t dtype_bytes, bool dequantized) {
  if (type.floats) return dtype_bytes;
  const bool fp8 = absl::StartsWith(type.name, "F8_");
  const std::int64_t weights =
      packed_weights(config.quantization, type, parameter.name);
  if (dequantized && (fp8 || weights > 1)) return weights * dtype_bytes;
  return type.bits / 8;
}

bool multiply_into(std::int64_t& product, std::int64_t factor) {
  return !__builtin_mul_overflow(product, factor, &product);
}

absl::Status too_large(absl::string_view name) {
  return absl::OutOfRangeError(
      absl::StrCat("parameter ", name, ": its bytes pass 2^63 - 1"));
}

// The name with `*` for each number that stands alone between dots.
std::string without_numbers(absl::string_view name) {
  std::string out;
  out.reserve(name.size());
  std::size_t i = 0;
  while (i < name.size()) {
    std::size_t end = i;
    while (end < name.size() && absl::ascii_isdigit(name[end])) ++end;
    const bool alone = end > i && (i == 0 || name[i - 1] == '.') &&
                       (end == name.size() || name[end] == '.');
    if (alone) {
      out.push_back('*');
      i = end;
    } else {
      end = std::max(end, i + 1);
      out.append(name.substr(i, end - i).data(), end - i);
      i = end;
    }
  }
  return out;
}

std::int64_t elements_of(absl::Span<const std::int64_t> shape) {
  std::int64_t out = 1;
  for (const std::int64_t length : shape) out *= length;
  return out;
}

bool is_experts_weight(const ModelConfig& config, const WeightGroup& group) {
  return config.experts > 0 && group.shape.size() == 3 &&
         group.shape.front() == config.experts &&
         absl::StrContains(group.name, "experts");
}

bool is_input_embedding(const ModelConfig& config, const WeightGroup& group) {
  return group.shape.size() == 2 && group.shape.front() == config.vocab &&
         (absl::StrContains(group.name, "embed") ||
          absl::StrContains(group.name, "wte"));
}

// Of `held` bytes of a group, those that one token leaves alone.
std::int64_t unread_of(const ModelConfig& config, const WeightGroup& group,
                       std::int64_t held) {
  if (is_experts_weight(config, group)) {
    const std::int64_t picked = std::min(
        std::max<std::int64_t>(config.experts_per_token, 1), config.experts);
    return held - held / config.experts * picked;
  }
  // A tied head reads the whole matrix after all.
  if (is_input_embedding(config, group) &&
      !config.tie_word_embeddings.value_or(false)) {
    return held;
  }
  return 0;
}

absl::flat_hash_set<std::string> tied_targets(
    const ModelConfig& config, const ParallelPlan& plan,
    absl::Span<const ParameterInfo> parameters) {
  absl::flat_hash_set<std::string> out;
  if (!config.tie_word_embeddings.value_or(false)) return out;
  for (const auto& [target, source] : plan.tied) {
    for (const ParameterInfo& parameter : parameters) {
      if (parameter.name == source) out.insert(target);
    }
  }
  return out;
}

// Whether `name` has one of `parts` and lies outside the vision tower.
bool is_text_part(absl::string_view name,
                  std::initializer_list<absl::string_view> parts) {
  if (absl::StrContains(name, "vision") || absl::StrContains(name, "visual")) {
    return false;
  }
  return std::any_of(
      parts.begin(), parts.end(),
      [name](absl::string_view part) { return absl::StrContains(name, part); });
}

// Fused projections keep the cache of the heads they compute, too.
bool is_fused_qkv(absl::string_view name) {
  return is_text_part(
      name, {".qkv_proj.", ".query_key_value.", ".c_attn.", ".Wqkv.", ".qkv."});
}

}  // namespace

absl::StatusOr<std::vector<WeightGroup>> group_weights(
    const ModelConfig& config, const ParallelPlan& plan,
    absl::Span<const ParameterInfo> parameters, std::int64_t dtype_bytes,
    absl::string_view neuron_core) {
  const bool dequantized = config.quantization.dequantized_on(neuron_core);
  const auto tied = tied_targets(config, plan, parameters);
  std::vector<WeightGroup> out;
  absl::flat_hash_map<std::string, std::vector<std::size_t>> known;
  for (const ParameterInfo& parameter : parameters) {
    if (tied.contains(parameter.name)) continue;
    if (dequantized && is_quantization_detail(parameter.name)) continue;
    const absl::StatusOr<StoredType> type = stored_type(parameter);
    if (!type.ok()) return type.status();
    std::int64_t bytes =
        bytes_on_core(parameter, *type, config, dtype_bytes, dequantized);
    for (const std::int64_t length : parameter.shape) {
      if (length < 0 || !multiply_into(bytes, length)) {
        return too_large(parameter.name);
      }
    }
    auto& same_name = known[without_numbers(parameter.name)];
    const auto same = std::find_if(
        same_name.begin(), same_name.end(), [&](std::size_t index) {
          return out[index].shape == parameter.shape &&
                 out[index].bytes == bytes;
        });
    if (same != same_name.end()) {
      ++out[*same].count;
      continue;
    }
    same_name.push_back(out.size());
    out.push_back({parameter.name, parameter.shape, 1, bytes});
  }
  return out;
}

bool is_kv_projection(absl::string_view name) {
  return is_text_part(name, {".k_proj.", ".v_proj.", ".key.", ".value.",
                             ".key_proj.", ".value_proj.", ".kv_proj."});
}

bool shards_kv_heads(const ParallelPlan& plan,
                     absl::Span<const WeightGroup> groups, ParallelMode mode) {
  return std::any_of(
      groups.begin(), groups.end(), [&](const WeightGroup& group) {
        if (!is_kv_projection(group.name) && !is_fused_qkv(group.name)) {
          return false;
        }
        const auto found = plan.style_of(group.name, mode);
        return found.has_value() &&
               (found->style == ParallelStyle::kColwise ||
                found->style == ParallelStyle::kPackedColwise);
      });
}

absl::StatusOr<RankWeights> weights_of_largest_rank(
    const ModelConfig& config, const ParallelPlan& plan,
    absl::Span<const WeightGroup> groups, ParallelMode mode,
    std::int32_t degree, std::int32_t kv_degree) {
  RankWeights out;
  for (const WeightGroup& group : groups) {
    std::int64_t held = group.bytes;
    bool sharded = false;
    const auto found = degree > 1 ? plan.style_of(group.name, mode)
                                  : std::optional<ParameterStyle>();
    if (found.has_value()) {
      const std::int32_t cut =
          is_kv_projection(group.name) ? kv_degree : degree;
      const auto shard =
          shard_of(found->style, group.shape, parameter_role(group.name),
                   {.rank = 0, .degree = cut});
      if (!shard.ok()) return shard.status();
      const std::int64_t whole = elements_of(group.shape);
      const std::int64_t part = elements_of(shard->shape());
      sharded = part != whole;
      if (whole > 0) held = group.bytes / whole * part;
    }
    std::int64_t& sum = sharded ? out.sharded_bytes : out.replicated_bytes;
    std::int64_t all = held;
    if (!multiply_into(all, group.count) ||
        __builtin_add_overflow(sum, all, &sum)) {
      return too_large(group.name);
    }
    out.unread_bytes += unread_of(config, group, all);
  }
  return out;
}

}  // namespace trnscout
