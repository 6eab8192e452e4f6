// Operators that reach a core in another form than they reach the CPU. Each is
// led back to the CPU's own kernel; without it, results differ from the CPU's
// or the operator fails.

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <array>
#include <cstdint>

#include "fallback.h"

namespace trnscout::device {
namespace {

using torch::jit::Stack;

c10::OperatorHandle operator_named(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

// Same arguments as `convolution`, which picks the CPU's backend.
void convolution(const c10::OperatorHandle& op, Stack* stack) {
  static const c10::OperatorHandle kernel = operator_named("aten::convolution");
  run_on_core_as(op, kernel, stack);
}

// `convolution_backward` takes one argument more, the sizes of the bias.
void convolution_backward(const c10::OperatorHandle& op, Stack* stack) {
  constexpr std::ptrdiff_t kBiasSizes = 3;
  const auto first = stack->end() - static_cast<std::ptrdiff_t>(
                                        op.schema().arguments().size());
  const std::int64_t channels = first->toTensor().size(1);
  stack->insert(first + kBiasSizes,
                c10::IValue(c10::List<std::int64_t>({channels})));
  static const c10::OperatorHandle kernel =
      operator_named("aten::convolution_backward");
  run_on_core_as(op, kernel, stack);
}

// The CPU has no histogram of integers, and Transformers counts tokens per
// expert with one on accelerators. Doubles hold every count and edge below
// 2^53.
at::Tensor histc(const at::Tensor& self, std::int64_t bins,
                 const c10::Scalar& min, const c10::Scalar& max) {
  static const c10::OperatorHandle kernel = operator_named("aten::histc");
  const auto on_core = [&](const at::Tensor& values) {
    Stack stack{values, bins, min, max};
    run_on_core(kernel, &stack);
    return stack.front().toTensor();
  };
  if (!c10::isIntegralType(self.scalar_type(), /*includeBool=*/true)) {
    return on_core(self);
  }
  return on_core(self.to(c10::kDouble)).to(self.scalar_type());
}

at::Tensor& histc_out(const at::Tensor& self, std::int64_t bins,
                      const c10::Scalar& min, const c10::Scalar& max,
                      at::Tensor& out) {
  const at::Tensor counts = histc(self, bins, min, max);
  return out.resize_(counts.sizes()).copy_(counts);
}

// PyTorch decomposes these on a device without a kernel, while the CPU has one
// that rounds differently. The list is checked against the dispatcher by
// test_device_versions.py.
constexpr std::array kDecomposed = {"native_layer_norm",
                                    "native_group_norm",
                                    "_stack",
                                    "_stack.out",
                                    "addr",
                                    "addr.out",
                                    "any.dims",
                                    "any.dims_out",
                                    "all.dims",
                                    "all.dims_out",
                                    "linalg__powsum"};

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  for (const char* const name : kDecomposed) {
    library.impl(name,
                 torch::CppFunction::makeFromBoxedFunction<&run_on_core>());
  }
  library.impl("convolution_overrideable",
               torch::CppFunction::makeFromBoxedFunction<&convolution>());
  library.impl(
      "convolution_backward_overrideable",
      torch::CppFunction::makeFromBoxedFunction<&convolution_backward>());
  library.impl("histc", &histc);
  library.impl("histc.out", &histc_out);
}

}  // namespace
}  // namespace trnscout::device
