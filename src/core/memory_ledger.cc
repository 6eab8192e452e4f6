#include "trnscout/memory_ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace trnscout {
namespace {

// A table longer than this hides what matters.
constexpr std::size_t kHoldersInTable = 8;

constexpr std::size_t index_of(MemoryCategory category) {
  return static_cast<std::size_t>(category);
}

void add(MemoryUse& use, std::int64_t bytes) {
  use.present_bytes += bytes;
  use.peak_bytes = std::max(use.peak_bytes, use.present_bytes);
}

}  // namespace

absl::string_view memory_category_name(MemoryCategory category) {
  constexpr std::array<absl::string_view, kMemoryCategories> kNames = {
      "tensors",    "constants", "model_code",
      "scratchpad", "dma_rings", "collectives"};
  return kNames[index_of(category)];
}

std::string format_bytes(std::int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB",
                                                 "TiB"};
  if (bytes < 1024) return absl::StrFormat("%d B", bytes);
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  return absl::StrFormat("%.2f %s", value, kUnits[unit]);
}

std::string memory_table(const MemorySnapshot& snapshot) {
  std::string out =
      absl::StrFormat("core %d, limit %s (%d bytes)\n", snapshot.core,
                      format_bytes(snapshot.limit_bytes), snapshot.limit_bytes);
  absl::StrAppendFormat(&out, "  %-12s %14s %14s\n", "category", "present",
                        "peak");
  const auto row = [&out](absl::string_view name, const MemoryUse& use) {
    absl::StrAppendFormat(&out, "  %-12s %14s %14s\n", name,
                          format_bytes(use.present_bytes),
                          format_bytes(use.peak_bytes));
  };
  for (std::size_t i = 0; i < kMemoryCategories; ++i) {
    row(memory_category_name(static_cast<MemoryCategory>(i)),
        snapshot.categories[i]);
  }
  row("total", snapshot.total);
  if (snapshot.holders.empty()) return out;
  absl::StrAppendFormat(&out, "  %-44s %8s %14s\n", "held by blocks made in",
                        "blocks", "present");
  const std::size_t shown = std::min(kHoldersInTable, snapshot.holders.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const MemoryHolder& holder = snapshot.holders[i];
    absl::StrAppendFormat(&out, "  %-44s %8d %14s\n",
                          absl::StrCat(memory_category_name(holder.category),
                                       ": ", holder.made_by),
                          holder.blocks, format_bytes(holder.present_bytes));
  }
  if (shown < snapshot.holders.size()) {
    absl::StrAppendFormat(&out, "  (%d smaller holders)\n",
                          snapshot.holders.size() - shown);
  }
  return out;
}

std::uint32_t MemoryLedger::holder_id(MemoryCategory category,
                                      absl::string_view made_by) {
  auto& ids = holder_ids_[index_of(category)];
  const auto found = ids.find(made_by);
  if (found != ids.end()) return found->second;
  const auto id = static_cast<std::uint32_t>(holders_.size());
  holders_.push_back({.category = category, .made_by = std::string(made_by)});
  ids.emplace(std::string(made_by), id);
  return id;
}

MemoryLedger::Charge MemoryLedger::book(MemoryCategory category,
                                        std::int64_t bytes,
                                        absl::string_view made_by) {
  const std::uint32_t id = holder_id(category, made_by);
  holders_[id].present_bytes += bytes;
  ++holders_[id].blocks;
  add(categories_[index_of(category)], bytes);
  add(total_, bytes);
  ++charges_;
  charged_bytes_ += bytes;
  return {.bytes = bytes, .holder = id};
}

absl::Status MemoryLedger::charge(MemoryCategory category, std::int64_t bytes,
                                  absl::string_view made_by, Charge* accepted) {
  if (bytes < 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "core %d: cannot charge %d bytes", options_.core, bytes));
  }
  const std::lock_guard lock(mutex_);
  // Subtracting keeps the sum from overflowing for absurd requests.
  if (bytes > options_.limit_bytes - total_.present_bytes) {
    return refusal(absl::StrFormat("%s (%d bytes) more for %s",
                                   format_bytes(bytes), bytes, made_by));
  }
  *accepted = book(category, bytes, made_by);
  return absl::OkStatus();
}

MemoryLedger::Charge MemoryLedger::charge_unchecked(MemoryCategory category,
                                                    std::int64_t bytes,
                                                    absl::string_view made_by) {
  const std::lock_guard lock(mutex_);
  return book(category, bytes, made_by);
}

absl::Status MemoryLedger::check() const {
  const std::lock_guard lock(mutex_);
  if (total_.present_bytes <= options_.limit_bytes) return absl::OkStatus();
  return refusal("a result that was computed");
}

absl::Status MemoryLedger::refusal(absl::string_view request) const {
  ++refusals_;
  return absl::ResourceExhaustedError(absl::StrFormat(
      "neuron:%d is out of memory: it holds %s (%d bytes) of %s, and %s does "
      "not fit\n%s",
      options_.core, format_bytes(total_.present_bytes), total_.present_bytes,
      format_bytes(options_.limit_bytes), request,
      memory_table(snapshot_locked())));
}

void MemoryLedger::release(const Charge& charge) {
  const std::lock_guard lock(mutex_);
  MemoryHolder& holder = holders_[charge.holder];
  holder.present_bytes -= charge.bytes;
  --holder.blocks;
  categories_[index_of(holder.category)].present_bytes -= charge.bytes;
  total_.present_bytes -= charge.bytes;
}

void MemoryLedger::reset_peaks() {
  const std::lock_guard lock(mutex_);
  total_.peak_bytes = total_.present_bytes;
  for (MemoryUse& use : categories_) use.peak_bytes = use.present_bytes;
}

void MemoryLedger::reset_accumulated() {
  const std::lock_guard lock(mutex_);
  charges_ = 0;
  charged_bytes_ = 0;
  refusals_ = 0;
}

MemoryUse MemoryLedger::total() const {
  const std::lock_guard lock(mutex_);
  return total_;
}

MemoryUse MemoryLedger::use(MemoryCategory category) const {
  const std::lock_guard lock(mutex_);
  return categories_[index_of(category)];
}

MemorySnapshot MemoryLedger::snapshot() const {
  const std::lock_guard lock(mutex_);
  return snapshot_locked();
}

MemorySnapshot MemoryLedger::snapshot_locked() const {
  MemorySnapshot out{.core = options_.core,
                     .limit_bytes = options_.limit_bytes,
                     .total = total_,
                     .categories = categories_,
                     .holders = {},
                     .charges = charges_,
                     .refusals = refusals_,
                     .charged_bytes = charged_bytes_};
  for (const MemoryHolder& holder : holders_) {
    if (holder.blocks > 0) out.holders.push_back(holder);
  }
  std::stable_sort(out.holders.begin(), out.holders.end(),
                   [](const MemoryHolder& a, const MemoryHolder& b) {
                     return a.present_bytes > b.present_bytes;
                   });
  return out;
}

}  // namespace trnscout
