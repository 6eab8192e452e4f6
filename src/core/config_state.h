#pragma once

#include <cstdint>

#include "config_fields.h"
#include "trnscout/model_config.h"

namespace trnscout {

/// Elements of what a layer without keys and values keeps for one sequence.
struct LayerState {
  std::int64_t conv = 0;
  std::int64_t recurrent = 0;
  bool known = false;
};

/// Computes the state by the formula that the table names for the class;
/// unknown where it names none.
LayerState layer_state(FieldReader& fields, const ModelConfig& config);

}  // namespace trnscout
