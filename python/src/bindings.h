#pragma once

#include <pybind11/pybind11.h>

namespace trnscout::python {

// One function a noun, each in the file of that name.
void bind_checkpoint(pybind11::module_& m);
void bind_memory_ledger(pybind11::module_& m);
void bind_device(pybind11::module_& m);

}  // namespace trnscout::python
