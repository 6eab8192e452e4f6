#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace trnscout {

struct DriftOptions {
  std::int64_t window = 16;  ///< positions whose median is taken
  double growth = 4.0;       ///< last over first window that is called drift
};

/// How an error moves with position.
struct Drift {
  std::int64_t window = 0;
  std::vector<double> medians;  ///< of each whole window, in order
  double slope = 0;             ///< per position
  double ratio = 1;             ///< last median over first
  bool grows = false;           ///< slope above 0 and ratio above `growth`
};

/// Describes the trend of one error for each position, for example `rms` of
/// `match_logits`.
///
/// Positions are cut into windows; a last one that is not whole is left out.
/// A window counts by its median, so single bad positions do not make a trend.
/// Slope is Theil and Sen's: the median of the slopes between all pairs of
/// windows, which up to 29 % of bad windows do not move. Ratio is the last
/// median over the first: 1 where both are 0, infinite where only the first is.
/// Under teacher forcing each position starts from the same tokens, so rounding
/// does not add up over positions beyond what the cache holds; an error that
/// grows several times over points at the cache or at positions.
///
/// Source: Sen 1968, Estimates of the Regression Coefficient Based on
/// Kendall's Tau.
/// Errors: InvalidArgument - `window` is below 1; fewer than two whole windows;
///         more than 1024 of them; `growth` is not a finite number above 1; an
///         error is negative or no number.
/// Cost:   O(positions + windows^2).
absl::StatusOr<Drift> drift(absl::Span<const double> errors,
                            const DriftOptions& options = {});

}  // namespace trnscout
