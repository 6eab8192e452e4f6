#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace trnscout {

/// First place where two sequences of tokens part.
struct TokenDifference {
  std::int64_t position = 0;           ///< counts new tokens from 0
  std::optional<std::int64_t> ours;    ///< none where ours had ended
  std::optional<std::int64_t> theirs;  ///< none where theirs had ended
};

/// Two greedy sequences beside each other.
struct TokenMatch {
  std::int64_t our_tokens = 0;
  std::int64_t their_tokens = 0;
  std::int64_t same_tokens = 0;  ///< before the first difference
  std::optional<TokenDifference> first_difference;
  std::optional<std::int64_t> last_shared_token;  ///< none where none is shared

  bool equal() const { return !first_difference.has_value(); }
};

/// Bounds on what is a token.
struct TokenBounds {
  /// Ids lie below it. Without one, padded rows of an output head can win and
  /// are left to `diagnose`.
  std::optional<std::int64_t> vocab;
};

/// Compares two sequences of token ids. An empty one is a sequence that ended
/// at once.
///
/// Errors: InvalidArgument - `vocab` is below 1.
///         OutOfRange - an id is negative or not below `vocab`.
absl::StatusOr<TokenMatch> match_tokens(absl::Span<const std::int64_t> ours,
                                        absl::Span<const std::int64_t> theirs,
                                        TokenBounds bounds = {});

/// Says the outcome in a sentence.
std::string token_match_text(const TokenMatch& match);

}  // namespace trnscout
