// Operators that must not take the boxed path: those that make memory, those
// that only describe it, and copies between the host and a core.

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <optional>

#include "cores.h"
#include "frame.h"

namespace trnscout::device {
namespace {

constexpr c10::DispatchKeySet kNeuronKeys(c10::DispatchKey::PrivateUse1);

void check_options(const char* op, std::optional<c10::Layout> layout,
                   std::optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      layout.value_or(c10::kStrided) == c10::kStrided, op,
      ": neuron has strided tensors only, layout is ", *layout);
  TORCH_CHECK(!pin_memory.value_or(false), op,
              ": only host memory can be pinned, the device is neuron");
}

c10::Device device_or_current(std::optional<c10::Device> device) {
  return neuron(checked_core(device.has_value() ? device->index() : -1));
}

at::Tensor empty_memory_format(c10::IntArrayRef size,
                               std::optional<c10::ScalarType> dtype,
                               std::optional<c10::Layout> layout,
                               std::optional<c10::Device> device,
                               std::optional<bool> pin_memory,
                               std::optional<c10::MemoryFormat> format) {
  check_options("empty", layout, pin_memory);
  const c10::DeviceGuard guard(device_or_current(device));
  const MadeBy booked("aten::empty");
  return at::detail::empty_generic(size, core_allocator(), kNeuronKeys,
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride,
                         std::optional<c10::ScalarType> dtype,
                         std::optional<c10::Layout> layout,
                         std::optional<c10::Device> device,
                         std::optional<bool> pin_memory) {
  check_options("empty_strided", layout, pin_memory);
  const c10::DeviceGuard guard(device_or_current(device));
  const MadeBy booked("aten::empty_strided");
  return at::detail::empty_strided_generic(size, stride, core_allocator(),
                                           kNeuronKeys,
                                           c10::dtype_or_default(dtype));
}

const at::Tensor& resize(const at::Tensor& self, c10::IntArrayRef size,
                         std::optional<c10::MemoryFormat> format) {
  const c10::DeviceGuard guard(self.device());
  const MadeBy booked("aten::resize_");
  return at::native::resize_(self, size, format);
}

at::Tensor& set_source_storage(at::Tensor& self, c10::Storage source) {
  const auto elements =
      static_cast<std::int64_t>(source.nbytes() / self.itemsize());
  return at::native::set_storage_cpu_(self, std::move(source), 0, {elements},
                                      {});
}

at::Tensor& set_empty(at::Tensor& self) {
  const c10::DeviceIndex core = self.device().index();
  return at::native::set_storage_cpu_(
      self, make_storage(allocate_block(core, 0, "aten::set_"), 0), 0, {0}, {});
}

// `to` and `from` may each be on the host or on a core; both are host memory.
void copy_bytes(const at::Tensor& from, const at::Tensor& to,
                bool non_blocking) {
  Frame frame(
      to.is_privateuseone() ? to.device().index() : from.device().index(),
      "aten::_copy_from");
  at::Tensor host_to = frame.alias(to);
  const at::Tensor host_from = frame.alias(from);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  host_to.copy_(host_from, non_blocking);
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst,
                     bool non_blocking) {
  copy_bytes(self, dst, non_blocking);
  return dst;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  if (dst.sizes() != self.sizes()) dst.resize_(self.sizes());
  copy_bytes(self, dst, /*non_blocking=*/false);
  return dst;
}

// Work on a core is done when a call returns; no stream holds on to a tensor.
void record_stream(at::Tensor&, c10::Stream) {}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", &empty_memory_format);
  library.impl("empty_strided", &empty_strided);
  library.impl("view", &at::native::view);
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("unfold", &at::native::unfold);
  library.impl("alias", &at::native::alias);
  library.impl("resize_", &resize);
  library.impl("set_", &set_empty);
  library.impl("set_.source_Storage", &set_source_storage);
  library.impl("set_.source_Storage_storage_offset",
               &at::native::set_storage_cpu_);
  library.impl("set_.source_Tensor", &at::native::set_tensor_);
  library.impl("_copy_from", &copy_from);
  library.impl("_copy_from_and_resize", &copy_from_and_resize);
  library.impl("record_stream", &record_stream);
}

// The copy reads the conjugate and negative bits itself. Resolving them first,
// as the default does, would copy again to get rid of them, without end.
TORCH_LIBRARY_IMPL(aten, Conjugate, library) {
  library.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, library) {
  library.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

}  // namespace
}  // namespace trnscout::device
