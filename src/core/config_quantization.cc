#include "config_quantization.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "config_fields.h"
#include "printable.h"

namespace trnscout {
namespace {

// Methods whose name says how many bits a weight has.
constexpr std::pair<absl::string_view, std::int64_t> kBits[] = {
    {"mxfp4", 4},           {"fp8", 8},    {"fbgemm_fp8", 8}, {"nvfp4", 4},
    {"finegrained_fp8", 8}, {"bitnet", 2},
};

// Where methods list the modules that they leave alone.
constexpr absl::string_view kKeptNames[] = {"modules_to_not_convert", "ignore",
                                            "llm_int8_skip_modules",
                                            "ignored_layers"};

bool is_true(const ConfigValue& value, absl::string_view name) {
  const ConfigValue* const found = value.find(name);
  return found != nullptr && found->kind == ConfigValue::Kind::kScalar &&
         found->scalar.kind == JsonKind::kBoolean &&
         found->scalar.text == "true";
}

// The fewest bits that a group of compressed-tensors gives its weights.
absl::StatusOr<std::int64_t> read_group_bits(const ConfigValue& groups) {
  std::int64_t fewest = 0;
  for (const auto& [name, group] : groups.members) {
    const ConfigValue* const weights = group.find("weights");
    const ConfigValue* const bits =
        weights == nullptr ? nullptr : weights->find("num_bits");
    if (bits == nullptr || bits->is_null()) continue;
    const auto number = whole_number("num_bits", *bits, {1, 32});
    if (!number.ok()) return at("config_groups", number.status());
    fewest = fewest == 0 ? *number : std::min(fewest, *number);
  }
  return fewest;
}

absl::StatusOr<std::int64_t> read_bits(const ConfigValue& value,
                                       absl::string_view method) {
  for (const char* name : {"bits", "w_bit"}) {
    const ConfigValue* const bits = value.find(name);
    if (bits == nullptr || bits->is_null()) continue;
    return whole_number(name, *bits, {1, 32});
  }
  if (is_true(value, "load_in_4bit") || is_true(value, "_load_in_4bit")) {
    return 4;
  }
  if (is_true(value, "load_in_8bit") || is_true(value, "_load_in_8bit")) {
    return 8;
  }
  for (const auto& [known, bits] : kBits) {
    if (known == method) return bits;
  }
  const ConfigValue* const groups = value.find("config_groups");
  return groups == nullptr ? 0 : read_group_bits(*groups);
}

void read_kept(const ConfigValue& value, Quantization& out) {
  for (const absl::string_view name : kKeptNames) {
    const ConfigValue* const kept = value.find(name);
    if (kept == nullptr || kept->kind != ConfigValue::Kind::kArray) continue;
    for (const ConfigValue& item : kept->items) {
      if (item.is_string()) out.kept_modules.push_back(item.scalar.text);
    }
  }
}

}  // namespace

bool Quantization::dequantized_on(absl::string_view neuron_core) const {
  if (method.empty()) return false;
  const bool native = method == "mxfp4" || absl::StrContains(method, "fp8");
  return neuron_core != "v4" || !native;
}

absl::StatusOr<Quantization> read_quantization(const ConfigValue* value) {
  Quantization out;
  if (value == nullptr || value->is_null()) return out;
  if (value->kind != ConfigValue::Kind::kObject) {
    return refuse_value("quantization_config", *value, "it must be an object");
  }
  const ConfigValue* const method = value->find("quant_method");
  if (method != nullptr && !method->is_null()) {
    if (!method->is_string() || method->scalar.text.empty()) {
      return refuse_value("quantization_config.quant_method", *method,
                          "it must be the name of a method");
    }
    out.method = method->scalar.text;
  } else if (is_true(*value, "load_in_4bit") ||
             is_true(*value, "load_in_8bit")) {
    out.method = "bitsandbytes";  // configs from before the key
  } else {
    return absl::InvalidArgumentError(
        "quantization_config.quant_method is missing; it must be the name of "
        "a method");
  }
  const auto bits = read_bits(*value, out.method);
  if (!bits.ok()) return bits.status();
  out.bits = *bits;
  read_kept(*value, out);
  return out;
}

}  // namespace trnscout
