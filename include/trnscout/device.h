#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trnscout/memory_ledger.h"

namespace trnscout {

/// How many virtual Neuron cores this process sees, and how large each one is.
struct VirtualCoreOptions {
  std::int32_t cores = 1;
  std::int64_t core_memory_bytes = kTrn2CoreMemoryBytes;

  friend bool operator==(const VirtualCoreOptions&,
                         const VirtualCoreOptions&) = default;
};

/// The most cores one process may have: device indices are eight bits.
inline constexpr std::int32_t kMaxVirtualCores = 64;

/// Registers PyTorch's device `neuron` with `options.cores` virtual cores, for
/// the rest of the process.
///
/// After it, `at::Device("neuron:0")` works from C++. Tensors lie in host
/// memory and are charged to their core's ledger; operators run PyTorch's own
/// CPU kernels on the same bytes. From Python call
/// `trnscout.enable_virtual_cores`, which also installs `torch.neuron`.
///
/// Calling it again with equal options does nothing.
/// Errors: InvalidArgument - `cores` is not in [1, 64] or `core_memory_bytes`
/// is
///         not positive.
///         FailedPrecondition - cores are enabled with other options, or
///         another library (a real torch_neuronx, say) has registered
///         PrivateUse1. NotFound - the shared object with the device is not
///         beside this library.
/// Threads: call it before other threads use torch.
absl::Status enable_virtual_cores(const VirtualCoreOptions& options);

/// Same, for `cores` cores of the default size.
absl::Status enable_virtual_cores(std::int32_t cores);

/// Returns the options in force.
///
/// Errors: FailedPrecondition - no virtual cores are enabled.
absl::StatusOr<VirtualCoreOptions> virtual_cores();

/// Returns what `core` holds, by category, now and at its peak.
///
/// Units:  bytes.
/// Errors: FailedPrecondition - no virtual cores are enabled.
///         OutOfRange - there is no such core.
absl::StatusOr<MemorySnapshot> core_memory(std::int32_t core);

}  // namespace trnscout
