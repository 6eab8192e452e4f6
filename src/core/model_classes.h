#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "parallel_plan_table.h"
#include "trnscout/parallel_plan.h"
#include "weight_conversion.h"

namespace trnscout {

/// One architecture with the classes that its nested configs put into it.
struct ModelClasses {
  const ModelRow* model = nullptr;
  std::vector<PlacedClass> classes;        ///< from the outermost inwards
  std::vector<NestedModel> nested;         ///< each slot with what stands in it
  std::vector<absl::string_view> ignored;  ///< regexes of tensors of no use
};

/// Finds an architecture by its name or a model type.
///
/// Errors: NotFound - as of `find_parallel_plan`.
absl::StatusOr<ModelClasses> find_model_classes(
    absl::string_view architecture_or_model_type,
    absl::Span<const NestedModel> nested);

}  // namespace trnscout
