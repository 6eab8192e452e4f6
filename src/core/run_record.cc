#include "trnscout/run_record.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "json_events.h"
#include "printable.h"

namespace trnscout {
namespace {

using Json = nlohmann::ordered_json;

// The names of an enumeration's values, in their order.
template <typename Enum>
inline constexpr std::array<absl::string_view, 0> kNames = {};

#include "run_record_fields.inc"

constexpr int kMaxDepth = 64;

// Lets through what can be read and written without deep recursion.
class DepthLimit final : public JsonEvents {
 public:
  absl::Status begin_object() override { return enter(); }
  absl::Status end_object() override { return leave(); }
  absl::Status begin_array() override { return enter(); }
  absl::Status end_array() override { return leave(); }
  absl::Status key(std::string) override { return absl::OkStatus(); }
  absl::Status value(JsonValue) override { return absl::OkStatus(); }

 private:
  absl::Status enter() {
    if (++depth_ <= kMaxDepth) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("nested deeper than ", kMaxDepth));
  }
  absl::Status leave() {
    --depth_;
    return absl::OkStatus();
  }

  int depth_ = 0;
};

absl::StatusOr<Json> read_object(absl::string_view text) {
  DepthLimit events;
  if (absl::Status status = read_json(text, events); !status.ok()) {
    return status;
  }
  Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  if (json.is_object()) return json;
  return absl::InvalidArgumentError("no JSON object");
}

absl::Status refuse(const Json& json, absl::string_view wanted) {
  const std::string spelled = json.is_object()  ? "{...}"
                              : json.is_array() ? "[...]"
                                                : json.dump();
  return absl::InvalidArgumentError(
      absl::StrCat(printable(spelled), ", must be ", wanted));
}

// One overload a type of column.

absl::Status read(const Json& json, std::string& value) {
  if (!json.is_string()) return refuse(json, "a string");
  value = json.get<std::string>();
  return absl::OkStatus();
}

absl::Status read(const Json& json, bool& value) {
  if (!json.is_boolean()) return refuse(json, "true or false");
  value = json.get<bool>();
  return absl::OkStatus();
}

absl::Status read(const Json& json, double& value) {
  if (!json.is_number()) return refuse(json, "a number");
  value = json.get<double>();
  return absl::OkStatus();
}

template <typename Int>
requires std::is_same_v<Int, std::int64_t> || std::is_same_v<Int, std::int32_t>
    absl::Status read(const Json& json, Int& value) {
  using Limits = std::numeric_limits<Int>;
  bool fits = json.is_number_integer();
  if (json.is_number_unsigned()) {
    fits =
        json.get<std::uint64_t>() <= static_cast<std::uint64_t>(Limits::max());
  } else if (fits) {
    const auto number = json.get<std::int64_t>();
    fits = number >= Limits::min() && number <= Limits::max();
  }
  if (!fits) {
    return refuse(json, absl::StrCat("a whole number from ", Limits::min(),
                                     " to ", Limits::max()));
  }
  value = json.get<Int>();
  return absl::OkStatus();
}

template <typename Enum>
requires std::is_enum_v<Enum> absl::Status read(const Json& json, Enum& value) {
  const auto& names = kNames<Enum>;
  const auto found = json.is_string() ? std::find(names.begin(), names.end(),
                                                  json.get<std::string>())
                                      : names.end();
  if (found == names.end()) {
    return refuse(json, absl::StrCat("one of ", absl::StrJoin(names, ", ")));
  }
  value = static_cast<Enum>(found - names.begin());
  return absl::OkStatus();
}

absl::Status read(const Json& json, JsonObject& value) {
  if (!json.is_object()) return refuse(json, "an object");
  value.text = json.dump();
  return absl::OkStatus();
}

template <typename T>
absl::Status read(const Json& json, std::vector<T>& values) {
  if (!json.is_array()) return refuse(json, "a list");
  values.clear();
  for (const Json& item : json) {
    if (auto status = read(item, values.emplace_back()); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status read(const Json& json, std::map<std::string, T>& values) {
  if (!json.is_object()) return refuse(json, "an object");
  values.clear();
  for (const auto& [key, item] : json.items()) {
    if (auto status = read(item, values[key]); !status.ok()) return status;
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status read(const Json& json, std::optional<T>& value) {
  return read(json, value.emplace());
}

template <typename T>
absl::StatusOr<Json> written(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return Json(std::string(kNames<T>[static_cast<std::size_t>(value)]));
  } else if constexpr (std::is_same_v<T, JsonObject>) {
    return read_object(value.text);
  } else if constexpr (std::is_same_v<T, double>) {
    if (std::isfinite(value)) return Json(value);
    return absl::InvalidArgumentError(
        absl::StrCat(value, ", must be a finite number"));
  } else {
    return Json(value);
  }
}

template <typename T>
absl::StatusOr<Json> written(const std::optional<T>& value) {
  return value.has_value() ? written(*value) : Json(nullptr);
}

absl::Status in_column(absl::string_view name, const absl::Status& status) {
  if (status.ok()) return status;
  return {status.code(),
          absl::StrCat("column ", name, " is ", status.message())};
}

absl::Status check_keys(const Json& json) {
  const RunRecord record;
  std::vector<absl::string_view> names;
  visit_columns(record, [&](absl::string_view name, const auto&, bool) {
    names.push_back(name);
  });
  for (const auto& [key, value] : json.items()) {
    if (std::find(names.begin(), names.end(), key) != names.end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("column ", printable(key), " is unknown; schema ",
                     kRunRecordVersion, " of the run record has none of this ",
                     "name (docs/run_record.md lists all)"));
  }
  return absl::OkStatus();
}

template <typename Enum>
absl::string_view name_of(Enum value) {
  const auto index = static_cast<std::size_t>(value);
  return index < kNames<Enum>.size() ? kNames<Enum>[index] : "unknown";
}

}  // namespace

absl::string_view verdict_name(Verdict value) { return name_of(value); }
absl::string_view depth_name(Depth value) { return name_of(value); }
absl::string_view origin_name(Origin value) { return name_of(value); }
absl::string_view error_class_name(ErrorClass value) { return name_of(value); }

absl::StatusOr<std::string> to_json(const RunRecord& record) {
  Json json = Json::object();
  absl::Status status;
  visit_columns(record, [&](absl::string_view name, const auto& value, bool) {
    if (!status.ok()) return;
    absl::StatusOr<Json> column = written(value);
    status = in_column(name, column.status());
    if (status.ok()) json[std::string(name)] = *std::move(column);
  });
  if (!status.ok()) return status;
  try {
    return json.dump();
  } catch (const Json::type_error&) {
    return absl::InvalidArgumentError("record: a string is not UTF-8");
  }
}

absl::StatusOr<RunRecord> run_record_from_json(absl::string_view text) {
  absl::StatusOr<Json> json = read_object(text);
  if (!json.ok()) return at("record", json.status());
  absl::Status status = check_keys(*json);
  RunRecord record;
  visit_columns(record, [&](absl::string_view name, auto& value, bool given) {
    if (!status.ok()) return;
    const auto found = json->find(std::string(name));
    if (found != json->end() && !found->is_null()) {
      status = in_column(name, read(*found, value));
    } else if (given) {
      status = absl::InvalidArgumentError(
          absl::StrCat("column ", name, " is null, must have a value"));
    }
  });
  if (!status.ok()) return status;
  if (record.verdict == Verdict::kPass && record.depth != Depth::kHardware) {
    return absl::InvalidArgumentError(
        absl::StrCat("record: PASS needs depth hardware, depth is ",
                     depth_name(record.depth)));
  }
  return record;
}

}  // namespace trnscout
