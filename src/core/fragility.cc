#include "trnscout/fragility.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "bfloat16_step.h"
#include "logit_rows.h"

namespace trnscout {
namespace {

// The two highest; the lower id first among equals.
struct TopTwo {
  std::int64_t first = -1;
  std::int64_t second = -1;
};

TopTwo top_two(absl::Span<const float> row) {
  TopTwo top;
  const auto at = [row](std::int64_t i) {
    return i < 0 ? -std::numeric_limits<float>::infinity()
                 : row[static_cast<std::size_t>(i)];
  };
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(row.size()); ++i) {
    if (at(i) > at(top.first)) {
      top.second = std::exchange(top.first, i);
    } else if (at(i) > at(top.second)) {
      top.second = i;
    }
  }
  return top;
}

FragilePosition judge(absl::Span<const float> row, std::int64_t position,
                      TopTwo top, double noise_scale) {
  const double first = row[static_cast<std::size_t>(top.first)];
  const double second = row[static_cast<std::size_t>(top.second)];
  const double half_first = bfloat16_step(first) / 2;
  const double half_second = bfloat16_step(second) / 2;
  const double deviation =
      noise_scale *
      std::sqrt((half_first * half_first + half_second * half_second) / 3);
  FragilePosition out{.position = position,
                      .token = top.first,
                      .runner_up = top.second,
                      .margin = first - second,
                      .rounding = half_first + half_second};
  // Two zeros have no rounding and no margin, and still nothing between them.
  out.flip_probability =
      out.margin == 0 ? 0.5
                      : std::erfc(out.margin / deviation / std::sqrt(2.0)) / 2;
  return out;
}

absl::Status check_options(const LogitView& view,
                           const FragilityOptions& options) {
  if (absl::Status status = check_logit_view(view, "reference"); !status.ok()) {
    return status;
  }
  if (view.vocab < 2) {
    return absl::InvalidArgumentError(
        "reference: vocabulary is 1, a margin needs at least 2 tokens");
  }
  if (!(options.noise_scale > 0) || !std::isfinite(options.noise_scale)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("noise_scale is %g, must be a positive finite number",
                        options.noise_scale));
  }
  if (options.most_fragile < 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "most_fragile is %d, must not be negative", options.most_fragile));
  }
  return absl::OkStatus();
}

void add(const FragilePosition& at, Fragility& out) {
  if (out.positions == 0 || at.margin < out.smallest_margin) {
    out.smallest_margin = at.margin;
    out.smallest_margin_position = at.position;
  }
  ++out.positions;
  out.within_rounding += at.margin <= at.rounding;
  out.expected_flips += at.flip_probability;
}

}  // namespace

absl::StatusOr<Fragility> fragility(const LogitView& reference,
                                    const FragilityOptions& options) {
  if (absl::Status status = check_options(reference, options); !status.ok()) {
    return status;
  }
  const auto found =
      find_non_finite(reference, "reference", NegativeInfinity::kMasked);
  if (found->has_value()) {
    return absl::InvalidArgumentError(non_finite_text(**found));
  }
  Fragility out;
  LogitRow rows(reference);
  std::vector<FragilePosition> all;
  double log_none = 0;  // of the probability that no token flips
  for (std::int64_t i = 0; i < reference.positions; ++i) {
    const absl::Span<const float> row = rows.at(i);
    const TopTwo top = top_two(row);
    if (top.second < 0) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "reference: position %d has one token that is not masked, a margin "
          "needs at least 2",
          i));
    }
    all.push_back(judge(row, i, top, options.noise_scale));
    add(all.back(), out);
    log_none += std::log1p(-all.back().flip_probability);
  }
  out.any_flip_probability = -std::expm1(log_none);
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::pair(-a.flip_probability, a.margin) <
           std::pair(-b.flip_probability, b.margin);
  });
  all.resize(
      std::min(all.size(), static_cast<std::size_t>(options.most_fragile)));
  out.most_fragile = std::move(all);
  return out;
}

}  // namespace trnscout
