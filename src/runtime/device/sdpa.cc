// Which attention kernel scaled_dot_product_attention takes: the CPU's choice.

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>
#include <optional>

namespace {

// A CPU tensor of the same geometry without bytes. The choice is asked for fake
// tensors too, while torch.compile traces, so it must not look at data.
at::Tensor shell(const at::Tensor& tensor) {
  at::Tensor out = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(c10::Storage::use_byte_size_t(), 0,
                   c10::DataPtr(nullptr, c10::kCPU)),
      c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  out.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(),
                                                   tensor.strides());
  if (tensor.requires_grad())
    out.unsafeGetTensorImpl()->set_requires_grad(true);
  return out;
}

std::int64_t choose_as_cpu(const at::Tensor& query, const at::Tensor& key,
                           const at::Tensor& value,
                           const std::optional<at::Tensor>& mask,
                           double dropout, bool causal,
                           std::optional<double> scale, bool gqa) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::impl::ExcludeDispatchKeyGuard no_python(c10::DispatchKeySet(
      {c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
       c10::DispatchKey::PythonDispatcher}));
  std::optional<at::Tensor> mask_shell;
  if (mask.has_value() && mask->defined()) mask_shell = shell(*mask);
  return at::_fused_sdp_choice(shell(query), shell(key), shell(value),
                               mask_shell, dropout, causal, scale, gqa);
}

}  // namespace

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &choose_as_cpu)
}  // namespace at::native
