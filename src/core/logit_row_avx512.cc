#include "logit_row_kernels.h"

namespace trnscout {

const RowKernels& avx512_row_kernels() {
  static constexpr RowKernels kKernels = Loops<8>::kernels();
  return kKernels;
}

}  // namespace trnscout
