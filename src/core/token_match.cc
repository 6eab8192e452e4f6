#include "trnscout/token_match.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace trnscout {
namespace {

absl::Status check_ids(absl::Span<const std::int64_t> ids, TokenBounds bounds,
                       absl::string_view side) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0) {
      return absl::OutOfRangeError(absl::StrFormat(
          "%s: token at position %d is %d, must not be negative", side, i,
          ids[i]));
    }
    if (bounds.vocab.has_value() && ids[i] >= *bounds.vocab) {
      return absl::OutOfRangeError(absl::StrFormat(
          "%s: token at position %d is %d, the vocabulary has %d", side, i,
          ids[i], *bounds.vocab));
    }
  }
  return absl::OkStatus();
}

std::string side_text(const std::optional<std::int64_t>& token) {
  return token.has_value() ? absl::StrFormat("token %d", *token)
                           : std::string("the end");
}

}  // namespace

absl::StatusOr<TokenMatch> match_tokens(absl::Span<const std::int64_t> ours,
                                        absl::Span<const std::int64_t> theirs,
                                        TokenBounds bounds) {
  if (bounds.vocab.has_value() && *bounds.vocab < 1) {
    return absl::InvalidArgumentError(
        absl::StrFormat("vocab is %d, must be at least 1", *bounds.vocab));
  }
  if (absl::Status status = check_ids(ours, bounds, "ours"); !status.ok()) {
    return status;
  }
  if (absl::Status status = check_ids(theirs, bounds, "theirs"); !status.ok()) {
    return status;
  }
  const std::size_t shared = std::min(ours.size(), theirs.size());
  std::size_t same = 0;
  while (same < shared && ours[same] == theirs[same]) ++same;
  TokenMatch match{.our_tokens = static_cast<std::int64_t>(ours.size()),
                   .their_tokens = static_cast<std::int64_t>(theirs.size()),
                   .same_tokens = static_cast<std::int64_t>(same),
                   .first_difference = std::nullopt,
                   .last_shared_token = std::nullopt};
  if (same > 0) match.last_shared_token = ours[same - 1];
  if (same == ours.size() && same == theirs.size()) return match;
  TokenDifference difference;
  difference.position = static_cast<std::int64_t>(same);
  if (same < ours.size()) difference.ours = ours[same];
  if (same < theirs.size()) difference.theirs = theirs[same];
  match.first_difference = difference;
  return match;
}

std::string token_match_text(const TokenMatch& match) {
  if (match.equal()) {
    return absl::StrFormat("all %d tokens are equal", match.our_tokens);
  }
  const TokenDifference& at = *match.first_difference;
  return absl::StrFormat(
      "tokens differ first at position %d: ours has %s, theirs %s", at.position,
      side_text(at.ours), side_text(at.theirs));
}

}  // namespace trnscout
