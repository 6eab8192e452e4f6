#include "planned_weights.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "printable.h"
#include "trnscout/memory_ledger.h"

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
  return absl::InvalidArgumentError(absl::StrCat(
      "parameter ", printable(parameter.name), ": element type ",
      printable(parameter.dtype), " has no bytes on a Neuron core"));
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
      absl::StrCat("parameter ", printable(name), ": its bytes pass 2^63 - 1"));
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

const ParameterInfo* find_parameter(absl::Span<const ParameterInfo> parameters,
                                    absl::string_view name) {
  const auto found = std::find_if(
      parameters.begin(), parameters.end(),
      [name](const ParameterInfo& info) { return info.name == name; });
  return found == parameters.end() ? nullptr : &*found;
}

struct Weigher {
  const ModelConfig& config;
  std::int64_t dtype_bytes;
  bool dequantized;

  // The whole of `like` on a core, under `name`.
  absl::StatusOr<CoreWeight> weigh(const ParameterInfo& like,
                                   absl::string_view name) const {
    const absl::StatusOr<StoredType> type = stored_type(like);
    if (!type.ok()) return type.status();
    std::int64_t bytes =
        bytes_on_core(like, *type, config, dtype_bytes, dequantized);
    for (const std::int64_t length : like.shape) {
      if (length < 0 || !multiply_into(bytes, length)) return too_large(name);
    }
    return CoreWeight{name, like.shape, bytes, like.tensors.size()};
  }
};

// Says what became of a pair that the config ties and that is there twice.
std::string tied_pair_note(const ParameterInfo& source,
                           const ParameterInfo& target, std::int64_t bytes) {
  const std::string both =
      absl::StrCat("the config ties ", printable(target.name), " to ",
                   printable(source.name), ", and the checkpoint has both");
  if (source.shape != target.shape) {
    return absl::StrCat(both, " in different shapes: they are counted as two");
  }
  return absl::StrCat(
      both,
      ": counted once, for headers do not show whether they are equal; where "
      "they differ Transformers keeps both, and a core holds up to ",
      format_bytes(bytes), " more");
}

std::string missing_target_note(absl::string_view target,
                                absl::string_view source, std::int64_t bytes) {
  return absl::StrCat(
      "warning: the checkpoint has no ", printable(target),
      ", and the config does not tie it to ", printable(source),
      ": Transformers fills it with random numbers, and tokens mean nothing; "
      "its ",
      format_bytes(bytes), " are counted");
}

// What ties make of the parameters: targets that take no bytes of their own go
// to `shared`, heads that no file has to `out`.
absl::Status apply_ties(const Weigher& weigher, const ParallelPlan& plan,
                        absl::Span<const ParameterInfo> parameters,
                        absl::flat_hash_set<absl::string_view>& shared,
                        CoreWeights& out) {
  const ModelConfig& config = weigher.config;
  const bool tied = config.tie_word_embeddings.value_or(false);
  for (const auto& [target_name, source_name] : plan.tied) {
    const ParameterInfo* source = find_parameter(parameters, source_name);
    const ParameterInfo* target = find_parameter(parameters, target_name);
    if (source == nullptr) continue;  // the target alone is the tied pair
    const auto weight = weigher.weigh(*source, target_name);
    if (!weight.ok()) return weight.status();
    if (target != nullptr && tied) {
      if (source->shape == target->shape) shared.insert(target_name);
      out.notes.push_back(tied_pair_note(*source, *target, weight->bytes));
    }
    // A class below may follow the nested config's own key.
    if (target != nullptr || tied ||
        config.text_tie_word_embeddings.value_or(false)) {
      continue;
    }
    out.notes.push_back(
        missing_target_note(target_name, source_name, weight->bytes));
    out.weights.push_back(*weight);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CoreWeights> weights_on_core(
    const ModelConfig& config, const ParallelPlan& plan,
    absl::Span<const ParameterInfo> parameters, std::int64_t dtype_bytes,
    absl::string_view neuron_core) {
  const Weigher weigher{config, dtype_bytes,
                        config.quantization.dequantized_on(neuron_core)};
  CoreWeights out;
  absl::flat_hash_set<absl::string_view> shared;
  const absl::Status status =
      apply_ties(weigher, plan, parameters, shared, out);
  if (!status.ok()) return status;
  for (const ParameterInfo& parameter : parameters) {
    if (shared.contains(parameter.name)) continue;
    if (weigher.dequantized && is_quantization_detail(parameter.name)) continue;
    auto weight = weigher.weigh(parameter, parameter.name);
    if (!weight.ok()) return weight.status();
    out.weights.push_back(*weight);
  }
  return out;
}

std::vector<WeightGroup> group_weights(absl::Span<const CoreWeight> weights) {
  std::vector<WeightGroup> out;
  absl::flat_hash_map<std::string, std::vector<std::size_t>> known;
  for (const CoreWeight& weight : weights) {
    auto& same_name = known[without_numbers(weight.name)];
    const auto same = std::find_if(
        same_name.begin(), same_name.end(), [&](std::size_t index) {
          return out[index].shape == weight.shape &&
                 out[index].bytes == weight.bytes &&
                 out[index].tensors == weight.tensors;
        });
    if (same != same_name.end()) {
      ++out[*same].count;
      continue;
    }
    same_name.push_back(out.size());
    out.push_back({std::string(weight.name),
                   {weight.shape.begin(), weight.shape.end()},
                   1,
                   weight.bytes,
                   weight.tensors});
  }
  return out;
}

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

}  // namespace trnscout
