#pragma once

#include "absl/status/statusor.h"
#include "config_json.h"
#include "trnscout/model_config.h"

namespace trnscout {

/// Reads a quantization_config, or null for none.
///
/// Errors: InvalidArgument - it is no object, or its method or bits are not as
///         they must be.
absl::StatusOr<Quantization> read_quantization(const ConfigValue* value);

}  // namespace trnscout
