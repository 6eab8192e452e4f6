#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace trnscout {

/// What the table says of one field of a class. In a row a field stands as
/// FIELD=NAME,NAME:DEFAULT, or as FIELD:DEFAULT where its name is the usual
/// one.
struct ConfigField {
  absl::string_view field;  ///< our name: "hidden"
  /// The file's names for it, the one that counts most first.
  std::vector<absl::string_view> names;
  /// A number, or "-" for none, or "@RULE" for a value that follows from
  /// others, or "[NUMBER" where a list stands and this is its largest.
  absl::string_view fallback;
};

/// The row of one config class.
class ConfigRow {
 public:
  /// Reads the text of a row, which must outlive this.
  ConfigRow(absl::string_view key, absl::string_view text);

  absl::string_view key() const { return key_; }
  absl::string_view class_name() const { return class_name_; }

  /// Finds a field, or null where the class has none of that name.
  const ConfigField* find(absl::string_view field) const;

  /// The row's `set=FIELD:VALUE`: what a composite class gives its text where
  /// the file says nothing of it.
  const std::vector<std::pair<absl::string_view, std::int64_t>>& overrides()
      const {
    return overrides_;
  }

 private:
  absl::string_view key_;
  absl::string_view class_name_;
  std::vector<ConfigField> fields_;
  std::vector<std::pair<absl::string_view, std::int64_t>> overrides_;
};

/// The text of the row for a model type ("" for one that is not known), or
/// empty where there is none.
absl::string_view config_row_text(absl::string_view key);

}  // namespace trnscout
