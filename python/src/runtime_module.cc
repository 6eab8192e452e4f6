// trnscout._runtime: what needs torch; import torch first.

#include "bindings.h"

PYBIND11_MODULE(_runtime, m) {
  m.doc() = "Parts of trnscout on libtorch.";
  // MemorySnapshot is bound there.
  pybind11::module_::import("trnscout._core");
  trnscout::python::bind_device(m);
}
