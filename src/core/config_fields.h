#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "config_json.h"
#include "config_table.h"

namespace trnscout {

/// Least and most that a number may be.
struct Limits {
  std::int64_t least = 1;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};

inline constexpr Limits kDimension = {1, 1 << 20};
inline constexpr Limits kCount = {0, 1 << 20};
/// A window, where 0 stands for none.
inline constexpr Limits kTokens = {0, std::int64_t{1} << 40};

/// Refuses a value: "NAME is VALUE; RULE".
absl::Status refuse_value(absl::string_view name, const ConfigValue& value,
                          absl::string_view rule);

/// Reads a whole number; 32000.0 and 1e6 are whole, "2" and true are not.
///
/// Errors: InvalidArgument - it is no whole number within the limits.
absl::StatusOr<std::int64_t> whole_number(absl::string_view name,
                                          const ConfigValue& value,
                                          Limits limits);

/// The fields of one class in one object of a config.json: what stands there,
/// else the class's default. The first error stays and ends all reading.
class FieldReader {
 public:
  /// Without an `object` everything has its default, the row's overrides by
  /// `overrides` included.
  FieldReader(const ConfigRow& row, const ConfigValue* object,
              const ConfigRow* overrides)
      : row_(row), object_(object), overrides_(overrides) {}

  const ConfigRow& row() const { return row_; }
  const ConfigValue* object() const { return object_; }

  /// The value that the file has for a field, or null.
  const ConfigValue* given(absl::string_view field) const;

  /// The name that the file gives a field, or would.
  std::string name(absl::string_view field) const;

  /// A field's number: as it stands, else its default. Without value where the
  /// file says null, there is no default, or the default is a rule.
  std::optional<std::int64_t> number(absl::string_view field, Limits limits);

  /// A field that has to have a number; 0 where the class has no such field.
  std::int64_t required(absl::string_view field, Limits limits);

  /// A yes or no: true, false, or a number that is not 0.
  std::optional<bool> flag(absl::string_view field);

  /// The default as the table spells it; empty where there is none.
  absl::string_view fallback(absl::string_view field) const;

  const absl::Status& status() const { return status_; }
  void fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

 private:
  std::optional<std::int64_t> default_number(absl::string_view field) const;

  const ConfigRow& row_;
  const ConfigValue* object_;
  const ConfigRow* overrides_;
  absl::Status status_;
};

}  // namespace trnscout
