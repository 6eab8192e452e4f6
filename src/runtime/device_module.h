#pragma once

#include "absl/status/status.h"
#include "trnscout/device.h"
#include "trnscout/memory_ledger.h"

namespace trnscout {

/// What the runtime library asks of the shared object that holds the device.
/// Loading that object registers the device with PyTorch, so the runtime knows
/// it by this interface alone.
class DeviceModule {
 public:
  virtual ~DeviceModule() = default;

  /// Makes the cores; called once, with options that were checked.
  virtual absl::Status start(const VirtualCoreOptions& options) = 0;

  /// Returns the ledger of a core that exists.
  virtual const MemoryLedger& ledger(std::int32_t core) const = 0;
};

/// The one symbol looked up in the shared object.
inline constexpr char kDeviceModuleSymbol[] = "trnscout_device_module";
using DeviceModuleFunction = DeviceModule* (*)();

}  // namespace trnscout
