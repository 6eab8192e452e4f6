// Boxed execution: every operator without a kernel of its own comes here.

#include "fallback.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/jit_type.h>
#include <c10/util/SmallVector.h>
#include <torch/library.h>

#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "cores.h"
#include "frame.h"

namespace trnscout::device {
namespace {

using torch::jit::Stack;

// The tensors of one call, in order, with the argument each one came by.
template <typename Visit>
void for_each_tensor(c10::ArrayRef<c10::IValue> values, const Visit& visit) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const c10::IValue& value = values[i];
    if (value.isTensor()) {
      visit(i, value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& t : value.toTensorList()) visit(i, t);
    } else if (value.isOptionalTensorList()) {
      for (const std::optional<at::Tensor>& t : value.toOptionalTensorList()) {
        if (t.has_value()) visit(i, *t);
      }
    }
  }
}

std::optional<c10::DeviceIndex> core_of_devices(
    c10::ArrayRef<c10::IValue> values) {
  for (const c10::IValue& value : values) {
    if (value.isDevice() && value.toDevice().is_privateuseone()) {
      return checked_core(value.toDevice().index());
    }
  }
  return std::nullopt;
}

// As on every accelerator, an index may come from the host.
bool may_be_on_host(const c10::FunctionSchema& schema, std::size_t argument) {
  return schema.arguments()[argument].name() == "indices" &&
         absl::StrContains(schema.name(), "index");
}

// Finds the core a call runs on, and refuses a call whose tensors are
// elsewhere.
c10::DeviceIndex core_of_call(const c10::FunctionSchema& schema,
                              c10::ArrayRef<c10::IValue> arguments) {
  std::optional<c10::Device> core;
  std::size_t core_argument = 0;
  const auto name = [&schema](std::size_t i) -> const std::string& {
    return schema.arguments()[i].name();
  };
  for_each_tensor(arguments, [&](std::size_t i, const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_privateuseone()) return;
    if (!core.has_value()) {
      core = tensor.device();
      core_argument = i;
    }
    TORCH_CHECK(tensor.device() == *core, schema.name(), ": argument '",
                name(core_argument), "' is on ", *core, " but argument '",
                name(i), "' is on ", tensor.device(),
                "; one operator runs on one core");
  });
  if (!core.has_value()) {
    return core_of_devices(arguments).value_or(current_core());
  }
  for_each_tensor(arguments, [&](std::size_t i, const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.is_privateuseone()) return;
    TORCH_CHECK(
        tensor.is_cpu() && (tensor.dim() == 0 || may_be_on_host(schema, i)),
        schema.name(), ": argument '", name(i), "' is on ", tensor.device(),
        ", expected ", *core);
  });
  return core->index();
}

bool is_optional_generator(const c10::Type& type) {
  const auto* const optional = type.castRaw<c10::OptionalType>();
  return optional != nullptr &&
         optional->getElementType()->kind() == c10::TypeKind::GeneratorType;
}

c10::IValue on_host(const c10::Argument& argument, const c10::IValue& value,
                    c10::DeviceIndex core, Frame& frame) {
  if (value.isTensor()) return frame.alias(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> out;
    for (const at::Tensor& t : value.toTensorList()) {
      out.push_back(frame.alias(t));
    }
    return out;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> out;
    for (const std::optional<at::Tensor>& t : value.toOptionalTensorList()) {
      out.push_back(t.has_value() ? std::optional(frame.alias(*t)) : t);
    }
    return out;
  }
  if (value.isDevice()) return c10::Device(c10::kCPU);
  if (value.isGenerator()) {
    const at::Generator generator = value.toGenerator();
    TORCH_CHECK(generator.device().is_privateuseone(),
                "Expected a 'neuron' device type for generator but found '",
                generator.device().type(), "'");
    return host_generator(generator);
  }
  if (value.isNone() && is_optional_generator(*argument.type())) {
    return host_generator(default_generator(core));
  }
  return value;
}

c10::IValue on_core(const c10::IValue& value, Frame& frame) {
  if (value.isTensor()) return frame.map_back(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> out;
    for (const at::Tensor& t : value.toTensorList()) {
      out.push_back(frame.map_back(t));
    }
    return out;
  }
  return value;
}

void refresh_written(const c10::FunctionSchema& schema,
                     c10::ArrayRef<c10::IValue> arguments, Frame& frame) {
  for_each_tensor(arguments, [&](std::size_t i, const at::Tensor& tensor) {
    const c10::AliasInfo* const alias = schema.arguments()[i].alias_info();
    if (alias != nullptr && alias->isWrite()) frame.refresh(tensor);
  });
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_core>());
}

}  // namespace

void run_on_core(const c10::OperatorHandle& op, Stack* stack) {
  run_on_core_as(op, op, stack);
}

void run_on_core_as(const c10::OperatorHandle& asked,
                    const c10::OperatorHandle& op, Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string& made_by = asked.schema().name();
  TORCH_CHECK_NOT_IMPLEMENTED(
      op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU), made_by,
      " is not implemented for neuron: PyTorch has no CPU kernel for it");
  const std::size_t count = schema.arguments().size();
  const std::size_t first = stack->size() - count;
  // The originals stay alive and unchanged until results are mapped back.
  const c10::SmallVector<c10::IValue, 8> arguments(
      stack->begin() + static_cast<std::ptrdiff_t>(first), stack->end());
  const c10::DeviceIndex core = core_of_call(schema, arguments);
  const MadeBy booked(made_by);
  Frame frame(core, made_by);
  for (std::size_t i = 0; i < count; ++i) {
    c10::IValue& slot = (*stack)[first + i];
    slot = on_host(schema.arguments()[i], arguments[i], core, frame);
  }
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  }
  refresh_written(schema, arguments, frame);
  for (std::size_t i = first; i < stack->size(); ++i) {
    (*stack)[i] = on_core((*stack)[i], frame);
  }
}

}  // namespace trnscout::device
