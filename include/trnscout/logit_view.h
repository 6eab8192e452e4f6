#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace trnscout {

/// How one logit lies in memory.
enum class LogitType : std::uint8_t { kFloat32, kBFloat16, kFloat16 };

/// Returns the type's name, for example "float32".
absl::string_view logit_type_name(LogitType type);

/// Logits that somebody else owns, [positions, vocab]. Not kept by anything
/// here. Rows may lie apart, overlap or run backwards; a row itself is dense.
struct LogitView {
  const void* data = nullptr;  ///< first logit of the first row, aligned
  LogitType type = LogitType::kFloat32;
  std::int64_t positions = 0;
  std::int64_t vocab = 0;
  std::int64_t row_stride = 0;  ///< elements between the starts of two rows
};

/// Says whether a view can be read; `name` stands in the message.
///
/// Errors: InvalidArgument - no data, no position, no vocabulary, or data that
///         is not aligned for its type.
absl::Status check_logit_view(const LogitView& view, absl::string_view name);

/// Widens row `position` into `out`, which has room for `vocab` floats. Exact.
void copy_logit_row(const LogitView& view, std::int64_t position, float* out);

/// What a value that is no number is.
enum class NonFiniteKind : std::uint8_t {
  kNan,
  kPositiveInfinity,
  kNegativeInfinity,
};
absl::string_view non_finite_kind_name(NonFiniteKind kind);

/// Where values stopped being numbers, and how many did.
struct NonFinite {
  std::string module;  ///< the caller's name for what was looked at
  std::int64_t position = 0;
  std::int64_t index = 0;                    ///< within the row
  NonFiniteKind kind = NonFiniteKind::kNan;  ///< of the first one
  std::int64_t nans = 0;
  std::int64_t positive_infinities = 0;
  std::int64_t negative_infinities = 0;

  std::int64_t count() const {
    return nans + positive_infinities + negative_infinities;
  }
};

/// Formats a finding: "lm_head: nan at position 3, index 0; 7 of 12 not
/// finite", without the total where `values` is 0.
std::string non_finite_text(const NonFinite& found, std::int64_t values = 0);

/// What minus infinity means in the values at hand.
enum class NegativeInfinity : std::uint8_t {
  kNotFinite,  ///< activations: as bad as NaN
  kMasked,  ///< logits: a token that may not be chosen, unless a whole row is
};

/// Finds the first value that is no number, in order of position and index, and
/// counts all of them. Under `kMasked`, minus infinity is no finding in a row
/// that has a finite value; a row of nothing else offers no token and is one.
///
/// Errors: as `check_logit_view`.
/// Cost:   one pass over memory where all is finite.
absl::StatusOr<std::optional<NonFinite>> find_non_finite(
    const LogitView& view, absl::string_view module,
    NegativeInfinity negative_infinity = NegativeInfinity::kNotFinite);

}  // namespace trnscout
