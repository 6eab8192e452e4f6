#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/Storage.h>
#include <c10/util/intrusive_ptr.h>

#include "absl/strings/string_view.h"
#include "trnscout/device.h"
#include "trnscout/memory_ledger.h"

namespace trnscout::device {

/// Makes the process's cores. Called once, before any other function here.
void start_cores(const VirtualCoreOptions& options);

/// Returns how many cores there are; 0 before `start_cores`. Never throws.
c10::DeviceIndex core_count() noexcept;

/// Returns the calling thread's current core.
c10::DeviceIndex current_core() noexcept;

/// Sets it without a check.
void set_current_core_unchecked(c10::DeviceIndex core) noexcept;

/// Sets it; throws c10::Error naming the range if there is no such core.
void set_current_core(c10::DeviceIndex core);

/// Returns `core`, or the current one for -1; throws as `set_current_core`.
c10::DeviceIndex checked_core(c10::DeviceIndex core);

MemoryLedger& ledger_of(c10::DeviceIndex core);

/// The device `neuron:core`.
inline c10::Device neuron(c10::DeviceIndex core) {
  return {c10::DeviceType::PrivateUse1, core};
}

/// Throws torch.OutOfMemoryError with the status's own words, if it is an
/// error.
void throw_if_out_of_memory(const absl::Status& status);

/// What a device DataPtr owns: a CPU storage whose bytes are the device's
/// bytes, and the charge for them. Kernels run on the CPU storage, so nothing
/// is copied and two tensors overlap on the CPU exactly when they overlap on
/// the core.
struct CoreBlock {
  c10::intrusive_ptr<c10::StorageImpl> host;
  MemoryLedger* ledger = nullptr;
  MemoryLedger::Charge charge;
};

/// Allocates and charges `nbytes` on `core`; throws torch.OutOfMemoryError with
/// the ledger's table, before any memory is touched.
c10::DataPtr allocate_block(c10::DeviceIndex core, std::size_t nbytes,
                            absl::string_view made_by);

/// Takes over the bytes of a CPU storage that a kernel made, and charges them
/// even past the limit, since they exist: call `check_memory` once they have an
/// owner.
c10::DataPtr adopt_block(c10::DeviceIndex core,
                         c10::intrusive_ptr<c10::StorageImpl> host,
                         absl::string_view made_by);

/// Throws torch.OutOfMemoryError if `core` holds more than its limit.
void check_memory(c10::DeviceIndex core);

/// Returns the block behind a device DataPtr; null for an empty one and for one
/// that wraps foreign memory.
CoreBlock* block_of(const c10::DataPtr& data);

/// Makes a device storage over a DataPtr of `allocate_block` or `adopt_block`.
c10::Storage make_storage(c10::DataPtr data, std::size_t nbytes);

/// The allocator that PyTorch uses for `neuron`: current core, exact bytes.
c10::Allocator* core_allocator();

/// The allocator for pinned host memory.
c10::Allocator* pinned_allocator();
bool is_pinned(const void* data);

/// Names the operator that allocations of this thread are booked under.
class MadeBy {
 public:
  explicit MadeBy(absl::string_view name);
  ~MadeBy();
  MadeBy(const MadeBy&) = delete;
  MadeBy& operator=(const MadeBy&) = delete;

  /// The innermost name, or "direct allocation".
  static absl::string_view current();

 private:
  absl::string_view outer_;
};

/// The default random generator of `core`, and the CPU generator inside any
/// generator of a core.
const at::Generator& default_generator(c10::DeviceIndex core);
at::Generator make_core_generator(c10::DeviceIndex core);
at::Generator host_generator(const at::Generator& generator);

}  // namespace trnscout::device
