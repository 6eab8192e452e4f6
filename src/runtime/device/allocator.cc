// The allocators PyTorch asks for device memory and for pinned host memory.

#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "cores.h"

namespace trnscout::device {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatType;

Stat stat(std::int64_t present, std::int64_t peak, std::int64_t allocated) {
  Stat out;
  out.current = present;
  out.peak = peak;
  out.allocated = allocated;
  out.freed = allocated - present;
  return out;
}

struct CoreAllocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(std::size_t nbytes) override {
    return allocate_block(current_core(), nbytes, MadeBy::current());
  }
  // Null: a block is freed by its context, never by its bare pointer.
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    std::memcpy(to, from, count);
  }

  bool initialized() override { return core_count() > 0; }
  // Freed memory goes back at once, so there is nothing to empty.
  void emptyCache(c10::MempoolId_t) override {}
  // Streams are synchronous, so no block outlives its use on one.
  void recordStream(const c10::DataPtr&, c10::Stream) override {}

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(
      c10::DeviceIndex device) override {
    const MemorySnapshot memory = ledger_of(device).snapshot();
    std::int64_t blocks = 0;
    for (const MemoryHolder& holder : memory.holders) blocks += holder.blocks;
    constexpr auto kAll = static_cast<std::size_t>(StatType::AGGREGATE);
    c10::CachingDeviceAllocator::DeviceStats out;
    out.allocation[kAll] = stat(blocks, blocks, memory.charges);
    const Stat bytes = stat(memory.total.present_bytes, memory.total.peak_bytes,
                            memory.charged_bytes);
    out.allocated_bytes[kAll] = bytes;
    out.reserved_bytes[kAll] = bytes;
    out.active_bytes[kAll] = bytes;
    out.requested_bytes[kAll] = bytes;
    out.num_ooms = memory.refusals;
    return out;
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    ledger_of(device).reset_accumulated();
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    ledger_of(device).reset_peaks();
  }
  std::pair<std::size_t, std::size_t> getMemoryInfo(
      c10::DeviceIndex device) override {
    const MemoryLedger& ledger = ledger_of(device);
    const std::int64_t free =
        ledger.limit_bytes() - ledger.total().present_bytes;
    return {static_cast<std::size_t>(std::max<std::int64_t>(free, 0)),
            static_cast<std::size_t>(ledger.limit_bytes())};
  }
};

// Host memory that says of itself that it is pinned; no device reads it.
struct PinnedAllocator final : at::HostAllocator {
  c10::DataPtr allocate(std::size_t nbytes) override {
    c10::DataPtr memory = c10::GetCPUAllocator()->allocate(nbytes);
    void* const data = memory.get();
    if (data == nullptr) return memory;
    auto* const kept = new c10::DataPtr(std::move(memory));
    const std::lock_guard lock(mutex_);
    blocks_[static_cast<const char*>(data)] = nbytes;
    return {data, kept, &PinnedAllocator::free, c10::DeviceType::CPU};
  }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    std::memcpy(to, from, count);
  }
  bool record_event(void*, void*, c10::Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}

  bool contains(const void* data) {
    const auto* const byte = static_cast<const char*>(data);
    const std::lock_guard lock(mutex_);
    auto after = blocks_.upper_bound(byte);
    if (after == blocks_.begin()) return false;
    --after;
    return byte < after->first + after->second;
  }

 private:
  static void free(void* context);

  std::mutex mutex_;
  std::map<const char*, std::size_t> blocks_;
};

CoreAllocator& device_allocator() {
  static auto* const instance = new CoreAllocator;
  return *instance;
}

PinnedAllocator& host_allocator() {
  static auto* const instance = new PinnedAllocator;
  return *instance;
}

void PinnedAllocator::free(void* context) {
  auto* const kept = static_cast<c10::DataPtr*>(context);
  PinnedAllocator& self = host_allocator();
  {
    const std::lock_guard lock(self.mutex_);
    self.blocks_.erase(static_cast<const char*>(kept->get()));
  }
  delete kept;
}

REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &device_allocator());
// torch.accelerator.Graph and empty_host_cache() fail without this one.
const bool kHostRegistered = [] {
  at::setHostAllocator(c10::DeviceType::PrivateUse1, &host_allocator());
  return true;
}();

}  // namespace

c10::Allocator* core_allocator() { return &device_allocator(); }
c10::Allocator* pinned_allocator() { return &host_allocator(); }
bool is_pinned(const void* data) { return host_allocator().contains(data); }

}  // namespace trnscout::device
