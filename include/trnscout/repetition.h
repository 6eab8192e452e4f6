#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace trnscout {

/// A stretch of tokens in which each is the one `period` before it.
struct TokenLoop {
  std::int64_t begin = 0;   ///< first token of the stretch
  std::int64_t tokens = 0;  ///< in it, the first time round included
  std::int64_t period = 0;

  /// Whole times round.
  std::int64_t repeats() const { return period == 0 ? 0 : tokens / period; }
};

struct RepetitionOptions {
  std::int64_t max_period = 64;  ///< longest period looked for
  std::int64_t min_repeats = 3;  ///< whole times round that make a loop
  std::int64_t min_tokens = 8;   ///< and as many tokens, or "...", is one
};

/// How far a generation goes round in circles.
struct Repetition {
  std::int64_t tokens = 0;
  /// Longest stretch anywhere that comes round at least twice; ties go to the
  /// shorter period, then the earlier one.
  std::optional<TokenLoop> longest;
  /// Stretch that lasts to the end, by the same rule: the generation is caught.
  std::optional<TokenLoop> tail;
  /// Different n-grams over n-grams, n = 1 to 4: 1 where none comes twice,
  /// at least 1 / (tokens - n + 1), and 0 where there is no n-gram.
  std::array<double, 4> distinct{};
  /// Whether `tail` is long enough to be called a loop. Small models loop on
  /// their own under greedy decoding: it is a fault only where the reference
  /// does not.
  bool loops = false;
};

/// Looks for repetition in a sequence of token ids.
///
/// Source: distinct-n after Li et al. 2016, A Diversity-Promoting Objective
/// Function for Neural Conversation Models, section 5.
/// Errors: InvalidArgument - `max_period` is below 1 or above 4096,
///         `min_repeats` below 2, `min_tokens` below 1.
///         OutOfRange - an id is negative.
/// Cost:   O(tokens * max_period).
absl::StatusOr<Repetition> repetition(absl::Span<const std::int64_t> tokens,
                                      const RepetitionOptions& options = {});

}  // namespace trnscout
