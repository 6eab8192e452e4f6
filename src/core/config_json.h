#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "json_events.h"

namespace trnscout {

/// One value of a config.json: what stands there, or the parts below it.
struct ConfigValue {
  enum class Kind : std::uint8_t { kScalar, kConstant, kArray, kObject };

  Kind kind = Kind::kScalar;
  /// kScalar: the value. kConstant: its name, which JSON does not have: NaN,
  /// Infinity, -Infinity.
  JsonValue scalar;
  std::vector<ConfigValue> items;                            ///< kArray
  std::vector<std::pair<std::string, ConfigValue>> members;  ///< kObject

  bool is_null() const {
    return kind == Kind::kScalar && scalar.kind == JsonKind::kNull;
  }
  bool is_string() const {
    return kind == Kind::kScalar && scalar.kind == JsonKind::kString;
  }

  /// Finds a member, or null where there is none or this is no object.
  const ConfigValue* find(absl::string_view name) const;
};

/// Spells a value for a message: "[...]" for an array, "{...}" for an object.
std::string printable(const ConfigValue& value);

/// Reads a text as Python's json does: NaN, Infinity and -Infinity are values,
/// and of two equal keys the last one stays; `warnings` then names them.
///
/// Errors: InvalidArgument - not JSON, not an object, or nested too deep.
absl::StatusOr<ConfigValue> read_config_json(
    absl::string_view text, std::vector<std::string>& warnings);

}  // namespace trnscout
