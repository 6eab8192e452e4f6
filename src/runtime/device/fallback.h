#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace trnscout::device {

/// Runs `op` on a core: PyTorch's CPU kernel, on the core's own bytes.
///
/// Errors: what the kernel raises; c10::Error when tensors lie on two cores,
///         when a tensor with dimensions lies on the CPU, or when PyTorch has
///         no CPU kernel; torch.OutOfMemoryError past the core's limit.
/// Cost:   one to two microseconds beside the kernel; copies nothing.
void run_on_core(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Runs `op` in the place of `asked`, whose arguments are on the stack in the
/// order that `op` takes them.
void run_on_core_as(const c10::OperatorHandle& asked,
                    const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace trnscout::device
