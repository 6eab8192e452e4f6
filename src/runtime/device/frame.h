#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/util/SmallVector.h>

#include "absl/strings/string_view.h"

namespace trnscout::device {

/// One call of a CPU kernel on a core's tensors.
///
/// `alias` hands out CPU tensors over the device's own bytes; after the kernel
/// ran, `refresh` carries what it did to written arguments back, and `map_back`
/// turns its results into device tensors. Nothing is copied: a result in an
/// argument's storage becomes a view of that argument, any other is taken over.
///
/// Threads: a frame lives in one call, on one thread.
class Frame {
 public:
  /// Results go to `core`; allocations are booked under `made_by`.
  Frame(c10::DeviceIndex core, absl::string_view made_by)
      : core_(core), made_by_(made_by) {}
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  /// Returns the CPU tensor for `tensor`: one for each tensor, so a kernel that
  /// asks "is out self" gets the true answer. CPU and undefined tensors come
  /// back unchanged.
  at::Tensor alias(const at::Tensor& tensor);

  /// Returns the device tensor for a kernel's result.
  at::Tensor map_back(const at::Tensor& result);

  /// Makes `written`, an argument the kernel may have resized or given another
  /// storage, agree with its alias. Throws torch.OutOfMemoryError if it grew
  /// past the core's limit.
  void refresh(const at::Tensor& written);

 private:
  struct Bytes {
    c10::StorageImpl* device;
    c10::intrusive_ptr<c10::StorageImpl> host;
  };
  struct Pair {
    at::Tensor device;
    at::Tensor host;
  };

  const c10::intrusive_ptr<c10::StorageImpl>& host_storage(
      c10::StorageImpl* device);
  const Bytes* device_side(const c10::StorageImpl* host) const;
  c10::Storage adopt(const at::Tensor& result);
  void refresh_bytes(const Bytes& bytes);

  const c10::DeviceIndex core_;
  const absl::string_view made_by_;
  c10::SmallVector<Bytes, 8> bytes_;
  c10::SmallVector<Pair, 8> pairs_;
  // Device storages made in this call, by the CPU storage they took over.
  c10::SmallVector<std::pair<c10::StorageImpl*, c10::Storage>, 4> adopted_;
  c10::SmallVector<c10::Storage, 4> host_args_;
};

}  // namespace trnscout::device
