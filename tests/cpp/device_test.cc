// The virtual device, used from C++ without Python.

#include "trnscout/device.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "status_matchers.h"

namespace trnscout {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::int64_t kCoreBytes = std::int64_t{64} << 20;

at::Device core(int index) {
  return {at::kPrivateUse1, static_cast<c10::DeviceIndex>(index)};
}

// Order matters: what is refused before any core exists is tested first, in one
// test, because registering the device lasts as long as the process.
class DeviceEnvironment : public ::testing::Environment {
 public:
  void SetUp() override {
    EXPECT_THAT(virtual_cores().status(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("none are enabled")));
    EXPECT_THAT(core_memory(0).status(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("none are enabled")));
    EXPECT_THAT(enable_virtual_cores(0),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("cores is 0, must be in [1, 64]")));
    EXPECT_THAT(enable_virtual_cores(65),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("cores is 65, must be in [1, 64]")));
    EXPECT_THAT(enable_virtual_cores({.cores = 1, .core_memory_bytes = 0}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("core_memory_bytes is 0")));
    ASSERT_TRUE(
        enable_virtual_cores({.cores = 2, .core_memory_bytes = kCoreBytes})
            .ok());
  }
};

const auto* const kEnvironment =
    ::testing::AddGlobalTestEnvironment(new DeviceEnvironment);

TEST(VirtualCores, MayBeEnabledAgainWithEqualOptionsOnly) {
  EXPECT_TRUE(
      enable_virtual_cores({.cores = 2, .core_memory_bytes = kCoreBytes}).ok());
  EXPECT_THAT(enable_virtual_cores(3),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("so 3 cores of 25769803776 bytes cannot be")));
  EXPECT_EQ(virtual_cores()->cores, 2);
}

TEST(VirtualCores, MemoryOfAMissingCoreIsOutOfRange) {
  EXPECT_THAT(core_memory(2).status(),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("there is no core 2, only 0 to 1")));
  EXPECT_THAT(core_memory(-1).status(),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("core -1")));
}

TEST(Device, ComputesWhatTheCpuComputesBitForBit) {
  at::manual_seed(0);
  const at::Tensor a = at::randn({33, 17});
  const at::Tensor b = at::randn({17, 29});
  const at::Tensor expected = at::softmax(at::gelu(a.mm(b)), -1);
  const at::Tensor got =
      at::softmax(at::gelu(a.to(core(0)).mm(b.to(core(0)))), -1);
  EXPECT_EQ(got.device(), core(0));
  EXPECT_TRUE(at::equal(got.cpu(), expected));
}

TEST(Device, ChargesTensorsToTheirCoreAndGivesThemBack) {
  const std::int64_t before = core_memory(1)->total.present_bytes;
  {
    const at::Tensor t = at::empty({1000}, core(1));
    EXPECT_EQ(core_memory(1)->total.present_bytes, before + 4000);
    const at::Tensor view = t.slice(0, 10, 20);
    EXPECT_EQ(core_memory(1)->total.present_bytes, before + 4000);
  }
  EXPECT_EQ(core_memory(1)->total.present_bytes, before);
}

TEST(Device, RefusesPastTheLimitWithTheTableBeforeTouchingMemory) {
  EXPECT_THAT(
      [] { at::empty({kCoreBytes}, core(0)); },
      ThrowsMessage<c10::OutOfMemoryError>(AllOf(
          HasSubstr("neuron:0 is out of memory"), HasSubstr("268435456 bytes"),
          HasSubstr("aten::empty"), HasSubstr("category"))));
}

TEST(Device, RefusesAResultThatPassesTheLimitAndKeepsWorking) {
  const at::Tensor t = at::ones({kCoreBytes / 8 - 1024}, core(0));
  // nonzero's size is known only when it has run: 8 bytes for each of 4.
  EXPECT_THAT([&] { at::nonzero(t); },
              ThrowsMessage<c10::OutOfMemoryError>(HasSubstr("aten::nonzero")));
  EXPECT_LE(core_memory(0)->total.present_bytes, kCoreBytes);
  EXPECT_EQ(t.sum().item<float>(), static_cast<float>(kCoreBytes / 8 - 1024));
}

TEST(Device, ViewsShareBytesThroughEveryKindOfView) {
  const at::Tensor base = at::zeros({4, 6}, core(0));
  base.view({24}).slice(0, 0, 6).fill_(1);
  base.t().select(0, 5).fill_(2);
  base.as_strided({2}, {7}, 1).fill_(3);
  base.unfold(1, 2, 2).select(0, 3).fill_(4);
  at::diagonal(base).fill_(5);
  const at::Tensor host = at::zeros({4, 6});
  host.view({24}).slice(0, 0, 6).fill_(1);
  host.t().select(0, 5).fill_(2);
  host.as_strided({2}, {7}, 1).fill_(3);
  host.unfold(1, 2, 2).select(0, 3).fill_(4);
  at::diagonal(host).fill_(5);
  EXPECT_TRUE(at::equal(base.cpu(), host));
}

TEST(Device, InPlaceAndOutReturnTheirArgument) {
  at::Tensor t = at::ones({3}, core(0));
  EXPECT_TRUE(t.cumsum_(0).is_same(t));
  at::Tensor out = at::empty({0}, core(0));
  EXPECT_TRUE(at::kron_out(out, t, t).is_same(out));
  EXPECT_EQ(out.sizes(), (std::vector<std::int64_t>{9}));
  EXPECT_EQ(out.sum().item<float>(), 36);
}

