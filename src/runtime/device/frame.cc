#include "frame.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/TensorImpl.h>

#include <utility>

#include "cores.h"

namespace trnscout::device {
namespace {

using StoragePtr = c10::intrusive_ptr<c10::StorageImpl>;

// A CPU storage for a device storage without a block: an empty one, which a
// kernel may grow, or one over foreign memory, which it may not.
StoragePtr blockless_host_storage(const c10::StorageImpl& device) {
  const bool empty = device.nbytes() == 0;
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), device.nbytes(),
      c10::DataPtr(const_cast<void*>(device.data()), c10::kCPU),
      c10::GetCPUAllocator(), /*resizable=*/empty);
}

at::Tensor tensor_like(const at::Tensor& meta, c10::Storage storage,
                       c10::DispatchKey key) {
  at::Tensor out = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(key), meta.dtype());
  c10::TensorImpl* const impl = out.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(meta.sizes(), meta.strides(),
                              meta.storage_offset());
  impl->_set_conj(meta.is_conj());
  impl->_set_neg(meta.is_neg());
  if (meta.unsafeGetTensorImpl()->is_wrapped_number()) {
    impl->set_wrapped_number(true);
  }
  return out;
}

}  // namespace

const StoragePtr& Frame::host_storage(c10::StorageImpl* device) {
  for (const Bytes& known : bytes_) {
    if (known.device == device) return known.host;
  }
  CoreBlock* const block = block_of(device->data_ptr());
  bytes_.push_back(
      {device, block ? block->host : blockless_host_storage(*device)});
  return bytes_.back().host;
}

const Frame::Bytes* Frame::device_side(const c10::StorageImpl* host) const {
  for (const Bytes& known : bytes_) {
    if (known.host.get() == host) return &known;
  }
  return nullptr;
}

at::Tensor Frame::alias(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  if (!tensor.is_privateuseone()) {
    if (tensor.has_storage()) host_args_.push_back(tensor.storage());
    return tensor;
  }
  for (const Pair& known : pairs_) {
    if (known.device.is_same(tensor)) return known.host;
  }
  at::Tensor host =
      tensor_like(tensor, host_storage(tensor.storage().unsafeGetStorageImpl()),
                  c10::DispatchKey::CPU);
  pairs_.push_back({tensor, host});
  return host;
}

at::Tensor Frame::map_back(const at::Tensor& result) {
  if (!result.defined() || !result.is_cpu()) return result;
  for (const Pair& known : pairs_) {
    if (known.host.is_same(result)) return known.device;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(result.layout() == c10::kStrided, made_by_,
                              ": neuron has strided tensors only, the result "
                              "is ",
                              result.layout());
  c10::StorageImpl* const host = result.storage().unsafeGetStorageImpl();
  if (const Bytes* const known = device_side(host)) {
    return tensor_like(result,
                       c10::Storage(StoragePtr::reclaim_copy(known->device)),
                       c10::DispatchKey::PrivateUse1);
  }
  for (const c10::Storage& argument : host_args_) {
    if (argument.unsafeGetStorageImpl() == host) return result;
  }
  return tensor_like(result, adopt(result), c10::DispatchKey::PrivateUse1);
}

c10::Storage Frame::adopt(const at::Tensor& result) {
  c10::StorageImpl* const host = result.storage().unsafeGetStorageImpl();
  for (const auto& [taken, storage] : adopted_) {
    if (taken == host) return storage;
  }
  c10::Storage storage =
      make_storage(adopt_block(core_, StoragePtr::reclaim_copy(host), made_by_),
                   host->nbytes());
  check_memory(core_);
  adopted_.emplace_back(host, storage);
  return storage;
}

void Frame::refresh(const at::Tensor& written) {
  if (!written.defined() || !written.is_privateuseone()) return;
  const at::Tensor host = alias(written);
  c10::TensorImpl* const impl = written.unsafeGetTensorImpl();
  const c10::StorageImpl* const storage = host.storage().unsafeGetStorageImpl();
  const Bytes* const known = device_side(storage);
  if (known == nullptr) {
    impl->set_storage_keep_dtype(adopt(host));
  } else {
    refresh_bytes(*known);
    if (known->device != written.storage().unsafeGetStorageImpl()) {
      impl->set_storage_keep_dtype(
          c10::Storage(StoragePtr::reclaim_copy(known->device)));
    }
  }
  if (impl->sizes() != host.sizes() || impl->strides() != host.strides() ||
      impl->storage_offset() != host.storage_offset()) {
    impl->set_sizes_and_strides(host.sizes(), host.strides(),
                                host.storage_offset());
  }
}

void Frame::refresh_bytes(const Bytes& bytes) {
  const StoragePtr& host = bytes.host;
  if (host->nbytes() == bytes.device->nbytes() &&
      host->data() == bytes.device->data()) {
    return;
  }
  const std::size_t nbytes = host->nbytes();
  bytes.device->set_data_ptr_noswap(adopt_block(core_, host, made_by_));
  bytes.device->set_nbytes(nbytes);
  check_memory(core_);
}

}  // namespace trnscout::device
