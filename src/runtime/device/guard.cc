// Current device, streams and events. Work on a core is done when the call
// returns, so there is one stream a core and an event is a time stamp.

#include <c10/core/DeviceCapability.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <chrono>

#include "cores.h"

namespace trnscout::device {
namespace {

using Clock = std::chrono::steady_clock;

struct Event {
  Clock::time_point recorded;
};

c10::Stream only_stream(c10::Device device) {
  return c10::Stream(c10::Stream::DEFAULT,
                     neuron(checked_core(device.index())));
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::DeviceIndex before = current_core();
    set_current_core(device.index());
    return neuron(before);
  }
  c10::Device getDevice() const override { return neuron(current_core()); }
  void setDevice(c10::Device device) const override {
    set_current_core(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    set_current_core_unchecked(device.index());
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return core_count();
  }
  c10::DeviceCapability getDeviceCapability(c10::Device) const override {
    return {};  // every dtype: the kernels are the CPU's
  }

  c10::Stream getStream(c10::Device device) const override {
    return only_stream(device);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return only_stream(device);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return only_stream(device);
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return only_stream(device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return only_stream(stream.device());
  }
  void* getStreamNativeHandle(const c10::Stream) const override {
    return nullptr;
  }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeDevice(const c10::DeviceIndex) const override {}
  bool isStreamCapturing(const c10::Stream&) const override { return false; }

  void record(void** event, const c10::Stream&, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    if (*event == nullptr) *event = new Event;
    static_cast<Event*>(*event)->recorded = Clock::now();
  }
  void destroyEvent(void* event,
                    const c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
  double elapsedTime(void* begin, void* end,
                     const c10::DeviceIndex) const override {
    TORCH_CHECK(begin != nullptr && end != nullptr,
                "neuron: both events must be recorded before their elapsed "
                "time is asked for");
    return std::chrono::duration<double, std::milli>(
               static_cast<Event*>(end)->recorded -
               static_cast<Event*>(begin)->recorded)
        .count();
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

}  // namespace
}  // namespace trnscout::device
