#include "top_tokens.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "logit_row.h"

namespace trnscout {
namespace {

constexpr std::int64_t kSample = 512;

// Orders as the float does, and the lower index above the higher.
std::uint64_t key_of(float value, std::int32_t index) {
  value += 0.0F;  // minus zero is equal to zero
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  bits = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return (std::uint64_t{bits} << 32) | ~static_cast<std::uint32_t>(index);
}

}  // namespace

TopTokens::TopTokens(std::int64_t vocab)
    : sample_(kSample),
      candidates_(static_cast<std::size_t>(vocab)),
      keys_(static_cast<std::size_t>(vocab)) {}

// Guesses, from a sample, a value that a few more than `k` values reach.
float TopTokens::pivot(absl::Span<const float> row, std::int64_t k) {
  const auto count = static_cast<std::int64_t>(row.size());
  if (count < 8 * kSample) return -std::numeric_limits<float>::infinity();
  const double expected =
      static_cast<double>(k) * kSample / static_cast<double>(count);
  const auto rank =
      static_cast<std::int64_t>(expected + 3.0 * std::sqrt(expected) + 2.0);
  if (rank >= kSample) return -std::numeric_limits<float>::infinity();
  const std::int64_t step = count / kSample;
  for (std::int64_t i = 0; i < kSample; ++i) {
    sample_[static_cast<std::size_t>(i)] =
        row[static_cast<std::size_t>(i * step)];
  }
  std::nth_element(sample_.begin(), sample_.begin() + rank, sample_.end(),
                   std::greater<>());
  return sample_[static_cast<std::size_t>(rank)];
}

void TopTokens::select(absl::Span<const float> row, std::int64_t k) {
  const auto count = static_cast<std::int64_t>(row.size());
  k = std::min(k, count);
  const auto gather = [&](float pivot) {
    size_ = row_kernels().at_least(row.data(), count, pivot, candidates_.data(),
                                   count);
  };
  gather(pivot(row, k));
  if (size_ < k) gather(-std::numeric_limits<float>::infinity());
  for (std::size_t i = 0; i < static_cast<std::size_t>(size_); ++i) {
    const std::int32_t index = candidates_[i];
    keys_[i] = key_of(row[static_cast<std::size_t>(index)], index);
  }
  split(k);
  size_ = k;
}

void TopTokens::split(std::int64_t k) {
  if (k >= size_) return;
  std::nth_element(keys_.begin(), keys_.begin() + k, keys_.begin() + size_,
                   std::greater<>());
}

void TopTokens::sort(std::int64_t k) {
  std::sort(keys_.begin(), keys_.begin() + std::min(k, size_),
            std::greater<>());
}

std::int32_t TopTokens::index(std::int64_t entry) const {
  return static_cast<std::int32_t>(
      ~static_cast<std::uint32_t>(keys_[static_cast<std::size_t>(entry)]));
}

}  // namespace trnscout
