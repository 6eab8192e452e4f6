// Random generators of a core. Each owns a CPU generator, because CPU kernels
// draw the numbers: with one seed, a core and the CPU draw the same ones.

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GeneratorImpl.h>

#include <cstdint>
#include <mutex>
#include <utility>

#include "cores.h"

namespace trnscout::device {
namespace {

class CoreGenerator final : public c10::GeneratorImpl {
 public:
  CoreGenerator(c10::DeviceIndex core, at::Generator host)
      : GeneratorImpl(neuron(core),
                      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        host_(std::move(host)) {}

  const at::Generator& host() const { return host_; }

  void set_current_seed(std::uint64_t seed) override {
    const std::lock_guard lock(host_.mutex());
    host_.set_current_seed(seed);
  }
  std::uint64_t current_seed() const override { return host_.current_seed(); }
  std::uint64_t seed() override {
    const std::lock_guard lock(host_.mutex());
    return host_.seed();
  }
  // A Mersenne Twister has no offset; these refuse in the CPU generator's
  // words.
  void set_offset(std::uint64_t offset) override { host_.set_offset(offset); }
  std::uint64_t get_offset() const override {
    return host_.unsafeGetGeneratorImpl()->get_offset();
  }
  void set_state(const c10::TensorImpl& state) override {
    const std::lock_guard lock(host_.mutex());
    host_.unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return host_.unsafeGetGeneratorImpl()->get_state();
  }

 private:
  CoreGenerator* clone_impl() const override {
    return new CoreGenerator(device_.index(), host_.clone());
  }

  mutable at::Generator host_;
};

}  // namespace

at::Generator make_core_generator(c10::DeviceIndex core) {
  return at::make_generator<CoreGenerator>(core,
                                           at::detail::createCPUGenerator());
}

at::Generator host_generator(const at::Generator& generator) {
  return generator.get<CoreGenerator>()->host();
}

}  // namespace trnscout::device
