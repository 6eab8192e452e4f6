#include "weight_layout.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace trnscout {
namespace {

// Whether `name` has one of `parts` and lies outside the vision tower.
bool is_text_part(absl::string_view name,
                  std::initializer_list<absl::string_view> parts) {
  if (absl::StrContains(name, "vision") || absl::StrContains(name, "visual")) {
    return false;
  }
  return std::any_of(
      parts.begin(), parts.end(),
      [name](absl::string_view part) { return absl::StrContains(name, part); });
}

bool is_kv_projection(absl::string_view name) {
  return is_text_part(name, {".k_proj.", ".v_proj.", ".key.", ".value.",
                             ".key_proj.", ".value_proj.", ".kv_proj."});
}

// Fused projections keep the cache of the heads they compute, too.
bool is_fused_qkv(absl::string_view name) {
  return is_text_part(
      name, {".qkv_proj.", ".query_key_value.", ".c_attn.", ".Wqkv.", ".qkv."});
}

bool in_numbered_layer(absl::string_view name) {
  return absl::c_any_of(absl::StrSplit(name, '.'), [](absl::string_view part) {
    return !part.empty() &&
           part.find_first_not_of("0123456789") == absl::string_view::npos;
  });
}

bool is_packed(ParallelStyle style) {
  return style == ParallelStyle::kPackedColwise ||
         style == ParallelStyle::kPackedRowwise;
}

std::int64_t elements_of(absl::Span<const std::int64_t> shape) {
  std::int64_t out = 1;
  for (const std::int64_t length : shape) out *= length;
  return out;
}

// Ends of the row ranges that ranks cut on their own.
struct RowPart {
  std::int64_t rows = 0;
  std::int32_t degree = 1;
};

// The rows of a fused weight, part by part; empty where `shape` is none that
// the option splits. Phi-3 and its kin join queries, keys and values, and gate
// and up, along the rows. Their plans gather the output, which tells them from
// weights whose heads are interleaved.
std::vector<RowPart> fused_parts(const WeightLayout& layout,
                                 absl::string_view name,
                                 absl::Span<const std::int64_t> shape) {
  if (layout.what_if.fused == FusedLayout::kTransformers) return {};
  if (shape.empty() || shape.size() > 2) return {};
  const auto found = layout.plan.style_of(name, layout.mode);
  if (!found || found->style != ParallelStyle::kColwiseGatherOutput) return {};
  const ModelConfig& config = layout.config;
  const std::int64_t q = config.q_heads * config.head_dim;
  const std::int64_t kv = config.kv_heads * config.head_dim;
  if (is_text_part(name, {".qkv_proj."}) && shape.front() == q + 2 * kv) {
    return {{q, layout.degree}, {kv, layout.kv_degree}, {kv, layout.kv_degree}};
  }
  if (is_text_part(name, {".gate_up_proj."}) && shape.front() % 2 == 0) {
    return {{shape.front() / 2, layout.degree},
            {shape.front() / 2, layout.degree}};
  }
  return {};
}

// The input embedding and the output head, whatever they are called: what has a
// row for each token and stands outside the layers.
bool pads_rows(const WeightLayout& layout, absl::string_view name,
               absl::Span<const std::int64_t> shape) {
  return layout.what_if.vocab == VocabLayout::kPadded && layout.degree > 1 &&
         layout.mode != ParallelMode::kExpert && !shape.empty() &&
         shape.size() <= 2 && shape.front() == layout.config.vocab &&
         !in_numbered_layer(name);
}

// The place of `rank` among `degree` parts, neighbours sharing one where there
// are more ranks.
ParallelRank place_of(std::int32_t rank, std::int32_t degree,
                      std::int32_t ranks) {
  const std::int64_t part = std::int64_t{rank} * degree / ranks;
  return {static_cast<std::int32_t>(part), degree};
}

absl::StatusOr<DimensionSlice> chunk_of(std::int64_t size, ParallelRank at) {
  auto cut =
      shard_of(ParallelStyle::kColwise, {size}, ParameterRole::kWeight, at);
  if (!cut.ok()) return cut.status();
  return std::move(cut->dimensions.front());
}

absl::StatusOr<ParameterShard> shard_of_parts(
    const WeightLayout& layout, const std::vector<RowPart>& parts,
    absl::Span<const std::int64_t> shape, std::int32_t rank) {
  auto out = shard_of(ParallelStyle::kReplicate, shape, ParameterRole::kWeight,
                      {.rank = 0, .degree = 1});
  if (!out.ok()) return out.status();
  DimensionSlice& rows = out->dimensions.front();
  rows.clear();
  std::int64_t begin = 0;
  for (const RowPart& part : parts) {
    const auto own =
        chunk_of(part.rows, place_of(rank, part.degree, layout.degree));
    if (!own.ok()) return own.status();
    for (const IndexRange& range : *own) {
      rows.push_back({begin + range.begin, begin + range.end});
    }
    begin += part.rows;
  }
  return out;
}

absl::StatusOr<ParameterShard> shard_of_vocab(
    const WeightLayout& layout, absl::Span<const std::int64_t> shape,
    std::int32_t rank) {
  const std::int64_t vocab = shape.front();
  auto out = shard_of_parts(layout, {{vocab, layout.degree}}, shape, rank);
  if (!out.ok()) return out;
  const std::int64_t held = out->shape().front();
  out->padding_rows =
      vocab / layout.degree + (vocab % layout.degree == 0 ? 0 : 1) - held;
  return out;
}

// Why a rank has no range of a packed weight; empty if each has one.
std::string empty_packed_shard(const WeightLayout& layout,
                               const WeightGroup& group) {
  const auto found = layout.plan.style_of(group.name, layout.mode);
  if (!found || !is_packed(found->style) || group.shape.size() < 2) return "";
  const std::size_t dimension =
      group.shape.size() -
      (found->style == ParallelStyle::kPackedColwise ? 2 : 1);
  const std::int32_t last = layout.degree - 1;
  const auto shard = layout.shard(group.name, group.shape, last);
  if (!shard.ok() || !shard->dimensions[dimension].empty()) return "";
  const std::int64_t half = (group.shape[dimension] + 1) / 2;
  return absl::StrFormat(
      "rank %d of %d would hold nothing of %s, two halves of %d in chunks of "
      "%d; Transformers %s fails to load a packed weight there",
      last, layout.degree, group.name, half,
      (half + layout.degree - 1) / layout.degree, transformers_version());
}

std::string replicate_note(const WeightLayout& layout) {
  const std::int32_t copies = layout.degree / layout.kv_degree;
  return absl::StrCat(
      "what-if replicate-kv: ",
      copies > 1
          ? absl::StrFormat("each of the %d KV heads is on %d ranks; "
                            "unmodified Transformers fails at this degree",
                            layout.config.kv_heads, copies)
          : absl::StrFormat("changes nothing at tp_degree %d", layout.degree));
}

std::string pad_note(const WeightLayout& layout,
                     absl::Span<const WeightGroup> groups) {
  const std::int64_t vocab = layout.config.vocab;
  const std::int64_t short_by =
      vocab % layout.degree == 0 ? 0 : layout.degree - vocab % layout.degree;
  std::int64_t weights = 0;
  std::int64_t bytes = 0;
  for (const WeightGroup& group : groups) {
    if (!pads_rows(layout, group.name, group.shape)) continue;
    weights += group.count;
    bytes += group.count * (group.bytes / vocab * short_by);
  }
  if (weights == 0 || short_by == 0) {
    return absl::StrFormat(
        "what-if pad-vocab: adds no row to %d at tp_degree %d", vocab,
        layout.degree);
  }
  return absl::StrFormat(
      "what-if pad-vocab: %d rows of zeros make %d out of the %d rows of each "
      "of "
      "%d weights, %d bytes over all ranks; gathered logits lose the padded "
      "columns before argmax",
      short_by, vocab + short_by, vocab, weights, bytes);
}

std::string split_note(const WeightLayout& layout,
                       absl::Span<const WeightGroup> groups) {
  std::int64_t weights = 0;
  for (const WeightGroup& group : groups) {
    if (fused_parts(layout, group.name, group.shape).empty()) continue;
    weights += group.count;
  }
  if (weights == 0 || layout.degree == 1) {
    return absl::StrFormat(
        "what-if split-fused-qkv: changes nothing at tp_degree %d",
        layout.degree);
  }
  return absl::StrFormat(
      "what-if split-fused-qkv: %d fused weights are divided part by part; "
      "unmodified Transformers cuts each like one and gathers its output",
      weights);
}

}  // namespace

