#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trnscout/logit_view.h"

namespace trnscout {

/// Level of a tolerance map that takes in the whole vocabulary.
inline constexpr std::int64_t kAllTokens =
    std::numeric_limits<std::int64_t>::max();

/// Bound for the tokens that the reference holds likeliest.
struct TopKTolerance {
  std::int64_t top_k = kAllTokens;  ///< the vocabulary's size where larger
  double relative = 0.05;
};

/// What becomes of a constant by which all our logits are off.
enum class LogitShift : std::uint8_t {
  kRemoved,  ///< before relative errors: softmax does not see it
  kKept,
};

/// Bounds of a comparison.
///
/// Source: aws-neuron/neuronx-distributed-inference: tolerance map and
/// divergence of its logit validation, as printed 2026-08; ties are our own.
struct LogitTolerances {
  std::vector<TopKTolerance> levels = {
      {5, 0.01}, {50, 0.02}, {1000, 0.03}, {kAllTokens, 0.05}};
  double absolute = 1e-5;     ///< taken off a difference before the division
  double divergence = 0.001;  ///< our lead over the reference's token
  double tie_sigmas = 3.0;    ///< a tie's swing, in deviations of the noise
  double tie_steps = 1.0;     ///< a tie's margin, in steps of bfloat16
  LogitShift shift = LogitShift::kRemoved;
};

/// How the two likeliest tokens at one position go together.
enum class TopToken : std::uint8_t {
  kSame,
  kTie,        ///< differ, explained by the noise of this position
  kTolerated,  ///< differ, our lead is below `divergence`, levels kept
  kFlipped,    ///< differ
};
absl::string_view top_token_name(TopToken top);

/// One position. With d = ours - reference over the tokens not masked in both.
struct PositionMatch {
  std::int64_t position = 0;
  std::int64_t our_token = 0;        ///< lowest id among the highest logits
  std::int64_t reference_token = 0;  ///< likewise
  TopToken top_token = TopToken::kSame;
  double max_abs = 0;                   ///< of d
  double rms = 0;                       ///< of d
  double kl = 0;                        ///< KL(reference || ours), nats
  double shift = 0;                     ///< constant part of d, see below
  std::vector<double> relative_errors;  ///< one a level, ascending top_k
  bool within_levels = true;
  double reference_margin = 0;  ///< reference's first less its second logit
  // Where the tokens differ; a is the reference's token, b ours:
  double pair_margin = 0;  ///< reference[a] - reference[b]
  double divergence = 0;   ///< ours[b] - ours[a]
  double noise = 0;        ///< how far noise lets the two swing
  double tie_bound = 0;    ///< how large `pair_margin` may be in a tie
};

enum class LogitVerdict : std::uint8_t { kMatch, kTie, kMismatch, kNotFinite };
absl::string_view logit_verdict_name(LogitVerdict verdict);

/// A comparison of two runs over the same tokens.
struct LogitMatch {
  /// kMatch: same tokens, all within; kTie: the same but for ties and tolerated
  /// tokens; kNotFinite: stopped, `non_finite` says where.
  LogitVerdict verdict = LogitVerdict::kMatch;
  std::vector<TopKTolerance> levels;     ///< ascending top_k
  std::vector<PositionMatch> positions;  ///< up to where it stopped
  std::vector<std::int64_t> flips;       ///< positions, kFlipped
  std::vector<std::int64_t> ties;        ///< positions, kTie and kTolerated
  std::vector<double> relative_errors;   ///< highest of any position, by level
  double max_abs = 0;
  std::int64_t max_abs_position = 0;
  std::int64_t max_abs_token = 0;
  double rms = 0;                   ///< over every logit compared
  double kl_mean = 0;               ///< over positions
  double kl_max = 0;                ///< of a position
  double top1_agreement = 0;        ///< share of positions with kSame
  std::int64_t worst_position = 0;  ///< error in units of its level's bound
  std::int64_t worst_top_k = kAllTokens;
  double worst_ratio = 0;
  std::optional<NonFinite> non_finite;

  bool passes() const {
    return verdict == LogitVerdict::kMatch || verdict == LogitVerdict::kTie;
  }
};

/// Compares logits of two runs that were fed the same tokens, position by
/// position (teacher forcing: else an early flip makes all later ones differ).
///
/// Relative error of level k, T being the k tokens of highest reference logit
/// (lowest id first among equals):
///
///   max over T of (|d - shift| - absolute) / max over T of |reference|,
///
/// at least 0; infinite where the divisor is 0 and the dividend is not. The
/// divisor is one for all of T because single logits lie near 0 by accident,
/// where a division by each would call harmless differences large. `shift` is
/// the intercept of the least-squares line of our logits over the reference's
/// (the mean of d where the reference is constant): the field's definition. It
/// is no error, as softmax does not see it. Errors are not rounded.
///
/// Tie: where the likeliest tokens differ, all three must hold. (1) Every level
/// is kept, so a small margin excuses nothing where other logits are far off.
/// (2) `pair_margin` <= `tie_bound`, which is `tie_steps` times the bfloat16
/// step at the reference's highest logit: the hard bound, whatever the noise.
/// (3) `pair_margin` + `divergence`, the way the two logits moved towards and
/// past each other, <= `noise`. Noise is `tie_sigmas` * sqrt(2) * s, the spread
/// of a difference of two logits each off by s; s is 1.4826 times the median of
/// |d - median d| over the 1000 likeliest other tokens, whose size and so
/// rounding is alike. The pair itself is left out and a median does not follow
/// outliers: a fault in a few logits cannot pass for noise. Where ours is
/// stored in 16 bits, noise is at least one step of that type, which the last
/// rounding alone can cause. Fewer than 4 others measure nothing.
///
/// Masked: minus infinity on both sides is left out. NaN, plus infinity, minus
/// infinity on one side, or a row without a finite logit stop the comparison:
/// no token is named there.
///
/// Shapes: ours, reference [positions, vocab].
/// Errors: InvalidArgument - as `check_logit_view`; shapes differ; no level, a
///         top_k below 1 or given twice; a tolerance that is not a positive
///         finite number (`absolute` may be 0).
/// Threads: any; nothing is shared.
/// Cost:   each row is read from memory once; float32 rows are not copied.
///         KL is exact to about 1e-12 relative, or 1e-15 nats.
absl::StatusOr<LogitMatch> match_logits(const LogitView& ours,
                                        const LogitView& reference,
                                        const LogitTolerances& tolerances = {},
                                        absl::string_view module = "logits");

}  // namespace trnscout
