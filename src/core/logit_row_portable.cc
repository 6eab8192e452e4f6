#include "logit_row_kernels.h"

namespace trnscout {

const RowKernels& portable_row_kernels() {
  static constexpr RowKernels kKernels = Loops<2>::kernels();
  return kKernels;
}

}  // namespace trnscout
