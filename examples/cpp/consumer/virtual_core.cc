// Multiplies two matrices on a virtual Neuron core and on the CPU, compares the
// results bit for bit, and prints what the core held.

#include <ATen/Functions.h>
#include <ATen/core/Tensor.h>

#include <cstdio>

#include "trnscout/device.h"

int main() {
  const absl::Status enabled = trnscout::enable_virtual_cores(
      {.cores = 1, .core_memory_bytes = 1 << 20});
  if (!enabled.ok()) {
    std::fprintf(stderr, "%s\n", enabled.ToString().c_str());
    return 1;
  }
  const at::Tensor a = at::rand({64, 64});
  const at::Tensor b = at::rand({64, 64});
  const at::Device core("neuron:0");
  const bool equal = at::equal(a.to(core).mm(b.to(core)).cpu(), a.mm(b));
  std::printf("equal to the CPU: %s\n%s", equal ? "yes" : "no",
              trnscout::memory_table(*trnscout::core_memory(0)).c_str());
  try {
    at::empty({1 << 20}, core);
  } catch (const c10::OutOfMemoryError& error) {
    std::printf("refused: %s\n", error.what_without_backtrace());
    return equal ? 0 : 1;
  }
  return 1;
}
