// The shared object's one entry point.

#include "module.h"

#include <c10/core/DeviceType.h>

#include "cores.h"
#include "device_module.h"

namespace trnscout::device {
namespace {

class VirtualCores final : public DeviceModule {
 public:
  absl::Status start(const VirtualCoreOptions& options) override {
    c10::register_privateuse1_backend("neuron");
    start_cores(options);
    register_hooks();
    return absl::OkStatus();
  }
  const MemoryLedger& ledger(std::int32_t core) const override {
    return ledger_of(static_cast<c10::DeviceIndex>(core));
  }
};

}  // namespace
}  // namespace trnscout::device

extern "C" __attribute__((visibility("default"))) trnscout::DeviceModule*
trnscout_device_module() {
  static auto* const instance = new trnscout::device::VirtualCores;
  return instance;
}
