#include "config_layers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "printable.h"

namespace trnscout {
namespace {

// The letters of the table.
constexpr std::pair<char, absl::string_view> kLetters[] = {
    {'f', "full_attention"},
    {'s', "sliding_attention"},
    {'c', "chunked_attention"},
    {'l', "linear_attention"},
    {'v', "conv"},
    {'h', "hybrid"},
    {'g', "hybrid_sliding"},
    {'i', "indexed_attention"},
    {'p', "compressed_sparse_attention"},
    {'q', "heavily_compressed_attention"},
    {'x', "minimax_m3_sparse"},
    {'r', "reference_sliding_attention"},
    {'m', "moe"},
    {'n', "mlp"},
};

// Transformers renames these as it reads a config.
constexpr std::pair<absl::string_view, absl::string_view> kOlderNames[] = {
    {"mamba", "linear_attention"},
    {"attention", "full_attention"},
    {"deepseek_sparse_attention", "indexed_attention"},
    {"qwen_sparse_attention", "indexed_attention"},
};

// The pattern of a hybrid that names a layer by a sign.
constexpr std::pair<char, char> kSigns[] = {
    {'M', 'l'}, {'*', 'f'}, {'-', 'n'}, {'E', 'm'}};

std::string type_of(char letter) {
  for (const auto& [known, type] : kLetters) {
    if (known == letter) return std::string(type);
  }
  return {};
}

bool is_type(absl::string_view name) {
  return std::any_of(
      std::begin(kLetters), std::end(kLetters),
      [name](const auto& known) { return known.second == name; });
}

std::vector<std::string> types_of(absl::string_view letters) {
  std::vector<std::string> out;
  out.reserve(letters.size());
  for (const char letter : letters) out.push_back(type_of(letter));
  return out;
}

// PREFIX|BODY|LAST, or =LETTERS for one count of layers only.
absl::StatusOr<std::string> expand(absl::string_view pattern,
                                   std::int64_t layers) {
  const auto count = static_cast<std::size_t>(layers);
  if (pattern.substr(0, 1) == "=" && pattern.size() == count + 1) {
    return std::string(pattern.substr(1));
  }
  if (pattern.substr(0, 1) == "=" && layers == 0) {
    return std::string(pattern.substr(1));  // the types count the layers
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(pattern, '|');
  if (parts.size() != 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        "layer_types is missing; there is no rule for the types of ", layers,
        " layers"));
  }
  const bool backwards = parts[1].substr(0, 1) == "<";
  const absl::string_view body = parts[1].substr(backwards ? 1 : 0);
  // Where the body is aligned with the end, its first letter's shift.
  const std::size_t shift =
      backwards ? (body.size() - count % body.size()) % body.size()
                : body.size() - parts[0].size() % body.size();
  std::string out(parts[0].substr(0, count));
  for (std::size_t i = out.size(); i < count; ++i) {
    out.push_back(body[(i + shift) % body.size()]);
  }
  if (!parts[2].empty() && !out.empty()) out.back() = parts[2].front();
  return out;
}

absl::StatusOr<std::vector<std::string>> listed_types(
    const std::string& name, const ConfigValue& value) {
  if (value.kind != ConfigValue::Kind::kArray) {
    return refuse_value(name, value, "it must be a list of layer types");
  }
  std::vector<std::string> out;
  out.reserve(value.items.size());
  for (const ConfigValue& item : value.items) {
    std::string type = item.is_string() ? item.scalar.text : std::string();
    for (const auto& [older, newer] : kOlderNames) {
      if (type == older) type = std::string(newer);
    }
    if (!is_type(type)) {
      return refuse_value(
          absl::StrCat(name, "[", out.size(), "]"), item,
          "it must be a layer type of Transformers, as full_attention");
    }
    out.push_back(std::move(type));
  }
  return out;
}

// Every n-th layer is of another type; the unit "ssf" says which.
absl::StatusOr<std::string> by_period(const std::string& name,
                                      const ConfigValue& value,
                                      absl::string_view unit,
                                      std::int64_t layers) {
  std::string out(static_cast<std::size_t>(layers), unit.front());
  if (value.is_string() && !value.scalar.text.empty()) {  // "LLLG"
    const std::string& text = value.scalar.text;
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (text[i % text.size()] == 'G') out[i] = unit.back();
    }
    return out;
  }
  const auto period = whole_number(name, value, {1, ModelConfig::kMaxLayers});
  if (!period.ok()) return period.status();
  for (std::int64_t i = *period - 1; i < layers; i += *period) {
    out[static_cast<std::size_t>(i)] = unit.back();
  }
  return out;
}

