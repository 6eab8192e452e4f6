#pragma once

#include <cstdint>

#include "config_fields.h"
#include "trnscout/model_config.h"

namespace trnscout {

/// What a layer keeps for one sequence beside keys and values, or without them.
struct LayerState {
  std::int64_t elements = 0;      ///< in the cache's dtype
  std::int64_t bytes = 0;         ///< whatever the dtype
  std::int64_t bytes_per_kv = 0;  ///< for each element of a token's key, value
  bool known = false;
};

/// Computes the state by the formula that the table names for the class;
/// unknown where it names none.
LayerState layer_state(FieldReader& fields, const ModelConfig& config);

/// Adds what the layers that look words up by their neighbours keep for that.
void add_lookup_states(FieldReader& fields, ModelConfig& config);

}  // namespace trnscout