absl::StatusOr<ParameterShard> WeightLayout::shard(
    absl::string_view name, absl::Span<const std::int64_t> shape,
    std::int32_t rank) const {
  const ParameterRole role = parameter_role(name);
  const auto found =
      degree > 1 ? plan.style_of(name, mode) : std::optional<ParameterStyle>();
  if (pads_rows(*this, name, shape)) return shard_of_vocab(*this, shape, rank);
  if (!found.has_value()) {
    return shard_of(ParallelStyle::kReplicate, shape, role, {});
  }
  const auto parts = fused_parts(*this, name, shape);
  if (!parts.empty()) return shard_of_parts(*this, parts, shape, rank);
  const std::int32_t cut = is_kv_projection(name) ? kv_degree : degree;
  return shard_of(found->style, shape, role, place_of(rank, cut, degree));
}

bool WeightLayout::cuts_kv_heads(absl::Span<const WeightGroup> groups) const {
  return absl::c_any_of(groups, [this](const WeightGroup& group) {
    if (!is_kv_projection(group.name) && !is_fused_qkv(group.name)) {
      return false;
    }
    if (!fused_parts(*this, group.name, group.shape).empty()) return true;
    const auto found = plan.style_of(group.name, mode);
    return found.has_value() && (found->style == ParallelStyle::kColwise ||
                                 found->style == ParallelStyle::kPackedColwise);
  });
}

