#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace trnscout::python {

/// Throws the Python exception for `status`, unless it is OK. The one place
/// where status codes become exception classes; `trnscout.errors` defines them.
inline void throw_if_error(const absl::Status& status) {
  if (status.ok()) return;
  const char* name = "Error";
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      name = "InvalidArgumentError";
      break;
    case absl::StatusCode::kOutOfRange:
      name = "OutOfRangeError";
      break;
    case absl::StatusCode::kNotFound:
      name = "NotFoundError";
      break;
    case absl::StatusCode::kResourceExhausted:
      name = "ResourceExhaustedError";
      break;
    case absl::StatusCode::kUnimplemented:
      name = "UnimplementedError";
      break;
    default:
      break;
  }
  const pybind11::object type =
      pybind11::module_::import("trnscout.errors").attr(name);
  PyErr_SetString(type.ptr(), std::string(status.message()).c_str());
  throw pybind11::error_already_set();
}

/// Returns the value, or throws as `throw_if_error`.
template <typename T>
T unwrap(absl::StatusOr<T> result) {
  throw_if_error(result.status());
  return *std::move(result);
}

}  // namespace trnscout::python
