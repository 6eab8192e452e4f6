#include "trnscout/diagnosis.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace trnscout {
namespace {

absl::Status check_positive(const std::optional<std::int64_t>& value,
                            absl::string_view name) {
  if (!value.has_value() || *value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s is %d, must be at least 1", name, *value));
}

absl::Status check(const MismatchFacts& facts) {
  if (facts.prompt_tokens < 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "prompt_tokens is %d, must not be negative", facts.prompt_tokens));
  }
  for (const absl::Status& status : {check_positive(facts.vocab, "vocab"),
                                     check_positive(facts.window, "window")}) {
    if (!status.ok()) return status;
  }
  for (const ModuleError& one : facts.modules) {
    if (!(one.bound > 0)) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s: bound is %g, must be positive", one.module, one.bound));
    }
    if (one.error < 0) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s: error is %g, must not be negative", one.module, one.error));
    }
  }
  return absl::OkStatus();
}

// NaN is past every bound.
const ModuleError* first_past_bound(const MismatchFacts& facts) {
  for (const ModuleError& one : facts.modules) {
    if (!(one.error <= one.bound)) return &one;
  }
  return nullptr;
}

std::string padded_vocabulary(const MismatchFacts& facts) {
  const std::optional<std::int64_t> ours = facts.tokens.first_difference->ours;
  if (!facts.vocab.has_value() || !ours.has_value() || *ours < *facts.vocab) {
    return "";
  }
  return absl::StrFormat(
      "ours is token %d and the vocabulary has %d: a padded row of the output "
      "head won, its logits must be cut off or masked",
      *ours, *facts.vocab);
}

bool is_eos(const MismatchFacts& facts, std::optional<std::int64_t> token) {
  return token.has_value() &&
         std::find(facts.eos_tokens.begin(), facts.eos_tokens.end(), *token) !=
             facts.eos_tokens.end();
}

// One side stopped; `last_shared` is the token that stopped it, if any did.
std::string eos_ignored(const MismatchFacts& facts,
                        std::optional<std::int64_t> last_shared) {
  const TokenDifference& at = *facts.tokens.first_difference;
  const bool one_ended = at.ours.has_value() != at.theirs.has_value();
  // Where a side leaves the end-of-text token out, the other one shows it.
  const std::optional<std::int64_t> extra = at.ours ? at.ours : at.theirs;
  if (!one_ended || !(is_eos(facts, extra) || is_eos(facts, last_shared))) {
    return "";
  }
  return absl::StrFormat(
      "%s goes on at position %d where the other ended at an end-of-text "
      "token: the two do not stop at the same tokens",
      at.ours.has_value() ? "ours" : "theirs", at.position);
}

std::string sharding(const MismatchFacts& facts) {
  if (facts.sharded != Answer::kYes || facts.one_core_matches != Answer::kYes) {
    return "";
  }
  return "one core gives the reference's tokens and several do not: the "
         "division over cores is wrong";
}

std::string prefill(const MismatchFacts& facts) {
  if (facts.prefill_logits_match == Answer::kNo) {
    return "logits of the prompt differ from the reference's: prefill is wrong";
  }
  if (facts.tokens.first_difference->position > 0 ||
      facts.prefill_logits_match == Answer::kYes) {
    return "";
  }
  return "the first token differs: prefill is wrong";
}

std::string sliding_cache(const MismatchFacts& facts) {
  const std::int64_t position = facts.tokens.first_difference->position;
  if (!facts.window.has_value() || position == 0 ||
      facts.prompt_tokens > *facts.window ||
      facts.prompt_tokens + position <= *facts.window) {
    return "";
  }
  return absl::StrFormat(
      "tokens are right while the window of %d holds everything and differ at "
      "position %d, after %d tokens: the sliding cache drops or places them "
      "wrongly",
      *facts.window, position, facts.prompt_tokens + position);
}

std::string decode_or_cache(const MismatchFacts& facts) {
  const std::int64_t position = facts.tokens.first_difference->position;
  if (position == 0) {
    return "logits of the prompt are right and the first token differs: "
           "choosing the token, not the model, is wrong";
  }
  return absl::StrFormat(
      "tokens are right up to position %d and differ then: a decode step or "
      "the cache is wrong",
      position);
}

Diagnosis likely_cause(const MismatchFacts& facts) {
  if (facts.non_finite.has_value()) {
    return {MismatchCause::kNotFinite, facts.non_finite->module,
            non_finite_text(*facts.non_finite)};
  }
  if (facts.tokens.equal()) {
    return {MismatchCause::kNone, std::nullopt, "tokens are equal"};
  }
  const std::pair<MismatchCause, std::string> rules[] = {
      {MismatchCause::kPaddedVocabulary, padded_vocabulary(facts)},
      {MismatchCause::kEosIgnored,
       eos_ignored(facts, facts.tokens.last_shared_token)},
      {MismatchCause::kSharding, sharding(facts)},
      {MismatchCause::kPrefill, prefill(facts)},
      {MismatchCause::kSlidingCache, sliding_cache(facts)}};
  for (const auto& [cause, sentence] : rules) {
    if (!sentence.empty()) return {cause, std::nullopt, sentence};
  }
  return {MismatchCause::kDecodeOrCache, std::nullopt, decode_or_cache(facts)};
}

}  // namespace

absl::string_view mismatch_cause_name(MismatchCause cause) {
  constexpr absl::string_view kNames[] = {
      "none",     "not_finite", "padded_vocabulary", "eos_ignored",
      "sharding", "prefill",    "sliding_cache",     "decode_or_cache"};
  return kNames[static_cast<std::size_t>(cause)];
}

absl::StatusOr<Diagnosis> diagnose(const MismatchFacts& facts) {
  if (absl::Status status = check(facts); !status.ok()) return status;
  Diagnosis out = likely_cause(facts);
  const ModuleError* const past = first_past_bound(facts);
  if (past == nullptr || out.module.has_value()) return out;
  out.module = past->module;
  absl::StrAppendFormat(&out.sentence,
                        "; %s is the first past its bound: %g, %g allowed",
                        past->module, past->error, past->bound);
  return out;
}

}  // namespace trnscout
