#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trnscout/logit_view.h"
#include "trnscout/token_match.h"

namespace trnscout {

/// An answer that somebody may not have looked for.
enum class Answer : std::uint8_t { kUnknown, kNo, kYes };

/// Error of one module's output beside the bound it should keep.
struct ModuleError {
  std::string module;
  double error = 0;
  double bound = 0;
};

/// What is known of a mismatch. Only what was looked at needs to be filled in.
struct MismatchFacts {
  TokenMatch tokens;
  std::optional<NonFinite> non_finite;
  std::int64_t prompt_tokens = 0;
  std::optional<std::int64_t> vocab;   ///< of the tokenizer, without padding
  std::optional<std::int64_t> window;  ///< of sliding attention, in tokens
  std::vector<std::int64_t> eos_tokens;
  Answer prefill_logits_match = Answer::kUnknown;
  Answer sharded = Answer::kUnknown;
  Answer one_core_matches = Answer::kUnknown;
  std::vector<ModuleError> modules;  ///< in the order of execution
};

/// Likely causes, the ones that explain most first.
enum class MismatchCause : std::uint8_t {
  kNone,              ///< tokens are equal
  kNotFinite,         ///< NaN or infinity in a module
  kPaddedVocabulary,  ///< a row of the output head that is padding won
  kEosIgnored,        ///< one side went on past an end-of-text token
  kSharding,          ///< one core is right, several are not
  kPrefill,           ///< wrong from the first token on
  kSlidingCache,      ///< right until the window was full
  kDecodeOrCache,     ///< prefill right, a later step wrong
};
absl::string_view mismatch_cause_name(MismatchCause cause);

struct Diagnosis {
  MismatchCause cause = MismatchCause::kNone;
  std::optional<std::string> module;  ///< first past its bound
  std::string sentence;
};

/// Names the likely cause of a mismatch from the facts at hand.
///
/// The first rule that fits is taken: not finite; our token is not below
/// `vocab`; ours goes on where theirs ended at an end-of-text token, or the
/// other way round; several cores are wrong where one is right; the first token
/// differs, or prefill logits do; steps within the window were right and the
/// first difference lies past it; anything later. A module past its bound is
/// named beside the cause, the first in order of execution: errors of later
/// ones follow from it.
///
/// The token at position p is chosen by a step that has read prompt_tokens + p
/// tokens. The window first drops one where that is above `window`.
///
/// Errors: InvalidArgument - a count or a window is not positive (prompt_tokens
///         may be 0); a module's error is negative or its bound is not
///         positive.
absl::StatusOr<Diagnosis> diagnose(const MismatchFacts& facts);

}  // namespace trnscout
