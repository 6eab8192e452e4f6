#include "logit_row_kernels.h"

namespace trnscout {

const RowKernels& avx2_row_kernels() {
  static constexpr RowKernels kKernels = Loops<4>::kernels();
  return kKernels;
}

}  // namespace trnscout
