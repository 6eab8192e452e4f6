// trnscout._core: what needs no torch.

#include "bindings.h"

PYBIND11_MODULE(_core, m) {
  m.doc() = "Parts of trnscout that start without torch.";
  trnscout::python::bind_checkpoint(m);
  trnscout::python::bind_memory_ledger(m);
}