// `attn_layer_period` and `attn_layer_offset`.
absl::StatusOr<std::string> by_offset(FieldReader& fields, std::string out) {
  const ConfigField& every = *fields.row().find("every");
  const std::vector<absl::string_view> usual =
      absl::StrSplit(every.fallback, ',');
  std::int64_t numbers[2] = {1, 0};
  for (std::size_t i = 0; i < 2; ++i) {
    if (!absl::SimpleAtoi(usual[i], &numbers[i])) {
      return absl::InternalError("config table: no number in `every`");
    }
    const ConfigValue* const value =
        fields.object() == nullptr ? nullptr
                                   : fields.object()->find(every.names[i]);
    if (value == nullptr) continue;
    const auto number = whole_number(every.names[i], *value,
                                     {i == 0 ? 1 : 0, ModelConfig::kMaxLayers});
    if (!number.ok()) return number.status();
    numbers[i] = *number;
  }
  const std::size_t attention = out.find_first_not_of('l');
  const char letter = attention == std::string::npos ? 'f' : out[attention];
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] =
        static_cast<std::int64_t>(i) % numbers[0] == numbers[1] ? letter : 'l';
  }
  return out;
}

struct Indexed {
  char others;
  char listed;
  std::int64_t first;  // the number of the first layer
};

// A list of the layers of one type; the others have another.
absl::StatusOr<std::string> by_indices(const std::string& name,
                                       const ConfigValue& value,
                                       Indexed indexed, std::int64_t layers) {
  if (value.kind != ConfigValue::Kind::kArray) {
    return refuse_value(name, value, "it must be a list of layers");
  }
  std::string out(static_cast<std::size_t>(layers), indexed.others);
  const Limits limits = {indexed.first, layers - 1 + indexed.first};
  for (const ConfigValue& item : value.items) {
    const auto index = whole_number(name, item, limits);
    if (!index.ok()) return index.status();
    out[static_cast<std::size_t>(*index - indexed.first)] = indexed.listed;
  }
  return out;
}

absl::StatusOr<std::string> by_signs(const std::string& name,
                                     const ConfigValue& value) {
  if (!value.is_string()) {
    return refuse_value(name, value, "it must be a string of layer signs");
  }
  std::string out;
  for (const char sign : value.scalar.text) {
    const auto* const known =
        std::find_if(std::begin(kSigns), std::end(kSigns),
                     [sign](const auto& pair) { return pair.first == sign; });
    if (known == std::end(kSigns)) {
      return refuse_value(name, value, "its signs must be M, *, - or E");
    }
    out.push_back(known->second);
  }
  return out;
}

// Qwen2's rule: windows from a layer on, where they are switched on.
absl::StatusOr<std::string> by_window_from(FieldReader& fields,
                                           std::int64_t layers) {
  std::string out(static_cast<std::size_t>(layers), 'f');
  const bool on = fields.flag("use_window").value_or(false) &&
                  fields.number("window", kTokens).value_or(0) > 0;
  const std::int64_t from =
      fields.number("window_from", {0, ModelConfig::kMaxLayers}).value_or(0);
  if (!fields.status().ok()) return fields.status();
  for (std::int64_t i = from; on && i < layers; ++i) {
    out[static_cast<std::size_t>(i)] = 's';
  }
  return out;
}

// A code a layer: "0s,4p,128q".
absl::StatusOr<std::string> by_codes(const std::string& name,
                                     const ConfigValue& value,
                                     absl::string_view codes) {
  if (value.kind != ConfigValue::Kind::kArray) {
    return refuse_value(name, value, "it must be a list of layer codes");
  }
  std::string out;
  for (const ConfigValue& item : value.items) {
    const auto code = whole_number(name, item, kCount);
    if (!code.ok()) return code.status();
    const std::string wanted = absl::StrCat(*code);
    const std::size_t before = out.size();
    for (const absl::string_view pair : absl::StrSplit(codes, ',')) {
      if (pair.substr(0, pair.size() - 1) == wanted) out.push_back(pair.back());
    }
    if (out.size() == before) {
      return refuse_value(name, item, "it must be a code of a layer type");
    }
  }
  return out;
}

