#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config_fields.h"
#include "trnscout/model_config.h"

namespace trnscout {

/// Reads the type of every layer, by the names of Transformers: as the file
/// lists them, else by the rule of the class. Empty where the class has none.
///
/// Errors: InvalidArgument - a type that Transformers does not have, a list of
///         another length than `layers`, or no rule for so many layers.
absl::StatusOr<std::vector<std::string>> read_layer_types(FieldReader& fields,
                                                          std::int64_t layers);

/// Says of every layer whether it shares the sparse indexer of one before it.
/// Empty where the class has no such layers.
///
/// Errors: InvalidArgument - the list is none of such words.
absl::StatusOr<std::vector<bool>> shared_indexers(FieldReader& fields,
                                                  std::int64_t layers);

/// Gives each layer its cache, and puts what is not counted into the warnings.
/// `config` has everything but the caches.
///
/// Errors: InvalidArgument - a layer has a window and no length for it; a value
///         in per_layer_config is not as it must be.
absl::Status set_layer_caches(FieldReader& fields,
                              const std::vector<std::string>& types,
                              ModelConfig& config);

}  // namespace trnscout
