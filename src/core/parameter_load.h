#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "model_classes.h"
#include "trnscout/model_config.h"
#include "trnscout/parallel_plan.h"

namespace trnscout {

/// Renames and converts the tensors of a checkpoint; see
/// `ParallelPlan::parameters_of`. `config` may be null.
absl::StatusOr<LoadedParameters> load_parameters(
    const ModelClasses& classes, absl::string_view model_type,
    absl::Span<const TensorInfo> tensors, const ModelConfig* config);

}  // namespace trnscout
