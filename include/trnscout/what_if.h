#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace trnscout {

/// Where the key and value heads of a layer are.
enum class KvHeadLayout : std::uint8_t {
  kTransformers,  ///< each on one rank; the degree must divide them
  /// replicate-kv: past that, rank r of d holds head r * kv_heads / d, and the
  /// degree must be a multiple of them.
  kReplicated,
};

/// How the rows of the input embedding and of the output head are divided.
enum class VocabLayout : std::uint8_t {
  kTransformers,  ///< in ceil chunks, where the plan cuts them at all
  /// pad-vocab: rows of zeros make the vocabulary a multiple of the degree, so
  /// that all ranks hold as many; gathered logits lose the padded columns.
  kPadded,
};

/// How a weight is divided that joins several, where Transformers' plan cuts
/// it like one and then gathers its output on every rank.
enum class FusedLayout : std::uint8_t {
  kTransformers,
  /// split-fused-qkv: a rank has the queries, keys and values of its own heads,
  /// and its part of both the gate and the up half.
  kSplit,
};

/// Layouts that unmodified Transformers does not have, but other software for
/// these chips does. By default there is none of them.
///
/// Source: aws-neuron/neuronx-distributed-inference: gqa.py, 2026-07-28;
///         aws-neuron/aws-neuron-sdk: vllm-neuron/docs, 2026-08-21.
struct WhatIf {
  KvHeadLayout kv_heads = KvHeadLayout::kTransformers;
  VocabLayout vocab = VocabLayout::kTransformers;
  FusedLayout fused = FusedLayout::kTransformers;

  friend bool operator==(const WhatIf&, const WhatIf&) = default;
};

/// Every name that `parse_what_if` takes: "replicate-kv", "pad-vocab" and
/// "split-fused-qkv".
std::vector<std::string> what_if_names();

/// Combines layouts by their names, in any order; none is that of Transformers.
///
/// Errors: InvalidArgument - there is no layout of a name; the message lists
///         them.
absl::StatusOr<WhatIf> parse_what_if(absl::Span<const std::string> names);

}  // namespace trnscout
