#include "logit_row.h"

namespace trnscout {

// Built where a processor family has one set of vector instructions.
std::vector<const RowKernels*> runnable_row_kernels() {
  return {&portable_row_kernels()};
}

const RowKernels& row_kernels() { return portable_row_kernels(); }

}  // namespace trnscout