TEST(Device, GrowsAnOutTensorOnItsCore) {
  const std::int64_t before = core_memory(1)->total.present_bytes;
  at::Tensor out = at::empty({0}, at::device(core(1)).dtype(at::kLong));
  const at::Tensor t = at::ones({5}, core(1));
  at::nonzero_out(out, t);
  EXPECT_EQ(out.device(), core(1));
  EXPECT_EQ(out.sizes(), (std::vector<std::int64_t>{5, 1}));
  EXPECT_EQ(core_memory(1)->total.present_bytes, before + 40 + 20);
}

TEST(Device, ResizeKeepsWhatWasThere) {
  at::Tensor t = at::arange(4, core(1));
  t.resize_({8}).slice(0, 4, 8).fill_(9);
  EXPECT_TRUE(
      at::equal(t.cpu(), at::tensor({0, 1, 2, 3, 9, 9, 9, 9}, at::kLong)));
}

TEST(Device, RefusesTensorsOfTwoCores) {
  const at::Tensor a = at::ones({2}, core(0));
  const at::Tensor b = at::ones({2}, core(1));
  EXPECT_THAT([&] { at::kron(a, b); },
              ThrowsMessage<c10::Error>(HasSubstr("neuron:1")));
  EXPECT_THAT([&] { at::searchsorted(a, b); },
              ThrowsMessage<c10::Error>(AllOf(HasSubstr("is on neuron:0"),
                                              HasSubstr("is on neuron:1"))));
}

TEST(Device, RefusesACpuTensorByTheNameOfItsArgument) {
  const at::Tensor a = at::ones({2}, core(0));
  EXPECT_THAT(
      [&] { at::searchsorted(a, at::ones({2})); },
      ThrowsMessage<c10::Error>(AllOf(HasSubstr("argument 'self' is on cpu"),
                                      HasSubstr("expected neuron:0"))));
}

TEST(Device, TakesIndicesFromTheHost) {
  const at::Tensor a = at::arange(5, core(0));
  const at::Tensor index = at::tensor({4, 0}, at::kLong);
  EXPECT_TRUE(at::equal(a.index({index}).cpu(), index));
}

TEST(Device, DrawsWhatTheCpuDrawsFromTheSameSeed) {
  at::manual_seed(11);
  const at::Tensor expected = at::randn({16});
  at::Generator generator = at::globalContext().defaultGenerator(core(0));
  generator.set_current_seed(11);
  EXPECT_TRUE(at::equal(at::randn({16}, core(0)).cpu(), expected));
}

TEST(Device, RefusesTheCpusGenerator) {
  EXPECT_THAT(
      [] {
        at::empty({2}, core(0))
            .normal_(0, 1, at::detail::getDefaultCPUGenerator());
      },
      ThrowsMessage<c10::Error>(
          HasSubstr("Expected a 'neuron' device type for generator")));
}

TEST(Device, SaysWhichOperatorHasNoKernel) {
  const at::Tensor t = at::ones({2, 2}, core(0));
  EXPECT_THAT([&] { t.to_sparse(); },
              ThrowsMessage<c10::Error>(HasSubstr("neuron")));
}

TEST(Device, CopiesConjugateAndNegativeViews) {
  at::manual_seed(1);
  const at::Tensor z = at::randn({4}, at::kComplexFloat);
  const at::Tensor d = z.to(core(0));
  EXPECT_TRUE(at::equal(d.conj().cpu(), z.conj().resolve_conj()));
  EXPECT_TRUE(
      at::equal(at::imag(d.conj()).clone().cpu(), at::imag(z.conj()).clone()));
}

TEST(Device, EmptyTensorsOweNothing) {
  const std::int64_t before = core_memory(0)->total.present_bytes;
  const at::Tensor t = at::empty({0, 3}, core(0));
  EXPECT_EQ(core_memory(0)->total.present_bytes, before);
  EXPECT_EQ(at::cat({t, at::ones({1, 3}, core(0))}).size(0), 1);
  EXPECT_EQ(t.sum().item<float>(), 0);
}

TEST(Device, WorksFromSeveralThreads) {
  std::vector<std::thread> threads;
  for (int index = 0; index < 2; ++index) {
    threads.emplace_back([index] {
      for (int i = 0; i < 50; ++i) {
        const at::Tensor t = at::full({64}, i, core(index));
        EXPECT_EQ((t * 2).sum().item<std::int64_t>(), 128 * i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Device, TrainsAsTheCpuDoes) {
  at::manual_seed(2);
  const at::Tensor x = at::randn({8, 3, 9, 9});
  const at::Tensor w = at::randn({4, 3, 3, 3});
  const at::Tensor b = at::randn({4});
  const auto gradients = [&](at::Device device) {
    std::vector<at::Tensor> leaves;
    for (const at::Tensor& t : {x, w, b}) {
      leaves.push_back(t.detach().to(device).requires_grad_());
    }
    at::conv2d(leaves[0], leaves[1], leaves[2]).square().sum().backward();
    for (at::Tensor& t : leaves) t = t.grad().cpu();
    return leaves;
  };
  const auto expected = gradients(at::kCPU);
  const auto got = gradients(core(0));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(at::equal(got[i], expected[i])) << "leaf " << i;
  }
}

}  // namespace
}  // namespace trnscout
