#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "name_pattern.h"
#include "parallel_plan_table.h"
#include "trnscout/model_config.h"
#include "trnscout/parallel_plan.h"

namespace trnscout {

/// A class inside a model, at its path; what a plan is put together from.
struct PlacedClass {
  std::string path;
  const ClassRow* row = nullptr;
  bool plan_reaches = false;
};

/// A transform of the table, ready to run, with the part of the model it is
/// for.
struct WeightTransform {
  const TransformRow* row = nullptr;
  std::vector<const NamePattern*> sources;
  bool scoped = false;
  std::string scope;          ///< path below the base model, with its dot
  std::string base_prefix;    ///< with its dot
  bool tells_digits = false;  ///< names unlike in digits alone may part ways
};

/// Collects the transforms of a model in the order Transformers runs them.
/// `model_type` is the config's, which may share the outermost class with
/// others.
///
/// Errors: Internal - the table holds a pattern that does not compile.
absl::StatusOr<std::vector<WeightTransform>> weight_transforms(
    absl::Span<const PlacedClass> classes, absl::string_view model_type,
    absl::string_view base_prefix);

/// A tensor's name after one transform.
struct Renamed {
  std::string name;
  std::int32_t source = 0;    ///< which of the transform's sources it met
  bool tells_digits = false;  ///< as of a transform, seen on this name
};

/// Renames, or returns nothing where the transform does not apply.
///
/// `guard_met` is kept between the names of one load, which come in order.
std::optional<Renamed> rename(const WeightTransform& transform,
                              absl::string_view name, bool& guard_met);

/// Joins, stacks or cuts the tensors that one conversion has collected.
///
/// `target` is the name of the first parameter that comes of it; `collected`
/// holds a list of tensors for each source, in the transform's own order.
/// `config` gives sizes that some conversions need; it may be null.
///
/// Errors: InvalidArgument - the tensors do not fit each other or `config`.
///         Unimplemented - the conversion needs more than shapes.
absl::StatusOr<std::vector<ParameterInfo>> convert(
    const TransformRow& transform, absl::string_view target,
    std::vector<std::vector<ParameterInfo>> collected,
    const ModelConfig* config);

}  // namespace trnscout
