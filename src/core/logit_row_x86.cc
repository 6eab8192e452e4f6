#include "logit_row.h"

namespace trnscout {

std::vector<const RowKernels*> runnable_row_kernels() {
  std::vector<const RowKernels*> out = {&portable_row_kernels()};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    out.push_back(&avx2_row_kernels());
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    out.push_back(&avx512_row_kernels());
  }
  return out;
}

const RowKernels& row_kernels() {
  static const RowKernels& fastest = *runnable_row_kernels().back();
  return fastest;
}

}  // namespace trnscout
