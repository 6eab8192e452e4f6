#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace trnscout {

/// HBM behind one logical Trainium2 core at LNC=2: 24 GiB, not 24 GB.
///
/// Source: aws-neuron/aws-neuron-sdk: logical-neuroncore-config.rst,
/// 2026-08-21.
inline constexpr std::int64_t kTrn2CoreMemoryBytes = std::int64_t{24} << 30;

/// What device memory is used for, in the words of the Neuron runtime's own
/// out-of-memory report.
///
/// Source: aws-neuron/aws-neuron-sdk: neuron-runtime/explore/device-memory.rst.
enum class MemoryCategory : std::uint8_t {
  kTensors,
  kConstants,
  kModelCode,
  kScratchpad,
  kDmaRings,
  kCollectives,
};
inline constexpr std::size_t kMemoryCategories = 6;

/// Returns the category's name as it stands in tables and records, for example
/// "tensors" or "dma_rings".
absl::string_view memory_category_name(MemoryCategory category);

/// Bytes held now, and the most that were held at one moment.
struct MemoryUse {
  std::int64_t present_bytes = 0;
  std::int64_t peak_bytes = 0;

  friend bool operator==(const MemoryUse&, const MemoryUse&) = default;
};

/// Bytes held now by the blocks that one operator made.
struct MemoryHolder {
  MemoryCategory category = MemoryCategory::kTensors;
  std::string made_by;
  std::int64_t blocks = 0;
  std::int64_t present_bytes = 0;
};

/// One core's memory at one moment.
struct MemorySnapshot {
  std::int32_t core = 0;
  std::int64_t limit_bytes = 0;
  MemoryUse total;
  std::array<MemoryUse, kMemoryCategories> categories;
  std::vector<MemoryHolder> holders;  ///< largest first
  std::int64_t charges = 0;           ///< accepted since the last reset
  std::int64_t refusals = 0;          ///< refused since the last reset
  std::int64_t charged_bytes = 0;     ///< accepted since the last reset
};

/// Formats a snapshot as the table that stands in out-of-memory messages: a row
/// a category, then the largest holders.
std::string memory_table(const MemorySnapshot& snapshot);

/// Formats bytes with a binary unit and two decimals: "1.50 GiB".
std::string format_bytes(std::int64_t bytes);

/// Keeps one core's budget: who holds how many bytes, now and at the peak, and
/// refuses what would go past the limit.
///
/// Threads: every function may be called from any thread.
class MemoryLedger {
 public:
  struct Options {
    std::int32_t core = 0;
    std::int64_t limit_bytes = kTrn2CoreMemoryBytes;
  };

  /// One accepted charge; give it back to `release` once.
  struct Charge {
    std::int64_t bytes = 0;
    std::uint32_t holder = 0;
  };

  explicit MemoryLedger(Options options) : options_(options) {}
  MemoryLedger(const MemoryLedger&) = delete;
  MemoryLedger& operator=(const MemoryLedger&) = delete;

  /// Books `bytes` for `made_by` (an operator's name) under `category`.
  ///
  /// Errors: InvalidArgument - `bytes` is negative.
  ///         ResourceExhausted - present + `bytes` would pass the limit;
  ///         nothing is booked and the message ends with the table.
  /// Cost:   O(1); allocates only for a holder that is new.
  absl::Status charge(MemoryCategory category, std::int64_t bytes,
                      absl::string_view made_by, Charge* accepted);

  /// Books bytes that the core already holds, past the limit if need be: for
  /// results whose size is known only after a kernel ran. Follow with `check`.
  Charge charge_unchecked(MemoryCategory category, std::int64_t bytes,
                          absl::string_view made_by);

  /// Says whether what is held lies within the limit.
  ///
  /// Errors: ResourceExhausted - it does not; counted as a refusal.
  absl::Status check() const;

  /// Ends a charge.
  void release(const Charge& charge);

  /// Lets every peak start again at what is held now.
  void reset_peaks();

  /// Lets the counts of charges, charged bytes and refusals start again at
  /// zero.
  void reset_accumulated();

  std::int32_t core() const { return options_.core; }
  std::int64_t limit_bytes() const { return options_.limit_bytes; }
  MemoryUse total() const;
  MemoryUse use(MemoryCategory category) const;
  MemorySnapshot snapshot() const;

 private:
  std::uint32_t holder_id(MemoryCategory category, absl::string_view made_by);
  Charge book(MemoryCategory category, std::int64_t bytes,
              absl::string_view made_by);
  MemorySnapshot snapshot_locked() const;
  absl::Status refusal(absl::string_view request) const;

  const Options options_;
  mutable std::mutex mutex_;
  MemoryUse total_;
  std::array<MemoryUse, kMemoryCategories> categories_;
  std::vector<MemoryHolder> holders_;
  std::array<absl::flat_hash_map<std::string, std::uint32_t>, kMemoryCategories>
      holder_ids_;
  std::int64_t charges_ = 0;
  std::int64_t charged_bytes_ = 0;
  mutable std::int64_t refusals_ = 0;
};

}  // namespace trnscout
