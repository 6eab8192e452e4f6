#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "trnscout/parallel_plan.h"

namespace trnscout {

// Rows of the generated table. All text and spans live as long as the program.

struct RuleRow {
  absl::string_view pattern;
  ParallelStyle style;
};

enum class OperationKind : std::uint8_t {
  kStack,           // one more dimension, `dim0`, over the tensors of a source
  kConcatenate,     // along `dim0`
  kChunk,           // into equal parts along `dim0`, one a target
  kSplit,           // along `dim0`, by the sizes of the config
  kTranspose,       // `dim0` with `dim1`
  kTransposeToFit,  // the same where the hidden size is not in its place
  kKeepShape,       // moves values only
  kDequantize,      // keeps the shape where only one source is there
  kFuseExperts,  // ERNIE: stacks a part of the list for each target and joins
  kUnsupported,  // needs a config or the model itself
};

struct OperationRow {
  OperationKind kind;
  absl::string_view name;  // as Transformers spells it
  std::int32_t dim0;
  std::int32_t dim1;
};

enum class TransformKind : std::uint8_t {
  kRename,
  kGroupRename,   // each source has its own target; the first one is a guard
  kOffsetRename,  // the captured number grows by `offset`
  kConvert,
  kUnsupported,  // a rename that patterns cannot spell
};

struct SourceRow {
  absl::string_view regex;  // see name_pattern.h
  std::int32_t index;       // its place in the transform's own list
};

struct TransformRow {
  TransformKind kind;
  absl::string_view name;
  absl::Span<const SourceRow> sources;  // in the order they are tried
  absl::Span<const absl::string_view> targets;
  absl::Span<const OperationRow> operations;
  std::int32_t offset;
};

// The transforms of a class or model type.
struct ConversionRow {
  absl::string_view id;
  absl::Span<const TransformRow> transforms;
};

struct TieRow {
  absl::string_view target;
  absl::string_view source;
};

// One PreTrainedModel class with what it adds itself.
struct ClassRow {
  absl::string_view name;
  absl::string_view model_type;
  absl::Span<const RuleRow> tensor_rules;
  absl::Span<const RuleRow> expert_rules;
  absl::Span<const TieRow> ties;
};

// A PreTrainedModel inside another, or that one itself at path "". Those that
// add nothing have no row.
struct SubmodelRow {
  absl::string_view path;
  std::int32_t class_index;
  bool plan_reaches;  // its rules become part of the whole model's
};

enum class SlotKind : std::uint8_t { kBaseModel, kCausalModel };

// A submodel whose class follows from the model type of a nested config.
struct SlotRow {
  absl::string_view path;
  absl::string_view config_field;
  absl::string_view model_type;  // by default
  SlotKind kind;
  bool plan_reaches;  // as of a submodel
};

// One model and what is in it.
struct ModelRow {
  absl::string_view name;  // architecture, or model type of a base model
  absl::string_view base_prefix;
  absl::Span<const absl::string_view> model_types;
  absl::Span<const absl::string_view> children;       // modules and tensors
  absl::Span<const absl::string_view> base_children;  // under `base_prefix`
  absl::Span<const absl::string_view> ignored;        // regexes
  absl::Span<const SubmodelRow> submodels;
  absl::Span<const SlotRow> slots;
};

struct ModelTypeRow {
  absl::string_view model_type;
  absl::string_view architecture;
};

struct ParallelPlanTable {
  absl::string_view transformers_version;
  absl::Span<const ClassRow> classes;
  absl::Span<const ConversionRow> conversions;   // sorted by id
  absl::Span<const ModelRow> architectures;      // sorted by name
  absl::Span<const ModelRow> base_models;        // sorted by name
  absl::Span<const ModelTypeRow> model_types;    // sorted; image-text first
  absl::Span<const ModelTypeRow> causal_models;  // sorted; text-generation
};

const ParallelPlanTable& parallel_plan_table();

}  // namespace trnscout
