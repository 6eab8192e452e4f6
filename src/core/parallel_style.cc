#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "printable.h"
#include "trnscout/parallel_plan.h"

namespace trnscout {
namespace {

using Style = ParallelStyle;

constexpr std::array<std::pair<absl::string_view, Style>, 19> kNames = {{
    {"replicate", Style::kReplicate},
    {"colwise", Style::kColwise},
    {"colwise_gather_output", Style::kColwiseGatherOutput},
    {"rowwise", Style::kRowwise},
    {"rowwise_split_input", Style::kRowwiseSplitInput},
    {"packed_colwise", Style::kPackedColwise},
    {"packed_rowwise", Style::kPackedRowwise},
    {"embedding_rowwise", Style::kEmbeddingRowwise},
    {"embedding_colwise", Style::kEmbeddingColwise},
    {"sequence_parallel", Style::kSequenceParallel},
    {"replicated_with_grad_allreduce", Style::kReplicatedWithGradAllreduce},
    {"mla_kv_a_proj", Style::kMlaKvAProj},
    {"all_reduce", Style::kAllReduce},
    {"moe_tp_experts", Style::kMoeTpExperts},
    {"moe_identity_expert", Style::kMoeIdentityExpert},
    {"local_params", Style::kLocalParams},
    {"grouped_gemm", Style::kGroupedGemm},
    {"ep_dispatch_experts", Style::kEpDispatchExperts},
    {"ep_router", Style::kEpRouter},
}};

// Other versions' names for layouts that 5.24 has.
constexpr std::array<std::pair<absl::string_view, Style>, 22> kAliases = {{
    // 4.5x, and still known
    {"colwise_rep", Style::kColwiseGatherOutput},
    {"rowwise_rep", Style::kRowwiseSplitInput},
    {"local_colwise", Style::kColwise},
    {"local_rowwise", Style::kRowwise},
    {"local_packed_colwise", Style::kPackedColwise},
    {"local_packed_rowwise", Style::kPackedRowwise},
    {"local", Style::kLocalParams},
    {"gather", Style::kAllReduce},
    // mid 2026
    {"colwise_allgather", Style::kColwiseGatherOutput},
    {"colwise_loss_parallel", Style::kColwise},
    {"rowwise_allreduce", Style::kRowwise},
    {"rowwise_reduce_scatter", Style::kRowwise},
    {"vocab_allreduce", Style::kEmbeddingRowwise},
    {"vocab_reduce_scatter", Style::kEmbeddingRowwise},
    {"moe_tp_gate_up_colwise", Style::kPackedColwise},
    {"moe_tp_down_rowwise", Style::kRowwise},
    {"moe_experts_allreduce", Style::kMoeTpExperts},
    {"module_allgather", Style::kSequenceParallel},
    {"module_allgather_split", Style::kSequenceParallel},
    {"replicated", Style::kReplicate},
    // 5.2 to 5.20
    {"megamoe_router", Style::kEpRouter},
    {"megamoe_experts", Style::kEpDispatchExperts},
}};

// What a style does to the numbers of one parameter.
struct Cut {
  int dimension_from_end = 0;  // 0: whole; 1: the last dimension
  int dimension = -1;          // from the front, where that is how it counts
  bool halves = false;
};

Cut cut_of(Style style, ParameterRole role, std::size_t rank_of_shape) {
  const bool vector = rank_of_shape == 1;
  switch (style) {
    case Style::kColwise:
    case Style::kColwiseGatherOutput:
      return {.dimension_from_end = vector ? 1 : 2};
    case Style::kRowwise:
    case Style::kRowwiseSplitInput:
      if (role == ParameterRole::kBias) return {};
      return {.dimension_from_end = 1};
    case Style::kPackedColwise:
      return {.dimension_from_end = vector ? 1 : 2, .halves = !vector};
    case Style::kPackedRowwise:
      if (vector) return {};
      return {.dimension_from_end = 1, .halves = true};
    case Style::kEmbeddingRowwise:
    case Style::kGroupedGemm:
      return {.dimension = 0};
    case Style::kEmbeddingColwise:
      return {.dimension = 1};
    default:
      return {};
  }
}

// Appends the ceil chunk of [begin, begin + size) that `at` holds.
void append_chunk(std::int64_t begin, std::int64_t size, ParallelRank at,
                  DimensionSlice& out) {
  if (size == 0) return;
  const std::int64_t chunk = size / at.degree + (size % at.degree == 0 ? 0 : 1);
  // Sums are kept below `size`, which may be the largest there is.
  if (at.rank > (size - 1) / chunk) return;
  const std::int64_t from = chunk * at.rank;
  const std::int64_t to = from + std::min(chunk, size - from);
  out.push_back({begin + from, begin + to});
}

absl::Status check(absl::Span<const std::int64_t> shape, ParallelRank at) {
  if (at.degree < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("degree ", at.degree, " is not positive"));
  }
  if (at.rank < 0 || at.rank >= at.degree) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", at.rank, " is not below the degree ", at.degree));
  }
  for (const std::int64_t size : shape) {
    if (size < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("a dimension of ", size, " elements"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view parallel_style_name(ParallelStyle style) {
  return kNames[static_cast<std::size_t>(style)].first;
}

absl::StatusOr<ParallelStyle> parse_parallel_style(absl::string_view name) {
  for (const auto& [known, style] : kNames) {
    if (known == name) return style;
  }
  for (const auto& [known, style] : kAliases) {
    if (known == name) return style;
  }
  return absl::NotFoundError(
      absl::StrCat("no parallel style is called ", printable(name)));
}

std::vector<std::int64_t> ParameterShard::shape() const {
  std::vector<std::int64_t> out;
  out.reserve(dimensions.size());
  for (const DimensionSlice& slice : dimensions) {
    std::int64_t size = 0;
    for (const IndexRange& range : slice) size += range.size();
    out.push_back(size);
  }
  if (!out.empty()) out.front() += padding_rows;
  return out;
}

ParameterRole parameter_role(absl::string_view parameter_name) {
  const std::size_t dot = parameter_name.rfind('.');
  const absl::string_view own = dot == absl::string_view::npos
                                    ? parameter_name
                                    : parameter_name.substr(dot + 1);
  return own == "bias" ? ParameterRole::kBias : ParameterRole::kWeight;
}

absl::StatusOr<ParameterShard> shard_of(ParallelStyle style,
                                        absl::Span<const std::int64_t> shape,
                                        ParameterRole role, ParallelRank at) {
  if (absl::Status status = check(shape, at); !status.ok()) return status;
  const Cut cut = cut_of(style, role, shape.size());
  const auto rank_of_shape = static_cast<int>(shape.size());
  const bool whole = cut.dimension < 0 && cut.dimension_from_end == 0;
  const int dimension = cut.dimension >= 0
                            ? cut.dimension
                            : rank_of_shape - cut.dimension_from_end;
  if (!whole && (dimension < 0 || dimension >= rank_of_shape)) {
    return absl::InvalidArgumentError(
        absl::StrCat(parallel_style_name(style), " cannot cut a tensor of ",
                     counted(shape.size(), "dimension")));
  }
  ParameterShard out;
  for (int i = 0; i < rank_of_shape; ++i) {
    const std::int64_t size = shape[static_cast<std::size_t>(i)];
    DimensionSlice& slice = out.dimensions.emplace_back();
    if (whole || i != dimension) {
      append_chunk(0, size, {}, slice);
    } else if (cut.halves) {
      const std::int64_t half = size / 2 + size % 2;
      append_chunk(0, half, at, slice);
      append_chunk(half, size - half, at, slice);
    } else if (style == Style::kGroupedGemm && size % at.degree != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(counted(static_cast<std::size_t>(size), "expert"),
                       " cannot be split evenly over ",
                       counted(static_cast<std::size_t>(at.degree), "rank")));
    } else {
      append_chunk(0, size, at, slice);
    }
  }
  return out;
}

}  // namespace trnscout
