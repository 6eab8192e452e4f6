#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "trnscout/checkpoint.h"

namespace trnscout {

struct ModelConfig;

/// How Transformers lays out a module or parameter over the ranks.
enum class ParallelStyle : std::uint8_t {
  kReplicate,
  kColwise,
  kColwiseGatherOutput,
  kRowwise,
  kRowwiseSplitInput,
  kPackedColwise,
  kPackedRowwise,
  kEmbeddingRowwise,
  kEmbeddingColwise,
  kSequenceParallel,
  kReplicatedWithGradAllreduce,
  kMlaKvAProj,
  kAllReduce,
  kMoeTpExperts,
  kMoeIdentityExpert,
  kLocalParams,
  kGroupedGemm,
  kEpDispatchExperts,
  kEpRouter,
};

/// Spells a style as Transformers 5.24 does.
absl::string_view parallel_style_name(ParallelStyle style);

/// Reads a style in any vocabulary that Transformers has had: 4.5x
/// ("colwise_rep"), 5.0 to 5.24 ("colwise_gather_output") and the names of
/// mid 2026 ("colwise_allgather").
///
/// Errors: NotFound - no version has a style of that name.
absl::StatusOr<ParallelStyle> parse_parallel_style(absl::string_view name);

/// Half-open range of indices along one dimension, [begin, end).
struct IndexRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  constexpr std::int64_t size() const { return end - begin; }
  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

/// What one rank holds along one dimension: ranges in order, which are joined;
/// several of a fused weight, none where the rank holds nothing.
using DimensionSlice = std::vector<IndexRange>;

/// One rank's part of a parameter, a slice for each dimension.
struct ParameterShard {
  std::vector<DimensionSlice> dimensions;
  /// Zeros after the rows of the first dimension; only in what-if layouts.
  std::int64_t padding_rows = 0;
  std::vector<std::int64_t> shape() const;
  friend bool operator==(const ParameterShard&,
                         const ParameterShard&) = default;
};

/// Whether the parameter's own name, the last part of it, is `bias`.
enum class ParameterRole : std::uint8_t { kWeight, kBias };

ParameterRole parameter_role(absl::string_view parameter_name);

struct ParallelRank {
  std::int32_t rank = 0;
  std::int32_t degree = 1;
};

/// Cuts a parameter for one rank, as Transformers 5.24 does.
///
/// Chunks are ceil(size / degree) long, so the last ranks may hold less, or
/// nothing. Fused weights are halved first, and each half is cut.
///
/// Errors: InvalidArgument - `degree` is not positive, `rank` is not below it,
///         a size is negative, `shape` lacks the dimension that `style` cuts,
///         or `degree` does not divide the experts of `grouped_gemm`.
/// Source: huggingface/transformers 5.24: distributed/.
absl::StatusOr<ParameterShard> shard_of(ParallelStyle style,
                                        absl::Span<const std::int64_t> shape,
                                        ParameterRole role, ParallelRank at);

/// Module or parameter, with `*` for each number of a layer, and its style.
struct PlanRule {
  std::string pattern;
  ParallelStyle style = ParallelStyle::kReplicate;

  friend bool operator==(const PlanRule&, const PlanRule&) = default;
};

/// Which of its plans a model runs under.
enum class ParallelMode : std::uint8_t {
  kTensor,           ///< `tp_size` above 1
  kExpert,           ///< the expert plan alone
  kTensorAndExpert,  ///< both; a module with an expert rule has no other
};

/// Which degree cuts a parameter.
enum class ParallelAxis : std::uint8_t { kTensor, kExpert };

struct ParameterStyle {
  ParallelStyle style = ParallelStyle::kReplicate;
  ParallelAxis axis = ParallelAxis::kTensor;

  friend bool operator==(const ParameterStyle&,
                         const ParameterStyle&) = default;
};

/// The `model_type` of a nested config, where a file names another than the
/// architecture's default: {"text_config", "mistral"} for a Llava.
struct NestedModel {
  std::string config_field;
  std::string model_type;
};

/// A parameter as the model holds it once a checkpoint is loaded.
struct ParameterInfo {
  std::string name;
  std::string dtype;  ///< of the first of its tensors
  std::vector<std::int64_t> shape;
  std::vector<std::string> tensors;  ///< names in the checkpoint

  friend bool operator==(const ParameterInfo&, const ParameterInfo&) = default;
};

struct LoadedParameters {
  std::vector<ParameterInfo> parameters;  ///< sorted by name
  std::vector<std::string> left_out;      ///< tensors the model has no use for
};

/// Where Transformers puts the parameters of one architecture, from a table
/// made of the version that `transformers_version` names.
struct ParallelPlan {
  std::string architecture;
  std::string model_type;
  std::vector<PlanRule> tensor_rules;
  std::vector<PlanRule> expert_rules;
  /// (target, source): where the config ties them, `target` is `source`.
  std::vector<std::pair<std::string, std::string>> tied;
  /// Why there is no tensor-parallel plan; empty where there is one.
  std::string no_tensor_plan_reason;
  /// Why there is no expert-parallel plan; empty where there is one.
  std::string no_expert_plan_reason;
  /// Nested configs that may name another model, with their defaults.
  std::vector<NestedModel> nested;

  /// Looks a parameter up: its name with `*` for numbers, then its module's.
  /// Nothing where no rule is met, which leaves a whole copy on every rank.
  ///
  /// Cost: O(rules).
  std::optional<ParameterStyle> style_of(absl::string_view parameter_name,
                                         ParallelMode mode) const;

  /// Applies the renames and conversions of the load to the tensors of a
  /// checkpoint: experts are stacked, fused weights joined or cut.
  ///
  /// What the checkpoint lacks, such as a tied head, is not added. Tensors of
  /// quantised checkpoints pass as they are stored.
  ///
  /// Errors: InvalidArgument - tensors that a conversion joins do not fit each
  ///         other, one is lacking, or a name is too long.
  ///         Unimplemented - a tensor meets a conversion that needs more than
  ///         names and shapes, or sizes that `config` would give.
  ///         NotFound - `find_parallel_plan` finds no such architecture.
  /// Cost:   O(tensors + kinds of names * conversions).
  absl::StatusOr<LoadedParameters> parameters_of(
      absl::Span<const TensorInfo> tensors) const;
  absl::StatusOr<LoadedParameters> parameters_of(
      absl::Span<const TensorInfo> tensors, const ModelConfig& config) const;
};

/// The version of Transformers that the plans come from.
absl::string_view transformers_version();

/// Every architecture of text-generation and image-text-to-text, sorted.
std::vector<std::string> parallel_plan_architectures();

/// Finds the plan of an architecture ("LlamaForCausalLM") or a model type
/// ("llama"; the image-text-to-text architecture where it has both).
///
/// Errors: NotFound - no such architecture, model type or nested config in it.
absl::StatusOr<ParallelPlan> find_parallel_plan(
    absl::string_view architecture_or_model_type,
    absl::Span<const NestedModel> nested = {});

}  // namespace trnscout
