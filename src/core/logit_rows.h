#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "trnscout/logit_view.h"

namespace trnscout {

// Rows of one view or of two, one position at a time, as dense floats: the
// view's own memory where it holds floats and nothing is masked.
class LogitRow {
 public:
  explicit LogitRow(const LogitView& view);
  // Stays valid until the next call.
  absl::Span<const float> at(std::int64_t position);
  // Keeps only the listed entries of the row read last.
  absl::Span<const float> keep(absl::Span<const std::int32_t> tokens);

 private:
  const LogitView view_;
  std::vector<float> buffer_;
  absl::Span<const float> row_;
};

// First value, from `from` on, that no comparison can use: see `match_logits`.
// The count is of the side that the first one lies on.
std::optional<NonFinite> find_unusable(const LogitView& ours,
                                       const LogitView& reference,
                                       std::int64_t from,
                                       absl::string_view module);

}  // namespace trnscout
