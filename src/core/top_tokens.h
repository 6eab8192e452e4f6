#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace trnscout {

// Finds the highest values of rows. Keeps its buffers from row to row.
class TopTokens {
 public:
  explicit TopTokens(std::int64_t vocab);

  // Selects the `k` highest of `row`, or all where it has fewer; the lower
  // index comes first among equals. Values are finite.
  void select(absl::Span<const float> row, std::int64_t k);

  // Orders the selection so that its `k` highest come first.
  void split(std::int64_t k);
  // Orders its first `k` entries, from high to low.
  void sort(std::int64_t k);

  std::int64_t size() const { return size_; }
  std::int32_t index(std::int64_t entry) const;

 private:
  float pivot(absl::Span<const float> row, std::int64_t k);

  std::vector<float> sample_;
  std::vector<std::int32_t> candidates_;
  std::vector<std::uint64_t> keys_;  // value above, inverted index below
  std::int64_t size_ = 0;
};

}  // namespace trnscout
