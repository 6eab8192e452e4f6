// What a virtual core costs beside PyTorch's own CPU device, in one run: the
// same operators on the same shapes, answers compared first.
//
// Times are per call; the ratio of neuron to cpu is the figure that counts, for
// the machine's speed falls out of it. The record goes to device_bench.json, or
// where --benchmark_out says.

#include <ATen/ATen.h>
#include <benchmark/benchmark.h>
#include <c10/core/InferenceMode.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "trnscout/device.h"

namespace {

at::Device device_of(const benchmark::State& state) {
  return state.range(0) == 0 ? at::Device(at::kCPU)
                             : at::Device(at::kPrivateUse1, 0);
}

// Structured operator: our allocation, then the kernel through the boxed path.
at::Tensor add(const at::Tensor& a, const at::Tensor& b) { return a + b; }
// Unstructured: the kernel allocates and the result is taken over.
at::Tensor embedding(const at::Tensor& a, const at::Tensor& b) {
  return at::embedding(a, b.flatten().slice(0, 0, 4).abs().to(at::kLong));
}
at::Tensor matrix_product(const at::Tensor& a, const at::Tensor& b) {
  return a.mm(b);
}

template <at::Tensor (*kOperator)(const at::Tensor&, const at::Tensor&)>
void run(benchmark::State& state) {
  const c10::InferenceMode no_grad;
  const std::int64_t side = state.range(1);
  at::manual_seed(0);
  const at::Tensor a = at::rand({side, side});
  const at::Tensor b = at::rand({side, side});
  const at::Tensor on_a = a.to(device_of(state));
  const at::Tensor on_b = b.to(device_of(state));
  if (!at::equal(kOperator(on_a, on_b).cpu(), kOperator(a, b))) {
    std::fputs("device_bench: the core's answer differs from the CPU's\n",
               stderr);
    std::abort();
  }
  for (auto _ : state) benchmark::DoNotOptimize(kOperator(on_a, on_b));
  state.SetLabel(device_of(state).str());
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"neuron", "side"});
  for (const std::int64_t side : {8, 64, 512}) {
    for (const std::int64_t device : {0, 1}) bench->Args({device, side});
  }
}

BENCHMARK(run<add>)->Name("add")->Apply(sizes);
BENCHMARK(run<embedding>)->Name("embedding")->Apply(sizes);
BENCHMARK(run<matrix_product>)->Name("mm")->Apply(sizes);

}  // namespace

int main(int argc, char** argv) {
  const absl::Status status = trnscout::enable_virtual_cores(1);
  if (!status.ok()) {
    std::fprintf(stderr, "device_bench: %s\n", status.ToString().c_str());
    return 1;
  }
  // Google Benchmark takes the last of equal options: the caller's.
  std::vector<char*> arguments(argv, argv + argc);
  std::string out = "--benchmark_out=device_bench.json";
  arguments.insert(arguments.begin() + 1, out.data());
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