std::string WeightLayout::loading_problem(
    absl::Span<const WeightGroup> groups) const {
  if (degree == 1) return "";
  for (const WeightGroup& group : groups) {
    if (group.tensors != 1) continue;
    std::string problem = empty_packed_shard(*this, group);
    if (!problem.empty()) return problem;
  }
  return "";
}

std::vector<std::string> WeightLayout::notes(
    absl::Span<const WeightGroup> groups) const {
  std::vector<std::string> out;
  if (what_if.kv_heads == KvHeadLayout::kReplicated) {
    out.push_back(replicate_note(*this));
  }
  if (what_if.vocab == VocabLayout::kPadded) {
    out.push_back(pad_note(*this, groups));
  }
  if (what_if.fused == FusedLayout::kSplit) {
    out.push_back(split_note(*this, groups));
  }
  return out;
}

std::int64_t bytes_of_shard(const ParameterShard& shard,
                            absl::Span<const std::int64_t> shape,
                            std::int64_t bytes) {
  const std::int64_t whole = elements_of(shape);
  return whole > 0 ? bytes / whole * elements_of(shard.shape()) : bytes;
}

absl::StatusOr<RankWeights> weights_of_largest_rank(
    const WeightLayout& layout, absl::Span<const WeightGroup> groups) {
  RankWeights out;
  for (const WeightGroup& group : groups) {
    const auto shard = layout.shard(group.name, group.shape, 0);
    if (!shard.ok()) return shard.status();
    const bool sharded = absl::MakeConstSpan(shard->shape()) != group.shape;
    std::int64_t held = bytes_of_shard(*shard, group.shape, group.bytes);
    std::int64_t& sum = sharded ? out.sharded_bytes : out.replicated_bytes;
    if (__builtin_mul_overflow(held, group.count, &held) ||
        __builtin_add_overflow(sum, held, &sum)) {
      return absl::OutOfRangeError(
          absl::StrCat("parameter ", group.name, ": its bytes pass 2^63 - 1"));
    }
    out.unread_bytes += unread_of(layout.config, group, held);
  }
  return out;
}

}  // namespace trnscout
