#include "trnscout/drift.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"

namespace trnscout {
namespace {

constexpr std::int64_t kMostWindows = 1024;

// Mean of the two middle values where their number is even.
double median(std::vector<double> values) {
  const std::size_t half = values.size() / 2;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(half);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

absl::Status check(absl::Span<const double> errors,
                   const DriftOptions& options) {
  if (options.window < 1) {
    return absl::InvalidArgumentError(
        absl::StrFormat("window is %d, must be at least 1", options.window));
  }
  if (!(options.growth > 1) || !std::isfinite(options.growth)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "growth is %g, must be a finite number above 1", options.growth));
  }
  const auto count = static_cast<std::int64_t>(errors.size());
  const std::int64_t windows = count / options.window;
  if (windows < 2 || windows > kMostWindows) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%d positions make %d windows of %d, must be from 2 to %d windows",
        count, windows, options.window, kMostWindows));
  }
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (errors[i] >= 0 && std::isfinite(errors[i])) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "error at position %d is %g, must be a finite number, 0 or more", i,
        errors[i]));
  }
  return absl::OkStatus();
}

double theil_sen(const std::vector<double>& medians, std::int64_t window) {
  std::vector<double> slopes;
  slopes.reserve(medians.size() * (medians.size() - 1) / 2);
  for (std::size_t i = 0; i < medians.size(); ++i) {
    for (std::size_t j = i + 1; j < medians.size(); ++j) {
      const auto apart = static_cast<double>(j - i);
      slopes.push_back((medians[j] - medians[i]) /
                       (apart * static_cast<double>(window)));
    }
  }
  return median(std::move(slopes));
}

}  // namespace

absl::StatusOr<Drift> drift(absl::Span<const double> errors,
                            const DriftOptions& options) {
  if (absl::Status status = check(errors, options); !status.ok()) return status;
  Drift out;
  out.window = options.window;
  const auto window = static_cast<std::size_t>(options.window);
  for (std::size_t begin = 0; begin + window <= errors.size();
       begin += window) {
    const absl::Span<const double> part = errors.subspan(begin, window);
    out.medians.push_back(
        median(std::vector<double>(part.begin(), part.end())));
  }
  out.slope = theil_sen(out.medians, options.window);
  const double first = out.medians.front();
  const double last = out.medians.back();
  if (first > 0) {
    out.ratio = last / first;
  } else {
    out.ratio = last > 0 ? std::numeric_limits<double>::infinity() : 1.0;
  }
  out.grows = out.slope > 0 && out.ratio > options.growth;
  return out;
}

}  // namespace trnscout
