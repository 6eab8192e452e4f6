#pragma once

#include <pybind11/pybind11.h>

namespace trnscout::python {

// One function a noun, each in the file of that name.
void bind_checkpoint(pybind11::module_& m);
void bind_device(pybind11::module_& m);
void bind_diagnosis(pybind11::module_& m);
void bind_drift(pybind11::module_& m);
void bind_fragility(pybind11::module_& m);
void bind_gguf(pybind11::module_& m);
void bind_logit_match(pybind11::module_& m);
void bind_logit_view(pybind11::module_& m);
void bind_mapped_checkpoint(pybind11::module_& m);
void bind_memory_ledger(pybind11::module_& m);
void bind_model_config(pybind11::module_& m);
void bind_parallel_plan(pybind11::module_& m);
void bind_repetition(pybind11::module_& m);
void bind_shard_plan(pybind11::module_& m);
void bind_token_match(pybind11::module_& m);
void bind_topology(pybind11::module_& m);

}  // namespace trnscout::python
