#include "trnscout/device.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceType.h>
#include <dlfcn.h>

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>

#include "absl/strings/str_format.h"
#include "device_module.h"

namespace trnscout {
namespace {

constexpr char kDeviceLibrary[] = "libtrnscout_device.so";

// The device belongs to the process, as PyTorch's own registration does.
struct Process {
  std::mutex mutex;
  std::optional<VirtualCoreOptions> options;
  DeviceModule* module = nullptr;
};

Process& process() {
  static auto* const instance = new Process;
  return *instance;
}

absl::Status check(const VirtualCoreOptions& options) {
  if (options.cores < 1 || options.cores > kMaxVirtualCores) {
    return absl::InvalidArgumentError(
        absl::StrFormat("virtual cores: cores is %d, must be in [1, %d]",
                        options.cores, kMaxVirtualCores));
  }
  if (options.core_memory_bytes < 1) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "virtual cores: core_memory_bytes is %d, must be positive",
        options.core_memory_bytes));
  }
  return absl::OkStatus();
}

std::filesystem::path beside_this_library(const char* name) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&check), &info) == 0) return name;
  return std::filesystem::path(info.dli_fname).parent_path() / name;
}

absl::StatusOr<DeviceModule*> load_device() {
  const std::filesystem::path path = beside_this_library(kDeviceLibrary);
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::NotFoundError(absl::StrFormat(
        "virtual cores: cannot load %s: %s", path.string(), dlerror()));
  }
  const auto entry = reinterpret_cast<DeviceModuleFunction>(
      dlsym(library, kDeviceModuleSymbol));
  if (entry == nullptr) {
    return absl::NotFoundError(absl::StrFormat(
        "virtual cores: %s lacks %s", path.string(), kDeviceModuleSymbol));
  }
  return entry();
}

absl::Status refuse_second_owner() {
  if (!c10::is_privateuse1_backend_registered() &&
      !at::isPrivateUse1HooksRegistered()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrFormat(
      "virtual cores: PyTorch's PrivateUse1 device is already taken by '%s' in "
      "this process; virtual cores never stand beside another device",
      c10::get_privateuse1_backend(/*lower_case=*/true)));
}

}  // namespace

absl::Status enable_virtual_cores(const VirtualCoreOptions& options) {
  if (absl::Status status = check(options); !status.ok()) return status;
  Process& state = process();
  const std::lock_guard lock(state.mutex);
  if (state.options.has_value()) {
    if (*state.options == options) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrFormat(
        "virtual cores: %d cores of %d bytes are enabled in this process, so "
        "%d cores of %d bytes cannot be",
        state.options->cores, state.options->core_memory_bytes, options.cores,
        options.core_memory_bytes));
  }
  if (absl::Status status = refuse_second_owner(); !status.ok()) return status;
  absl::StatusOr<DeviceModule*> module = load_device();
  if (!module.ok()) return module.status();
  if (absl::Status status = (*module)->start(options); !status.ok()) {
    return status;
  }
  state.module = *module;
  state.options = options;
  return absl::OkStatus();
}

absl::Status enable_virtual_cores(std::int32_t cores) {
  return enable_virtual_cores(VirtualCoreOptions{.cores = cores});
}

absl::StatusOr<VirtualCoreOptions> virtual_cores() {
  Process& state = process();
  const std::lock_guard lock(state.mutex);
  if (!state.options.has_value()) {
    return absl::FailedPreconditionError(
        "virtual cores: none are enabled in this process; call "
        "enable_virtual_cores first");
  }
  return *state.options;
}

absl::StatusOr<MemorySnapshot> core_memory(std::int32_t core) {
  const absl::StatusOr<VirtualCoreOptions> options = virtual_cores();
  if (!options.ok()) return options.status();
  if (core < 0 || core >= options->cores) {
    return absl::OutOfRangeError(
        absl::StrFormat("virtual cores: there is no core %d, only 0 to %d",
                        core, options->cores - 1));
  }
  return process().module->ledger(core).snapshot();
}

}  // namespace trnscout
