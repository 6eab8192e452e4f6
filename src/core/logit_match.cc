#include "trnscout/logit_match.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "bfloat16_step.h"
#include "logit_row.h"
#include "logit_rows.h"
#include "top_tokens.h"

namespace trnscout {
namespace {

// Tokens whose differences measure the noise of a position.
constexpr std::int64_t kNoiseTokens = 1000;
constexpr std::size_t kFewestNoiseTokens = 4;
// A normal distribution's deviation, in medians of absolute deviations.
constexpr double kSigmaOfMedian = 1.4826;

absl::Status check_positive(double value, absl::string_view name) {
  if (value > 0 && std::isfinite(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "tolerances: %s is %g, must be a positive finite number", name, value));
}

absl::Status check_levels(const std::vector<TopKTolerance>& levels) {
  if (levels.empty()) {
    return absl::InvalidArgumentError(
        "tolerances: there is no level, at least one is needed");
  }
  for (std::size_t i = 0; i < levels.size(); ++i) {
    if (levels[i].top_k < 1) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "tolerances: top_k is %d, must be at least 1", levels[i].top_k));
    }
    if (i > 0 && levels[i].top_k == levels[i - 1].top_k) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "tolerances: top_k %d is given twice", levels[i].top_k));
    }
    if (absl::Status status = check_positive(levels[i].relative, "relative");
        !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status check_tolerances(const LogitTolerances& tolerances) {
  if (!(tolerances.absolute >= 0) || !std::isfinite(tolerances.absolute)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "tolerances: absolute is %g, must be a finite number, 0 or more",
        tolerances.absolute));
  }
  const std::pair<double, absl::string_view> positive[] = {
      {tolerances.divergence, "divergence"},
      {tolerances.tie_sigmas, "tie_sigmas"},
      {tolerances.tie_steps, "tie_steps"}};
  for (const auto& [value, name] : positive) {
    if (absl::Status status = check_positive(value, name); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

// Intercept of the least-squares line of ours over the reference. Fitting d
// instead of ours changes the slope by one and the intercept not at all.
double intercept(const RowDifference& row, double count) {
  const double mean_d = row.sum_difference / count;
  const double mean_r = row.sum_reference / count;
  const double variance = row.sum_reference_squares / count - mean_r * mean_r;
  // Below this, the variance is the rounding of the two sums.
  if (variance <= 1e-13 * row.sum_reference_squares / count) return mean_d;
  const double slope = (row.sum_products / count - mean_r * mean_d) / variance;
  return mean_d - slope * mean_r;
}

double relative_error(double difference, double absolute, double divisor) {
  const double excess = difference - absolute;
  if (excess <= 0) return 0;
  return divisor > 0 ? excess / divisor : kInfinity;
}

// With p the reference's probabilities, x = d - centre and E the mean under p:
// KL = log E[exp(x)] - E[x] = log(1 + E[x] + E[g(x)]) - E[x]. As g is never
// negative, nothing cancels while E[x] is small; a centre at the likeliest
// token sees to that.
double kl_divergence(const RowDivergence& sums) {
  const double mean_x = sums.weighted_x / sums.weight;
  const double mean_g = sums.weighted_g / sums.weight;
  return std::max(0.0, std::log1p(mean_x + mean_g) - mean_x);
}

// For logits so far apart that exp(x) may overflow: each side's own maximum.
double kl_far(absl::Span<const float> ours, absl::Span<const float> reference,
              const RowDifference& row) {
  double our_sum = 0;
  double reference_sum = 0;
  double weighted = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double o = ours[i] - row.max_ours;
    const double r = reference[i] - row.max_reference;
    our_sum += std::exp(o);
    reference_sum += std::exp(r);
    weighted += std::exp(r) * (r - o);
  }
  return std::max(0.0,
                  weighted / reference_sum + std::log(our_sum / reference_sum));
}

class Comparison {
 public:
  Comparison(const LogitView& ours, const LogitView& reference,
             const LogitTolerances& tolerances, LogitMatch& match)
      : ours_view_(ours),
        tolerances_(tolerances),
        match_(match),
        our_rows_(ours),
        reference_rows_(reference),
        top_(reference.vocab) {
    match_.positions.reserve(static_cast<std::size_t>(reference.positions));
    match_.relative_errors.assign(match_.levels.size(), 0.0);
  }

  // Compares one position; false where it holds what cannot be compared.
  bool add(std::int64_t position);
  void finish();

 private:
  bool load(std::int64_t position);
  bool load_unmasked();
  double kl(std::int64_t first) const;
  void fill_levels(PositionMatch& at);
  void judge_flip(std::int64_t a, std::int64_t b, PositionMatch& at);
  double noise_sigma(std::int64_t a, std::int64_t b);
  void summarize(const PositionMatch& at);

  double difference(std::int64_t i) const {
    const auto at = static_cast<std::size_t>(i);
    return static_cast<double>(ours_[at]) - static_cast<double>(reference_[at]);
  }
  std::int64_t token(std::int64_t i) const {
    return kept_.empty() ? i : kept_[static_cast<std::size_t>(i)];
  }

  const LogitView ours_view_;
  const LogitTolerances& tolerances_;
  LogitMatch& match_;
  LogitRow our_rows_;
  LogitRow reference_rows_;
  TopTokens top_;
  absl::Span<const float> ours_;
  absl::Span<const float> reference_;
  std::vector<std::int32_t> kept_;  // tokens of a row with masks, else empty
  RowDifference row_;
  double squares_ = 0;
  double kl_sum_ = 0;
  std::int64_t compared_ = 0;
};

bool Comparison::load(std::int64_t position) {
  kept_.clear();
  ours_ = our_rows_.at(position);
  reference_ = reference_rows_.at(position);
  row_ = row_kernels().difference(ours_.data(), reference_.data(),
                                  static_cast<std::int64_t>(ours_.size()));
  // The sums are finite exactly where every value is.
  if (std::isfinite(row_.sum_difference) && std::isfinite(row_.sum_reference)) {
    return true;
  }
  return load_unmasked();
}

bool Comparison::load_unmasked() {
  for (std::size_t i = 0; i < ours_.size(); ++i) {
    const bool finite = std::isfinite(ours_[i]) && std::isfinite(reference_[i]);
    const bool masked = ours_[i] == -std::numeric_limits<float>::infinity() &&
                        reference_[i] == ours_[i];
    if (!finite && !masked) return false;
    if (finite) kept_.push_back(static_cast<std::int32_t>(i));
  }
  if (kept_.empty()) return false;
  ours_ = our_rows_.keep(kept_);
  reference_ = reference_rows_.keep(kept_);
  row_ = row_kernels().difference(ours_.data(), reference_.data(),
                                  static_cast<std::int64_t>(ours_.size()));
  return true;
}

double Comparison::kl(std::int64_t first) const {
  const double centre = difference(first);
  const double reach =
      std::max(row_.max_difference - centre, centre - row_.min_difference);
  if (reach == 0) return 0;
  if (reach > kDivergenceLimit) return kl_far(ours_, reference_, row_);
  const RowKernels& kernels = row_kernels();
  return kl_divergence(
      (reach <= kNearLimit ? kernels.divergence_near : kernels.divergence)(
          ours_.data(), reference_.data(),
          static_cast<std::int64_t>(ours_.size()), row_.max_reference, centre));
}

// From the widest level to the narrowest, each a part of the one before.
void Comparison::fill_levels(PositionMatch& at) {
  const auto count = static_cast<std::int64_t>(reference_.size());
  at.relative_errors.assign(match_.levels.size(), 0.0);
  for (std::size_t level = match_.levels.size(); level-- > 0;) {
    const std::int64_t k = match_.levels[level].top_k;
    double error = 0;
    double divisor = 0;
    if (k >= count) {
      error = std::max(row_.max_difference - at.shift,
                       at.shift - row_.min_difference);
      divisor = std::max(row_.max_reference, -row_.min_reference);
    } else {
      top_.split(k);
      for (std::int64_t entry = 0; entry < k; ++entry) {
        const std::int32_t i = top_.index(entry);
        error = std::max(error, std::abs(difference(i) - at.shift));
        divisor = std::max<double>(
            divisor, std::abs(reference_[static_cast<std::size_t>(i)]));
      }
    }
    at.relative_errors[level] =
        relative_error(error, tolerances_.absolute, divisor);
    at.within_levels &=
        at.relative_errors[level] <= match_.levels[level].relative;
  }
}

double Comparison::noise_sigma(std::int64_t a, std::int64_t b) {
  top_.select(reference_, kNoiseTokens + 2);
  std::vector<double> differences;
  for (std::int64_t entry = 0; entry < top_.size(); ++entry) {
    const std::int32_t i = top_.index(entry);
    if (i != a && i != b) differences.push_back(difference(i));
  }
  if (differences.size() < kFewestNoiseTokens) return 0;
  const auto median = [&differences] {
    const auto middle = differences.begin() +
                        static_cast<std::ptrdiff_t>(differences.size() / 2);
    std::nth_element(differences.begin(), middle, differences.end());
    return *middle;
  };
  const double centre = median();
  for (double& d : differences) d = std::abs(d - centre);
  return kSigmaOfMedian * median();
}

void Comparison::judge_flip(std::int64_t a, std::int64_t b, PositionMatch& at) {
  const auto value = [](absl::Span<const float> row, std::int64_t i) {
    return static_cast<double>(row[static_cast<std::size_t>(i)]);
  };
  at.pair_margin = value(reference_, a) - value(reference_, b);
  at.divergence = value(ours_, b) - value(ours_, a);
  at.tie_bound = tolerances_.tie_steps * bfloat16_step(row_.max_reference);
  at.noise = tolerances_.tie_sigmas * std::sqrt(2.0) * noise_sigma(a, b);
  if (ours_view_.type != LogitType::kFloat32) {
    const int bits = ours_view_.type == LogitType::kBFloat16 ? 8 : 11;
    at.noise = std::max(at.noise, number_step(row_.max_reference, bits));
  }
  if (!at.within_levels) {
    at.top_token = TopToken::kFlipped;
  } else if (at.pair_margin <= at.tie_bound &&
             at.pair_margin + at.divergence <= at.noise) {
    at.top_token = TopToken::kTie;
  } else if (at.divergence < tolerances_.divergence) {
    at.top_token = TopToken::kTolerated;
  } else {
    at.top_token = TopToken::kFlipped;
  }
}

bool Comparison::add(std::int64_t position) {
  if (!load(position)) return false;
  const auto count = static_cast<std::int64_t>(ours_.size());
  std::int64_t widest = 2;  // for the margin
  for (const TopKTolerance& level : match_.levels) {
    if (level.top_k < count) widest = std::max(widest, level.top_k);
  }
  PositionMatch at;
  at.position = position;
  at.max_abs = std::max(row_.max_difference, -row_.min_difference);
  at.rms = std::sqrt(row_.sum_difference_squares / static_cast<double>(count));
  if (tolerances_.shift == LogitShift::kRemoved) {
    at.shift = intercept(row_, static_cast<double>(count));
  }
  top_.select(reference_, widest);
  fill_levels(at);
  top_.split(2);
  top_.sort(2);
  const std::int64_t a = top_.index(0);
  at.reference_token = token(a);
  if (count > 1) {
    at.reference_margin = row_.max_reference -
                          reference_[static_cast<std::size_t>(top_.index(1))];
  }
  at.kl = kl(a);
  std::int32_t b = 0;  // the first of the highest
  row_kernels().at_least(ours_.data(), count, static_cast<float>(row_.max_ours),
                         &b, 1);
  at.our_token = token(b);
  if (a != b) judge_flip(a, b, at);
  summarize(at);
  match_.positions.push_back(std::move(at));
  return true;
}

void Comparison::summarize(const PositionMatch& at) {
  if (at.top_token == TopToken::kFlipped) {
    match_.flips.push_back(at.position);
  } else if (at.top_token != TopToken::kSame) {
    match_.ties.push_back(at.position);
  }
  for (std::size_t i = 0; i < match_.levels.size(); ++i) {
    const double error = at.relative_errors[i];
    match_.relative_errors[i] = std::max(match_.relative_errors[i], error);
    const double ratio = error / match_.levels[i].relative;
    if (ratio > match_.worst_ratio) {
      match_.worst_ratio = ratio;
      match_.worst_position = at.position;
      match_.worst_top_k = match_.levels[i].top_k;
    }
  }
  if (match_.positions.empty() || at.max_abs > match_.max_abs) {
    match_.max_abs = at.max_abs;
    match_.max_abs_position = at.position;
    std::int64_t i = 0;
    while (std::abs(difference(i)) != at.max_abs) ++i;
    match_.max_abs_token = token(i);
  }
  match_.kl_max = std::max(match_.kl_max, at.kl);
  kl_sum_ += at.kl;
  squares_ += row_.sum_difference_squares;
  compared_ += static_cast<std::int64_t>(ours_.size());
}

void Comparison::finish() {
  const auto positions = static_cast<double>(match_.positions.size());
  bool within = true;
  for (const PositionMatch& at : match_.positions) within &= at.within_levels;
  if (positions > 0) {
    match_.rms = std::sqrt(squares_ / static_cast<double>(compared_));
    match_.kl_mean = kl_sum_ / positions;
    const auto differing =
        static_cast<double>(match_.flips.size() + match_.ties.size());
    match_.top1_agreement = (positions - differing) / positions;
  }
  if (match_.non_finite.has_value()) {
    match_.verdict = LogitVerdict::kNotFinite;
  } else if (!within || !match_.flips.empty()) {
    match_.verdict = LogitVerdict::kMismatch;
  } else if (!match_.ties.empty()) {
    match_.verdict = LogitVerdict::kTie;
  }
}

}  // namespace

