#include "logits_argument.h"

#include <ATen/dlpack.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "status.h"

namespace trnscout::python {
namespace py = pybind11;
namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& reason) {
  throw_if_error(absl::InvalidArgumentError(absl::StrCat(name, ": ", reason)));
  throw std::logic_error("not reached");
}

// Strides count elements.
LogitView view_of(const void* data, LogitType type,
                  absl::Span<const std::int64_t> shape,
                  absl::Span<const std::int64_t> strides,
                  const std::string& name) {
  if (shape.empty() || shape.size() > 2) {
    refuse(name, absl::StrCat("has ", shape.size(),
                              " dimensions, must be [vocab] or [positions, "
                              "vocab]"));
  }
  const bool one_row = shape.size() == 1;
  LogitView view{.data = data,
                 .type = type,
                 .positions = one_row ? 1 : shape.front(),
                 .vocab = shape.back(),
                 .row_stride = one_row ? 0 : strides.front()};
  if (view.vocab > 1 && strides.back() != 1) {
    refuse(name, absl::StrCat("logits of a row lie ", strides.back(),
                              " elements apart, must lie side by side"));
  }
  return view;
}

LogitType type_of(const DLDataType& type, const std::string& name) {
  if (type.lanes == 1 && type.code == kDLFloat && type.bits == 32) {
    return LogitType::kFloat32;
  }
  if (type.lanes == 1 && type.code == kDLFloat && type.bits == 16) {
    return LogitType::kFloat16;
  }
  if (type.lanes == 1 && type.code == kDLBfloat && type.bits == 16) {
    return LogitType::kBFloat16;
  }
  refuse(name, absl::StrCat("elements have DLPack type ", int{type.code},
                            " of ", int{type.bits},
                            " bits, must be float32, bfloat16 or float16"));
}

}  // namespace

LogitsArgument::LogitsArgument(const py::object& logits,
                               const std::string& name) {
  if (PyObject_CheckBuffer(logits.ptr()) != 0) {
    read_buffer(logits, name);
  } else if (py::hasattr(logits, "__dlpack__")) {
    read_dlpack(logits, name);
  } else {
    throw py::type_error(name + ": " +
                         std::string(py::str(py::type::of(logits))) +
                         " is neither a buffer nor offers __dlpack__");
  }
}

void LogitsArgument::read_buffer(const py::object& logits,
                                 const std::string& name) {
  buffer_ = py::reinterpret_borrow<py::buffer>(logits).request();
  const std::string format =
      buffer_.format.starts_with('<') || buffer_.format.starts_with('=')
          ? buffer_.format.substr(1)
          : buffer_.format;
  if (format != "f" && format != "e") {
    refuse(name, "elements have format '" + buffer_.format +
                     "', must be float32, bfloat16 or float16");
  }
  std::vector<std::int64_t> shape(buffer_.shape.begin(), buffer_.shape.end());
  std::vector<std::int64_t> strides;
  for (const py::ssize_t bytes : buffer_.strides) {
    if (bytes % buffer_.itemsize != 0) {
      refuse(name, absl::StrCat("a stride of ", bytes,
                                " bytes is no multiple of ", buffer_.itemsize));
    }
    strides.push_back(bytes / buffer_.itemsize);
  }
  view_ = view_of(buffer_.ptr,
                  format == "f" ? LogitType::kFloat32 : LogitType::kFloat16,
                  shape, strides, name);
}

void LogitsArgument::read_dlpack(const py::object& logits,
                                 const std::string& name) {
  const auto device =
      logits.attr("__dlpack_device__")().cast<std::pair<int, int>>();
  if (device.first != kDLCPU) {
    refuse(name, "logits are not in the CPU's memory; copy them there");
  }
  // A capsule that is not renamed frees what it holds itself.
  owner_ = logits.attr("__dlpack__")();
  const auto* const managed = static_cast<const DLManagedTensor*>(
      PyCapsule_GetPointer(owner_.ptr(), "dltensor"));
  if (managed == nullptr) throw py::error_already_set();
  const DLTensor& tensor = managed->dl_tensor;
  const auto dimensions = static_cast<std::size_t>(tensor.ndim);
  const absl::Span<const std::int64_t> shape(tensor.shape, dimensions);
  std::vector<std::int64_t> strides(dimensions, 1);
  for (std::size_t i = dimensions; i-- > 0;) {
    if (tensor.strides != nullptr) {
      strides[i] = tensor.strides[i];
    } else if (i + 1 < dimensions) {
      strides[i] = strides[i + 1] * shape[i + 1];
    }
  }
  view_ =
      view_of(static_cast<const std::byte*>(tensor.data) + tensor.byte_offset,
              type_of(tensor.dtype, name), shape, strides, name);
}

}  // namespace trnscout::python
