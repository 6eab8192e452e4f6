#include "config_parts.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "config_fields.h"
#include "printable.h"

namespace trnscout {
namespace {

// Where families that Transformers does not have keep their text.
constexpr absl::string_view kTextPaths[] = {
    "text_config",    "llm_config", "language_config",
    "language_model", "decoder",    "thinker_config.text_config",
    "generator",
};

absl::StatusOr<std::string> read_model_type(const ConfigValue& object) {
  const ConfigValue* const value = object.find("model_type");
  if (value == nullptr || value->is_null()) return std::string();
  if (value->is_string()) return value->scalar.text;
  return refuse_value("model_type", *value, "it must be a name");
}

// Follows a path of objects; null where one of them is missing or null.
absl::StatusOr<const ConfigValue*> follow(const ConfigValue* object,
                                          absl::string_view path) {
  std::string so_far;
  for (const absl::string_view name : absl::StrSplit(path, '.')) {
    if (object == nullptr) return nullptr;
    object = object->find(name);
    if (object == nullptr || object->is_null()) return nullptr;
    absl::StrAppend(&so_far, so_far.empty() ? "" : ".", name);
    if (object->kind != ConfigValue::Kind::kObject) {
      return refuse_value(so_far, *object, "it must be an object");
    }
  }
  return object;
}

// A nested part: its class is the one that the table names, unless the file may
// choose and does.
absl::StatusOr<ConfigPart> nested_part(const ConfigValue* object,
                                       absl::string_view path,
                                       absl::string_view key, bool may_choose) {
  std::string type;
  if (object != nullptr) {
    auto read = read_model_type(*object);
    if (!read.ok()) return at(path, read.status());
    type = *std::move(read);
  }
  const bool chosen = may_choose && !type.empty();
  const absl::string_view text = config_row_text(chosen ? type : key);
  if (text.empty()) {
    return ConfigPart{ConfigRow("", config_row_text("")), object,
                      std::string(path), type};
  }
  const absl::string_view named = key.substr(0, key.find('/'));
  return ConfigPart{ConfigRow(chosen ? "" : key, text), object,
                    std::string(path), chosen ? type : std::string(named)};
}

// A number, or 0 where the file has one a stage.
std::int64_t plain_number(FieldReader& fields, absl::string_view field,
                          Limits limits) {
  const ConfigValue* const value = fields.given(field);
  if (value != nullptr && value->kind == ConfigValue::Kind::kArray) return 0;
  return fields.number(field, limits).value_or(0);
}

// The tokens of an image of the one size that the vision part takes, where the
// class makes one of each square of patches.
std::int64_t grid_tokens(FieldReader& vision, FieldReader& whole) {
  const auto side = whole.number("image_grid", kDimension);
  if (!side.has_value()) return 0;
  const auto size = plain_number(vision, "image_size", kDimension);
  const auto patch = plain_number(vision, "patch_size", kDimension);
  if (size == 0 || patch == 0) return 0;
  const std::int64_t patches = size / patch;
  return patches * patches / (*side * *side);
}

// A family that is not known: the first place that holds an object.
absl::StatusOr<ConfigPart> guessed_text(const ConfigPart& whole) {
  for (const absl::string_view path : kTextPaths) {
    const auto object = follow(whole.object, path);
    if (!object.ok()) return object.status();
    if (*object != nullptr) return nested_part(*object, path, "", true);
  }
  return whole;
}

}  // namespace

absl::StatusOr<ConfigPart> whole_part(const ConfigValue& root,
                                      std::vector<std::string>& warnings) {
  auto type = read_model_type(root);
  if (!type.ok()) return type.status();
  const absl::string_view text = config_row_text(*type);
  if (text.empty() || type->empty()) {
    warnings.push_back(absl::StrCat(
        type->empty() ? std::string("model_type is missing")
                      : absl::StrCat("model_type ", printable(*type),
                                     " is not in Transformers 5.24"),
        "; fields are read by their usual names and have no defaults"));
    return ConfigPart{ConfigRow("", config_row_text("")), &root, "", *type};
  }
  return ConfigPart{ConfigRow("", text), &root, "", *type};
}

absl::StatusOr<ConfigPart> text_part(const ConfigPart& whole,
                                     std::vector<std::string>& warnings) {
  const ConfigField* const text = whole.row.find("text");
  if (text == nullptr) {
    return whole.row.class_name().empty() ? guessed_text(whole) : whole;
  }
  const std::vector<absl::string_view> parts =
      absl::StrSplit(text->fallback, ':');
  if (parts.size() != 3) {
    return absl::InternalError("config table: `text` has not three parts");
  }
  const absl::string_view path = text->names.front();
  const auto object = follow(whole.object, path);
  if (!object.ok()) return object.status();
  auto part = nested_part(*object, path, parts[0], parts[1] == "auto");
  if (!part.ok()) return part.status();
  // Older files of some families have the text's fields at the top.
  if (*object == nullptr && parts[2] == "flat") {
    const FieldReader fields(part->row, whole.object, nullptr);
    if (fields.given("hidden") != nullptr) {
      part->object = whole.object;
      part->path.clear();
    }
  }
  if (part->row.class_name().empty()) {
    warnings.push_back(absl::StrCat(
        path, ".model_type ", printable(part->model_type),
        " is not in Transformers 5.24; fields are read by their usual names "
        "and have no defaults"));
  }
  return part;
}

absl::StatusOr<std::optional<VisionConfig>> read_vision(
    const ConfigPart& whole) {
  const ConfigField* const vision = whole.row.find("vision");
  absl::string_view path = "vision_config";
  std::vector<absl::string_view> parts = {"", "auto"};
  if (vision != nullptr) {
    path = vision->names.front();
    parts = absl::StrSplit(vision->fallback, ':');
  }
  const auto object = follow(whole.object, path);
  if (!object.ok()) return object.status();
  if (vision == nullptr && *object == nullptr) return std::nullopt;
  const auto part = nested_part(*object, path, parts[0], parts[1] == "auto");
  if (!part.ok()) return part.status();

  FieldReader fields(part->row, part->object, nullptr);
  FieldReader top(whole.row, whole.object, nullptr);
  VisionConfig out;
  out.model_type = part->model_type;
  out.hidden = plain_number(fields, "hidden", kDimension);
  out.layers = plain_number(fields, "layers", {1, ModelConfig::kMaxLayers});
  out.image_tokens = top.number("image_tokens", kCount).value_or(0);
  if (out.image_tokens == 0) out.image_tokens = grid_tokens(fields, top);
  if (!top.status().ok()) return top.status();
  if (!fields.status().ok()) return at(path, fields.status());
  return out;
}

}  // namespace trnscout
