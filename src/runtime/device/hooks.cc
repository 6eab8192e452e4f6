// What PyTorch asks of an accelerator outside of kernels.

#include <ATen/detail/PrivateUse1HooksInterface.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "cores.h"
#include "module.h"

namespace trnscout::device {
namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return core_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex core) const override {
    return core >= 0 && core < core_count();
  }
  c10::DeviceIndex deviceCount() const override { return core_count(); }
  c10::DeviceIndex getCurrentDevice() const override { return current_core(); }
  void setCurrentDevice(c10::DeviceIndex core) const override {
    set_current_core(core);
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex core) const override {
    const c10::DeviceIndex before = current_core();
    set_current_core(core);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex core) const override {
    return core < 0 ? current_core() : exchangeDevice(core);
  }

  const at::Generator& getDefaultGenerator(
      c10::DeviceIndex core) const override {
    return default_generator(core);
  }
  at::Generator getNewGenerator(c10::DeviceIndex core) const override {
    return make_core_generator(checked_core(core));
  }

  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  at::Allocator* getPinnedMemoryAllocator() const override {
    return pinned_allocator();
  }
  at::Device getDeviceFromPtr(void* data) const override {
    TORCH_CHECK(false, "neuron: cannot tell the core from pointer ", data,
                "; name the device");
  }

  void resizePrivateUse1Bytes(const c10::Storage& storage,
                              std::size_t nbytes) const override {
    c10::DataPtr data =
        allocate_block(storage.device().index(), nbytes, "storage.resize_");
    const std::size_t kept = std::min(nbytes, storage.nbytes());
    if (kept > 0) std::memcpy(data.get(), storage.data(), kept);
    c10::StorageImpl* const impl = storage.unsafeGetStorageImpl();
    impl->set_data_ptr_noswap(std::move(data));
    impl->set_nbytes(nbytes);
  }
};

}  // namespace

void register_hooks() { at::RegisterPrivateUse1HooksInterface(new Hooks); }

}  // namespace trnscout::device
