#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "trnscout/logit_view.h"

namespace trnscout {

/// One position of the reference, and how little would change its token.
struct FragilePosition {
  std::int64_t position = 0;
  std::int64_t token = 0;      ///< lowest id among the highest logits
  std::int64_t runner_up = 0;  ///< the token that would win instead
  double margin = 0;           ///< between their logits, never negative
  double rounding = 0;  ///< what one rounding of both to bfloat16 may close
  double flip_probability = 0;
};

struct FragilityOptions {
  /// Accumulated error of a logit, in roundings of it to bfloat16. 1 is the
  /// last rounding alone; a measured RMS says more (see `match_logits`).
  double noise_scale = 1.0;
  std::int64_t most_fragile = 5;  ///< how many positions to name
};

/// How easily a bfloat16 device leaves the reference's greedy path.
struct Fragility {
  std::int64_t positions = 0;
  double smallest_margin = 0;
  std::int64_t smallest_margin_position = 0;
  std::int64_t within_rounding = 0;  ///< positions with margin <= rounding
  double expected_flips = 0;
  double any_flip_probability = 0;
  std::vector<FragilePosition> most_fragile;  ///< likeliest flip first
};

/// Judges the margins between the reference's first and second logit against
/// the noise of bfloat16.
///
/// Model: bfloat16 has 8 significant bits, so a logit of size m in [2^e, 2^e+1)
/// moves by at most half a step, h = 2^(e-8), when it is rounded: between
/// m * 2^-9 and m * 2^-8. `rounding` is the sum of both logits' h: a smaller
/// margin may vanish in the last rounding alone. One rounding is taken as
/// uniform in [-h, h], so of deviation h / sqrt(3); what a whole network adds
/// up is taken as normal with `noise_scale` times that, independent between
/// tokens and positions. A flip then has probability
///
///   Q(margin / (noise_scale * sqrt((h1^2 + h2^2) / 3))),
///
/// 1/2 where the margin is 0. Third tokens are left out, so where several are
/// near the estimate is low. It is an estimate, never a measurement.
///
/// Shapes: reference [positions, vocab]; minus infinity masks a token.
/// Errors: InvalidArgument - as `check_logit_view`; `vocab` is below 2;
///         `noise_scale` is not a positive finite number; `most_fragile` is
///         negative; a value is NaN or infinite, or a row has fewer than two
///         tokens that are not masked.
absl::StatusOr<Fragility> fragility(const LogitView& reference,
                                    const FragilityOptions& options = {});

}  // namespace trnscout
