#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "config_json.h"
#include "config_table.h"
#include "trnscout/model_config.h"

namespace trnscout {

/// A class and the object of the file that it reads.
struct ConfigPart {
  ConfigRow row;
  const ConfigValue* object = nullptr;  ///< null where the file has none
  std::string path;                     ///< "thinker_config.text_config"
  std::string model_type;
};

/// The class of the whole file; a warning where its type is not known.
absl::StatusOr<ConfigPart> whole_part(const ConfigValue& root,
                                      std::vector<std::string>& warnings);

/// The language model in it: nested, or the whole.
///
/// Errors: InvalidArgument - what should hold it is no object.
absl::StatusOr<ConfigPart> text_part(const ConfigPart& whole,
                                     std::vector<std::string>& warnings);

/// The part that reads images, where there is one.
///
/// Errors: InvalidArgument - vision_config is no object, or one of its values
///         is not as it must be.
absl::StatusOr<std::optional<VisionConfig>> read_vision(
    const ConfigPart& whole);

}  // namespace trnscout
