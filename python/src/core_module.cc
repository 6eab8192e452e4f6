// trnscout._core: what needs no torch.

#include "bindings.h"

PYBIND11_MODULE(_core, m) {
  m.doc() = "Parts of trnscout that start without torch.";
  trnscout::python::bind_checkpoint(m);
  trnscout::python::bind_gguf(m);
  trnscout::python::bind_mapped_checkpoint(m);
  trnscout::python::bind_memory_ledger(m);
  trnscout::python::bind_model_config(m);
  trnscout::python::bind_parallel_plan(m);
  trnscout::python::bind_topology(m);
  trnscout::python::bind_shard_plan(m);
  trnscout::python::bind_logit_view(m);
  trnscout::python::bind_logit_match(m);
  trnscout::python::bind_token_match(m);
  trnscout::python::bind_fragility(m);
  trnscout::python::bind_repetition(m);
  trnscout::python::bind_drift(m);
  trnscout::python::bind_diagnosis(m);
}
