#include "cores.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace trnscout::device {
namespace {

struct Core {
  explicit Core(MemoryLedger::Options options) : ledger(options) {}
  MemoryLedger ledger;
  at::Generator generator;
};

// Leaked on purpose: tensors may outlive static destructors.
std::vector<std::unique_ptr<Core>>& cores() {
  static auto* const instance = new std::vector<std::unique_ptr<Core>>;
  return *instance;
}

thread_local c10::DeviceIndex tls_current_core = 0;
thread_local absl::string_view tls_made_by;

void destroy_block(void* context) {
  auto* const block = static_cast<CoreBlock*>(context);
  block->ledger->release(block->charge);
  delete block;
}

c10::DataPtr wrap(c10::DeviceIndex core, std::unique_ptr<CoreBlock> block) {
  void* const data = block->host->mutable_data();
  return {data, block.release(), &destroy_block, neuron(core)};
}

}  // namespace

void start_cores(const VirtualCoreOptions& options) {
  for (std::int32_t core = 0; core < options.cores; ++core) {
    cores().push_back(std::make_unique<Core>(MemoryLedger::Options{
        .core = core, .limit_bytes = options.core_memory_bytes}));
    cores().back()->generator =
        make_core_generator(static_cast<c10::DeviceIndex>(core));
  }
}

c10::DeviceIndex core_count() noexcept {
  return static_cast<c10::DeviceIndex>(cores().size());
}

c10::DeviceIndex current_core() noexcept { return tls_current_core; }

void set_current_core_unchecked(c10::DeviceIndex core) noexcept {
  tls_current_core = core;
}

void set_current_core(c10::DeviceIndex core) {
  set_current_core_unchecked(checked_core(core));
}

c10::DeviceIndex checked_core(c10::DeviceIndex core) {
  if (core == -1) return tls_current_core;
  TORCH_CHECK_INDEX(core >= 0 && core < core_count(),
                    "neuron:", static_cast<int>(core),
                    " does not exist; this process has ", "cores 0 to ",
                    static_cast<int>(core_count()) - 1);
  return core;
}

MemoryLedger& ledger_of(c10::DeviceIndex core) {
  return cores()[static_cast<std::size_t>(checked_core(core))]->ledger;
}

const at::Generator& default_generator(c10::DeviceIndex core) {
  return cores()[static_cast<std::size_t>(checked_core(core))]->generator;
}

void throw_if_out_of_memory(const absl::Status& status) {
  TORCH_CHECK_WITH(OutOfMemoryError, status.ok(),
                   std::string(status.message()));
}

c10::DataPtr allocate_block(c10::DeviceIndex core, std::size_t nbytes,
                            absl::string_view made_by) {
  if (nbytes == 0) {
    return {nullptr, nullptr, &c10::detail::deleteNothing, neuron(core)};
  }
  auto block = std::make_unique<CoreBlock>();
  block->ledger = &ledger_of(core);
  throw_if_out_of_memory(block->ledger->charge(
      MemoryCategory::kTensors, static_cast<std::int64_t>(nbytes), made_by,
      &block->charge));
  try {
    block->host = c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), nbytes, c10::GetCPUAllocator(),
        /*resizable=*/true);
  } catch (...) {
    block->ledger->release(block->charge);
    throw;
  }
  return wrap(core, std::move(block));
}

c10::DataPtr adopt_block(c10::DeviceIndex core,
                         c10::intrusive_ptr<c10::StorageImpl> host,
                         absl::string_view made_by) {
  if (host->nbytes() == 0) return allocate_block(core, 0, made_by);
  auto block = std::make_unique<CoreBlock>();
  block->ledger = &ledger_of(core);
  block->charge = block->ledger->charge_unchecked(
      MemoryCategory::kTensors, static_cast<std::int64_t>(host->nbytes()),
      made_by);
  block->host = std::move(host);
  return wrap(core, std::move(block));
}

void check_memory(c10::DeviceIndex core) {
  throw_if_out_of_memory(ledger_of(core).check());
}

CoreBlock* block_of(const c10::DataPtr& data) {
  if (data.get_deleter() != &destroy_block) return nullptr;
  return static_cast<CoreBlock*>(data.get_context());
}

c10::Storage make_storage(c10::DataPtr data, std::size_t nbytes) {
  return {c10::Storage::use_byte_size_t(), nbytes, std::move(data),
          core_allocator(), /*resizable=*/true};
}

MadeBy::MadeBy(absl::string_view name) : outer_(tls_made_by) {
  tls_made_by = name;
}

MadeBy::~MadeBy() { tls_made_by = outer_; }

absl::string_view MadeBy::current() {
  return tls_made_by.empty() ? "direct allocation" : tls_made_by;
}

}  // namespace trnscout::device
