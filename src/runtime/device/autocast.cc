// torch.autocast("neuron"): PyTorch's own lists of what runs in low precision.

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace at::autocast {
namespace {

at::Tensor binary_cross_entropy_refused(const at::Tensor&, const at::Tensor&,
                                        const std::optional<at::Tensor>&,
                                        std::int64_t) {
  TORCH_CHECK(false,
              "binary_cross_entropy and BCELoss are unsafe to autocast on "
              "neuron; use binary_cross_entropy_with_logits");
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define TRNSCOUT_LOWER_PRECISION(...) \
  KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define TRNSCOUT_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define TRNSCOUT_FP32_OPT(...) \
  KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define TRNSCOUT_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(TRNSCOUT_LOWER_PRECISION)
  AT_FORALL_FP32(TRNSCOUT_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(TRNSCOUT_FP32_OPT)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(
      KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(TRNSCOUT_PROMOTE)
  KERNEL_PRIVATEUSEONE(cat, promote)
  KERNEL_PRIVATEUSEONE(stack, promote)
  m.impl("binary_cross_entropy", &binary_cross_entropy_refused);
#undef TRNSCOUT_LOWER_PRECISION
#undef TRNSCOUT_FP32
#undef TRNSCOUT_FP32_OPT
#undef TRNSCOUT_PROMOTE
}

}  // namespace
}  // namespace at::autocast