// The letters by whichever rule the class and the file have.
absl::StatusOr<std::string> letters_by_rule(FieldReader& fields,
                                            std::int64_t layers) {
  for (const char* rule :
       {"pattern", "coded", "from_one", "full_at", "period"}) {
    const ConfigValue* const value = fields.given(rule);
    if (value == nullptr || value->is_null()) continue;
    const std::string name = fields.name(rule);
    const absl::string_view argument = fields.fallback(rule);
    if (rule == absl::string_view("pattern")) return by_signs(name, *value);
    if (rule == absl::string_view("coded")) {
      return by_codes(name, *value, argument);
    }
    if (rule == absl::string_view("from_one")) {
      return by_indices(name, *value, {'f', argument.front(), 1}, layers);
    }
    return rule == absl::string_view("period")
               ? by_period(name, *value, argument, layers)
               : by_indices(name, *value, {argument.front(), 'f', 0}, layers);
  }
  if (fields.row().find("window_by_count") != nullptr) {
    return by_window_from(fields, layers);
  }
  auto letters = expand(fields.fallback("types"), layers);
  if (!letters.ok() || fields.row().find("every") == nullptr) return letters;
  return by_offset(fields, *std::move(letters));
}

// Which layers share an indexer, by S: as listed, else by the class's pattern,
// else by a period with an offset.
absl::StatusOr<std::string> indexer_letters(FieldReader& fields,
                                            std::int64_t layers) {
  const ConfigValue* const object = fields.object();
  const ConfigValue* given = fields.given("indexers");
  if (given == nullptr && object != nullptr) {
    given = object->find("index_topk_pattern");
  }
  if (given != nullptr && given->is_string()) return given->scalar.text;
  std::string out;
  if (given != nullptr && given->kind == ConfigValue::Kind::kArray) {
    for (const ConfigValue& item : given->items) {
      if (!item.is_string()) {
        return refuse_value("indexer_types", item, "it must be full or shared");
      }
      out.push_back(item.scalar.text == "shared" ? 'S' : 'F');
    }
    return out;
  }
  const ConfigValue* const frequency =
      object == nullptr ? nullptr : object->find("index_topk_freq");
  if (frequency == nullptr) return expand(fields.fallback("indexers"), layers);
  const auto period = whole_number("index_topk_freq", *frequency, kCount);
  if (!period.ok()) return period.status();
  const ConfigValue* const skipped = object->find("index_skip_topk_offset");
  std::int64_t offset = 2;
  if (skipped != nullptr) {
    const auto read = whole_number("index_skip_topk_offset", *skipped, kCount);
    if (!read.ok()) return read.status();
    offset = *read;
  }
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::int64_t step = std::max<std::int64_t>(i - offset + 1, 0);
    out.push_back(step % std::max<std::int64_t>(*period, 1) == 0 ? 'F' : 'S');
  }
  return out;
}

}  // namespace

absl::StatusOr<std::vector<bool>> shared_indexers(FieldReader& fields,
                                                  std::int64_t layers) {
  std::vector<bool> out;
  if (fields.row().find("indexers") == nullptr) return out;
  const auto letters = indexer_letters(fields, layers);
  if (!letters.ok()) return letters.status();
  for (const char letter : *letters) out.push_back(letter == 'S');
  return out;
}

absl::StatusOr<std::vector<std::string>> read_layer_types(FieldReader& fields,
                                                          std::int64_t layers) {
  std::vector<std::string> types;
  const ConfigValue* const value = fields.given("types");
  if (value != nullptr && !value->is_null()) {
    auto listed = listed_types(fields.name("types"), *value);
    if (!listed.ok()) return listed.status();
    types = *std::move(listed);
  } else if (fields.row().find("types") != nullptr &&
             fields.fallback("types") != "-") {
    // Where the types count the layers, the file's count is not used.
    const bool types_count = fields.row().find("types_count_layers") != nullptr;
    const auto letters = letters_by_rule(fields, types_count ? 0 : layers);
    if (!letters.ok()) return letters.status();
    types = types_of(*letters);
  } else {
    return types;
  }
  const auto is_mlp = [](const std::string& type) { return type == "mlp"; };
  if (fields.row().find("mlp_between") != nullptr &&
      std::any_of(types.begin(), types.end(), is_mlp)) {
    types.erase(std::remove_if(types.begin(), types.end(), is_mlp),
                types.end());
    return types;
  }
  if (fields.row().find("full_is_indexed") != nullptr) {
    std::replace(types.begin(), types.end(), std::string("full_attention"),
                 std::string("indexed_attention"));
  }
  if (fields.row().find("cuts_types") != nullptr) {
    types.resize(std::min(types.size(), static_cast<std::size_t>(layers)));
  }
  const auto count = static_cast<std::int64_t>(types.size());
  if (count != layers &&
      (count == 0 || fields.row().find("types_count_layers") == nullptr)) {
    return absl::InvalidArgumentError(absl::StrCat(
        fields.name("types"), " has ", counted(types.size(), "entry"), "; ",
        fields.name("layers"), " is ", layers));
  }
  return types;
}

}  // namespace trnscout
