// What a comparison of logits costs beside the same figures written plainly
// with Eigen in double, in one run on the same arrays, answers compared first.
//
// Times are for 128 positions of SmolLM2's vocabulary; the ratio of trnscout to
// eigen is the figure that counts. The record goes to verify_bench.json, or
// where --benchmark_out says.

#include <benchmark/benchmark.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "trnscout/logit_match.h"
#include "trnscout/logit_view.h"

namespace {

using Rows =
    Eigen::Array<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr std::int64_t kPositions = 128;
constexpr std::int64_t kVocab = 49152;

struct Pair {
  Rows ours;
  Rows reference;
};

// Logits of a language model's spread, with noise of a bfloat16 run.
const Pair& pair() {
  static const Pair made = [] {
    std::mt19937 random(0);
    std::normal_distribution<float> logit(0.0F, 3.0F);
    std::normal_distribution<float> noise(0.0F, 0.01F);
    Pair out{Rows(kPositions, kVocab), Rows(kPositions, kVocab)};
    for (std::int64_t i = 0; i < out.reference.size(); ++i) {
      out.reference.data()[i] = logit(random);
      out.ours.data()[i] = out.reference.data()[i] + noise(random);
    }
    return out;
  }();
  return made;
}

trnscout::LogitView view(const Rows& rows) {
  return {.data = rows.data(),
          .type = trnscout::LogitType::kFloat32,
          .positions = rows.rows(),
          .vocab = rows.cols(),
          .row_stride = rows.outerStride()};
}

struct Figures {
  double kl_mean = 0;
  double rms = 0;
  double max_abs = 0;
  double same = 0;
  std::vector<double> relative_errors;
};

double top_k_error(const Eigen::ArrayXd& difference,
                   const Eigen::ArrayXd& reference, std::int64_t k) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(reference.size()));
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = static_cast<std::int64_t>(i);
  }
  k = std::min<std::int64_t>(k, reference.size());
  std::partial_sort(order.begin(), order.begin() + k, order.end(),
                    [&](std::int64_t a, std::int64_t b) {
                      return reference[a] > reference[b];
                    });
  double error = 0;
  double divisor = 0;
  for (std::int64_t i = 0; i < k; ++i) {
    const std::int64_t at = order[static_cast<std::size_t>(i)];
    error = std::max(error, std::abs(difference[at]));
    divisor = std::max(divisor, std::abs(reference[at]));
  }
  return std::max(0.0, error - 1e-5) / divisor;
}

// The same figures, pass after pass, as one would write them first.
Figures plain(const Pair& pair) {
  Figures out;
  out.relative_errors.assign(4, 0.0);
  const std::int64_t levels[] = {5, 50, 1000, kVocab};
  for (std::int64_t row = 0; row < kPositions; ++row) {
    const Eigen::ArrayXd o = pair.ours.row(row).cast<double>();
    const Eigen::ArrayXd r = pair.reference.row(row).cast<double>();
    const Eigen::ArrayXd d = o - r;
    out.max_abs = std::max(out.max_abs, d.abs().maxCoeff());
    out.rms += d.square().sum();
    const Eigen::ArrayXd log_p =
        r - r.maxCoeff() - std::log((r - r.maxCoeff()).exp().sum());
    const Eigen::ArrayXd log_q =
        o - o.maxCoeff() - std::log((o - o.maxCoeff()).exp().sum());
    out.kl_mean += (log_p.exp() * (log_p - log_q)).sum() / kPositions;
    Eigen::Index a = 0;
    Eigen::Index b = 0;
    r.maxCoeff(&a);
    o.maxCoeff(&b);
    out.same += a == b ? 1.0 / kPositions : 0.0;
    const Eigen::ArrayXd centred = r - r.mean();
    const double slope = (centred * o).sum() / centred.square().sum();
    const Eigen::ArrayXd moved = d - (o.mean() - slope * r.mean());
    for (std::size_t level = 0; level < 4; ++level) {
      out.relative_errors[level] = std::max(
          out.relative_errors[level], top_k_error(moved, r, levels[level]));
    }
  }
  out.rms = std::sqrt(out.rms / static_cast<double>(pair.ours.size()));
  return out;
}

void check(bool agrees, const char* what) {
  if (agrees) return;
  std::fprintf(stderr, "verify_bench: %s differs from plain arithmetic\n",
               what);
  std::abort();
}

bool near(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
}

void check_answers() {
  const auto match =
      trnscout::match_logits(view(pair().ours), view(pair().reference));
  check(match.ok(), "the status");
  const Figures expected = plain(pair());
  check(near(match->kl_mean, expected.kl_mean), "KL");
  check(near(match->rms, expected.rms), "RMS");
  check(near(match->max_abs, expected.max_abs), "the largest difference");
  check(near(match->top1_agreement, expected.same), "top-1 agreement");
  for (std::size_t i = 0; i < 4; ++i) {
    check(near(match->relative_errors[i], expected.relative_errors[i]),
          "a relative error");
  }
}

void count_bytes(benchmark::State& state, double arrays) {
  state.counters["bytes_per_second"] =
      benchmark::Counter(arrays * kPositions * kVocab * sizeof(float),
                         benchmark::Counter::kIsIterationInvariantRate);
}

void trnscout_float32(benchmark::State& state) {
  const auto ours = view(pair().ours);
  const auto reference = view(pair().reference);
  for (auto _ : state) {
    benchmark::DoNotOptimize(trnscout::match_logits(ours, reference));
  }
  count_bytes(state, 2);
}

void eigen_double(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(plain(pair()));
  count_bytes(state, 2);
}

// The bound: both arrays read once.
void read_both(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize((pair().ours + pair().reference).sum());
  }
  count_bytes(state, 2);
}

void find_non_finite(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        trnscout::find_non_finite(view(pair().ours), "logits"));
  }
  count_bytes(state, 1);
}

BENCHMARK(trnscout_float32)->Unit(benchmark::kMillisecond);
BENCHMARK(eigen_double)->Unit(benchmark::kMillisecond);
BENCHMARK(read_both)->Unit(benchmark::kMillisecond);
BENCHMARK(find_non_finite)->Unit(benchmark::kMillisecond);

}  // namespace

int main(int argc, char** argv) {
  check_answers();
  // Google Benchmark takes the last of equal options: the caller's.
  std::vector<char*> arguments(argv, argv + argc);
  std::string out = "--benchmark_out=verify_bench.json";
  arguments.insert(arguments.begin() + 1, out.data());
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
