#include "config_fields.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "printable.h"

namespace trnscout {
namespace {

// The number that a JSON text spells, where it is whole.
std::optional<std::int64_t> as_whole(const ConfigValue& value) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (value.kind != ConfigValue::Kind::kScalar) return std::nullopt;
  if (value.scalar.kind == JsonKind::kWhole) {
    return static_cast<std::int64_t>(
        std::min(value.scalar.whole, static_cast<std::uint64_t>(kMost)));
  }
  double number = 0;
  if (value.scalar.kind != JsonKind::kNumber ||
      !absl::SimpleAtod(value.scalar.text, &number) ||
      number != std::floor(number)) {
    return std::nullopt;
  }
  // Past 2^62 every limit is passed, and the conversion stays defined.
  constexpr double kLarge = 4.6e18;
  if (number >= kLarge) return kMost;
  return static_cast<std::int64_t>(std::max(number, -kLarge));
}

// A name with a dot stands in an object of its own: "compress_rates.csa".
const ConfigValue* find_nested(const ConfigValue& object,
                               absl::string_view name) {
  const std::size_t dot = name.find('.');
  const ConfigValue* const found = object.find(name.substr(0, dot));
  if (dot == absl::string_view::npos || found == nullptr) return found;
  if (found->kind != ConfigValue::Kind::kObject) return nullptr;
  return find_nested(*found, name.substr(dot + 1));
}

bool is_rule(absl::string_view fallback) {
  return fallback.empty() || fallback.front() == '@' || fallback == "-";
}

}  // namespace

absl::Status refuse_value(absl::string_view name, const ConfigValue& value,
                          absl::string_view rule) {
  return absl::InvalidArgumentError(
      absl::StrCat(printable(name), " is ", printable(value), "; ", rule));
}

absl::StatusOr<std::int64_t> whole_number(absl::string_view name,
                                          const ConfigValue& value,
                                          Limits limits) {
  const std::optional<std::int64_t> whole = as_whole(value);
  if (whole.has_value() && *whole >= limits.least && *whole <= limits.most) {
    return *whole;
  }
  return refuse_value(name, value,
                      absl::StrCat("it must be a whole number from ",
                                   limits.least, " to ", limits.most));
}

const ConfigValue* FieldReader::given(absl::string_view field) const {
  const ConfigField* const known = row_.find(field);
  if (known == nullptr || object_ == nullptr) return nullptr;
  for (const absl::string_view candidate : known->names) {
    const ConfigValue* const value = find_nested(*object_, candidate);
    if (value != nullptr) return value;
  }
  return nullptr;
}

std::string FieldReader::name(absl::string_view field) const {
  const ConfigField* const known = row_.find(field);
  if (known == nullptr) return std::string(field);
  for (const absl::string_view candidate : known->names) {
    if (object_ != nullptr && find_nested(*object_, candidate) != nullptr) {
      return std::string(candidate);
    }
  }
  return std::string(known->names.back());
}

absl::string_view FieldReader::fallback(absl::string_view field) const {
  const ConfigField* const known = row_.find(field);
  return known == nullptr ? absl::string_view() : known->fallback;
}

std::optional<std::int64_t> FieldReader::default_number(
    absl::string_view field) const {
  if (object_ == nullptr && overrides_ != nullptr) {
    for (const auto& [name, value] : overrides_->overrides()) {
      if (name == field) return value;
    }
  }
  absl::string_view text = fallback(field);
  absl::ConsumePrefix(&text, "[");
  std::int64_t number = 0;
  if (is_rule(text) || !absl::SimpleAtoi(text, &number)) return std::nullopt;
  return number;
}

std::optional<std::int64_t> FieldReader::number(absl::string_view field,
                                                Limits limits) {
  const ConfigValue* value = given(field);
  if (value == nullptr) return default_number(field);
  if (value->is_null() || !status_.ok()) return std::nullopt;
  // A number a layer, in the families that have them: the largest counts.
  if (value->kind == ConfigValue::Kind::kArray && !value->items.empty() &&
      fallback(field).substr(0, 1) == "[") {
    std::int64_t largest = limits.least;
    for (const ConfigValue& item : value->items) {
      const auto number = whole_number(name(field), item, limits);
      if (!number.ok()) fail(number.status());
      if (number.ok()) largest = std::max(largest, *number);
    }
    return largest;
  }
  const auto number = whole_number(name(field), *value, limits);
  if (number.ok()) return *number;
  fail(number.status());
  return std::nullopt;
}

std::int64_t FieldReader::required(absl::string_view field, Limits limits) {
  const ConfigField* const known = row_.find(field);
  if (known == nullptr) return 0;
  const std::optional<std::int64_t> value = number(field, limits);
  if (value.has_value()) return *value;
  const ConfigValue* const stands = given(field);
  if (stands != nullptr) {
    fail(refuse_value(name(field), *stands, "it must be a number"));
  } else {
    fail(absl::InvalidArgumentError(absl::StrCat(
        absl::StrJoin(known->names.begin(),
                      known->names.begin() +
                          std::min<std::ptrdiff_t>(std::ssize(known->names), 4),
                      " or "),
        " is missing; it must be a whole number from ", limits.least, " to ",
        limits.most)));
  }
  return 0;
}

std::optional<bool> FieldReader::flag(absl::string_view field) {
  const ConfigValue* const value = given(field);
  if (value == nullptr) {
    const std::optional<std::int64_t> usual = default_number(field);
    if (!usual.has_value()) return std::nullopt;
    return *usual != 0;
  }
  if (value->is_null()) return std::nullopt;
  if (value->kind == ConfigValue::Kind::kScalar &&
      value->scalar.kind == JsonKind::kBoolean) {
    return value->scalar.text == "true";
  }
  fail(refuse_value(name(field), *value, "it must be true or false"));
  return std::nullopt;
}

}  // namespace trnscout