absl::string_view top_token_name(TopToken top) {
  constexpr absl::string_view kNames[] = {"same", "tie", "tolerated",
                                          "flipped"};
  return kNames[static_cast<std::size_t>(top)];
}

absl::string_view logit_verdict_name(LogitVerdict verdict) {
  constexpr absl::string_view kNames[] = {"match", "tie", "mismatch",
                                          "not_finite"};
  return kNames[static_cast<std::size_t>(verdict)];
}

absl::StatusOr<LogitMatch> match_logits(const LogitView& ours,
                                        const LogitView& reference,
                                        const LogitTolerances& tolerances,
                                        absl::string_view module) {
  LogitMatch match;
  match.levels = tolerances.levels;
  std::sort(match.levels.begin(), match.levels.end(),
            [](const TopKTolerance& a, const TopKTolerance& b) {
              return a.top_k < b.top_k;
            });
  for (const absl::Status& status :
       {check_logit_view(ours, "ours"),
        check_logit_view(reference, "reference"), check_levels(match.levels),
        check_tolerances(tolerances)}) {
    if (!status.ok()) return status;
  }
  if (ours.positions != reference.positions || ours.vocab != reference.vocab) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "shapes differ: ours is [%d, %d], the reference [%d, %d]",
        ours.positions, ours.vocab, reference.positions, reference.vocab));
  }
  Comparison comparison(ours, reference, tolerances, match);
  for (std::int64_t at = 0; at < ours.positions; ++at) {
    if (comparison.add(at)) continue;
    match.non_finite = find_unusable(ours, reference, at, module);
    break;
  }
  comparison.finish();
  return match;
}

}  // namespace trnscout
