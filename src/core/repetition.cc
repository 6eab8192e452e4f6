#include "trnscout/repetition.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_format.h"

namespace trnscout {
namespace {

constexpr std::int64_t kLongestPeriod = 4096;

absl::Status check(absl::Span<const std::int64_t> tokens,
                   const RepetitionOptions& options) {
  if (options.max_period < 1 || options.max_period > kLongestPeriod) {
    return absl::InvalidArgumentError(
        absl::StrFormat("max_period is %d, must be from 1 to %d",
                        options.max_period, kLongestPeriod));
  }
  if (options.min_repeats < 2) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "min_repeats is %d, must be at least 2", options.min_repeats));
  }
  if (options.min_tokens < 1) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "min_tokens is %d, must be at least 1", options.min_tokens));
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0) {
      return absl::OutOfRangeError(absl::StrFormat(
          "token at position %d is %d, must not be negative", i, tokens[i]));
    }
  }
  return absl::OkStatus();
}

// Takes the stretch where it comes round twice and is the longest so far.
void offer(std::int64_t end, std::int64_t equal, std::int64_t period,
           std::optional<TokenLoop>& longest) {
  const std::int64_t tokens = equal + period;
  if (equal < period) return;
  if (longest.has_value() && tokens <= longest->tokens) return;
  longest =
      TokenLoop{.begin = end - tokens, .tokens = tokens, .period = period};
}

void find_loops(absl::Span<const std::int64_t> tokens, std::int64_t max_period,
                Repetition& out) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  for (std::int64_t period = 1; period <= max_period && period < count;
       ++period) {
    std::int64_t equal = 0;  // tokens in a row like the one a period before
    for (std::int64_t i = period; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (tokens[at] == tokens[at - static_cast<std::size_t>(period)]) {
        ++equal;
        continue;
      }
      offer(i, equal, period, out.longest);
      equal = 0;
    }
    offer(count, equal, period, out.longest);
    offer(count, equal, period, out.tail);
  }
}

double distinct(absl::Span<const std::int64_t> tokens, std::size_t n) {
  if (tokens.size() < n) return 0;
  absl::flat_hash_set<absl::Span<const std::int64_t>> seen;
  const std::size_t grams = tokens.size() - n + 1;
  for (std::size_t i = 0; i < grams; ++i) seen.insert(tokens.subspan(i, n));
  return static_cast<double>(seen.size()) / static_cast<double>(grams);
}

}  // namespace

absl::StatusOr<Repetition> repetition(absl::Span<const std::int64_t> tokens,
                                      const RepetitionOptions& options) {
  if (absl::Status status = check(tokens, options); !status.ok()) return status;
  Repetition out;
  out.tokens = static_cast<std::int64_t>(tokens.size());
  find_loops(tokens, options.max_period, out);
  for (std::size_t n = 1; n <= out.distinct.size(); ++n) {
    out.distinct[n - 1] = distinct(tokens, n);
  }
  out.loops = out.tail.has_value() &&
              out.tail->repeats() >= options.min_repeats &&
              out.tail->tokens >= options.min_tokens;
  return out;
}

}  // namespace trnscout
