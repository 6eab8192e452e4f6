#include "trnscout/memory_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "status_matchers.h"

namespace trnscout {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;

MemoryLedger::Charge must_charge(MemoryLedger& ledger, MemoryCategory category,
                                 std::int64_t bytes, const char* made_by) {
  MemoryLedger::Charge charge;
  EXPECT_TRUE(ledger.charge(category, bytes, made_by, &charge).ok());
  return charge;
}

TEST(MemoryLedger, CountsPresentAndPeakByCategory) {
  MemoryLedger ledger({.core = 3, .limit_bytes = 1000});
  const auto weights =
      must_charge(ledger, MemoryCategory::kTensors, 600, "aten::empty");
  must_charge(ledger, MemoryCategory::kScratchpad, 300, "compiler");
  ledger.release(weights);

  EXPECT_EQ(ledger.use(MemoryCategory::kTensors),
            (MemoryUse{.present_bytes = 0, .peak_bytes = 600}));
  EXPECT_EQ(ledger.use(MemoryCategory::kScratchpad),
            (MemoryUse{.present_bytes = 300, .peak_bytes = 300}));
  EXPECT_EQ(ledger.total(),
            (MemoryUse{.present_bytes = 300, .peak_bytes = 900}));
}

TEST(MemoryLedger, FillsTheLimitToTheLastByte) {
  MemoryLedger ledger({.core = 0, .limit_bytes = 100});
  must_charge(ledger, MemoryCategory::kTensors, 100, "a");
  must_charge(ledger, MemoryCategory::kTensors, 0, "b");
  MemoryLedger::Charge charge;
  EXPECT_THAT(ledger.charge(MemoryCategory::kTensors, 1, "c", &charge),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("neuron:0 is out of memory")));
}

TEST(MemoryLedger, RefusalBooksNothingAndSaysWhoHoldsWhat) {
  MemoryLedger ledger({.core = 2, .limit_bytes = 4096});
  must_charge(ledger, MemoryCategory::kTensors, 3072, "aten::empty_strided");
  must_charge(ledger, MemoryCategory::kCollectives, 512, "all_reduce");
  MemoryLedger::Charge charge;
  EXPECT_THAT(
      ledger.charge(MemoryCategory::kTensors, 1024, "aten::mm", &charge),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(HasSubstr("neuron:2"),
                     HasSubstr("it holds 3.50 KiB (3584 bytes) of 4.00 KiB"),
                     HasSubstr("1.00 KiB (1024 bytes) more for aten::mm"),
                     HasSubstr("tensors: aten::empty_strided"),
                     HasSubstr("collectives: all_reduce"))));
  EXPECT_EQ(ledger.total().present_bytes, 3584);
  EXPECT_EQ(ledger.snapshot().refusals, 1);
}

TEST(MemoryLedger, RefusesRequestsWhoseSumWouldOverflow) {
  MemoryLedger ledger({.core = 0, .limit_bytes = 100});
  must_charge(ledger, MemoryCategory::kTensors, 50, "a");
  MemoryLedger::Charge charge;
  EXPECT_THAT(
      ledger.charge(MemoryCategory::kTensors,
                    std::numeric_limits<std::int64_t>::max(), "b", &charge),
      StatusIs(absl::StatusCode::kResourceExhausted,
               HasSubstr("9223372036854775807 bytes")));
}

TEST(MemoryLedger, RefusesNegativeBytes) {
  MemoryLedger ledger({.core = 1});
  MemoryLedger::Charge charge;
  EXPECT_THAT(ledger.charge(MemoryCategory::kTensors, -5, "a", &charge),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("core 1: cannot charge -5 bytes")));
}

TEST(MemoryLedger, CheckSeesWhatWasBookedPastTheLimit) {
  MemoryLedger ledger({.core = 0, .limit_bytes = 100});
  EXPECT_TRUE(ledger.check().ok());
  const auto charge =
      ledger.charge_unchecked(MemoryCategory::kTensors, 101, "aten::nonzero");
  EXPECT_THAT(ledger.check(), StatusIs(absl::StatusCode::kResourceExhausted,
                                       HasSubstr("aten::nonzero")));
  ledger.release(charge);
  EXPECT_TRUE(ledger.check().ok());
}

TEST(MemoryLedger, ListsHoldersLargestFirstAndForgetsThoseWithoutBlocks) {
  MemoryLedger ledger({.core = 0, .limit_bytes = 1000});
  must_charge(ledger, MemoryCategory::kTensors, 10, "small");
  must_charge(ledger, MemoryCategory::kTensors, 30, "large");
  must_charge(ledger, MemoryCategory::kTensors, 30, "large");
  ledger.release(must_charge(ledger, MemoryCategory::kTensors, 500, "gone"));
  EXPECT_THAT(ledger.snapshot().holders,
              ElementsAre(AllOf(Field(&MemoryHolder::made_by, "large"),
                                Field(&MemoryHolder::blocks, 2),
                                Field(&MemoryHolder::present_bytes, 60)),
                          Field(&MemoryHolder::made_by, "small")));
}

TEST(MemoryLedger, TableNamesOnlyTheLargestHolders) {
  MemoryLedger ledger({.core = 0, .limit_bytes = 1 << 20});
  for (int i = 0; i < 20; ++i) {
    must_charge(ledger, MemoryCategory::kTensors, 100 + i,
                ("op" + std::to_string(i)).c_str());
  }
  const std::string table = memory_table(ledger.snapshot());
  EXPECT_THAT(table, HasSubstr("tensors: op19"));
  EXPECT_THAT(table, HasSubstr("(12 smaller holders)"));
  EXPECT_THAT(table, ::testing::Not(HasSubstr("op11 ")));
}

TEST(MemoryLedger, ResetPeaksStartsAtWhatIsHeld) {
  MemoryLedger ledger({.core = 0, .limit_bytes = 1000});
  must_charge(ledger, MemoryCategory::kTensors, 100, "kept");
  ledger.release(must_charge(ledger, MemoryCategory::kTensors, 500, "gone"));
  ledger.reset_peaks();
  EXPECT_EQ(ledger.total(),
            (MemoryUse{.present_bytes = 100, .peak_bytes = 100}));
}

TEST(MemoryLedger, ResetAccumulatedKeepsWhatIsHeld) {
  MemoryLedger ledger({.core = 0, .limit_bytes = 1000});
  must_charge(ledger, MemoryCategory::kTensors, 100, "kept");
  ledger.reset_accumulated();
  const MemorySnapshot snapshot = ledger.snapshot();
  EXPECT_EQ(snapshot.charges, 0);
  EXPECT_EQ(snapshot.charged_bytes, 0);
  EXPECT_EQ(snapshot.total.present_bytes, 100);
}

// Whatever the order of charges and releases: categories and holders add up to
// the total, the total stays within the limit, and the peak is the highest
// total.
TEST(MemoryLedger, AddsUpAfterAnyOrderOfChargesAndReleases) {
  std::mt19937 random(7);
  MemoryLedger ledger({.core = 0, .limit_bytes = 5000});
  std::vector<MemoryLedger::Charge> open;
  std::int64_t highest = 0;
  for (int step = 0; step < 5000; ++step) {
    if (!open.empty() && random() % 2 == 0) {
      const std::size_t victim = random() % open.size();
      ledger.release(open[victim]);
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(victim));
    } else {
      MemoryLedger::Charge charge;
      const auto category =
          static_cast<MemoryCategory>(random() % kMemoryCategories);
      const std::string made_by = "op" + std::to_string(random() % 5);
      if (ledger.charge(category, random() % 900, made_by, &charge).ok()) {
        open.push_back(charge);
      }
    }
    const MemorySnapshot now = ledger.snapshot();
    highest = std::max(highest, now.total.present_bytes);
    std::int64_t by_category = 0;
    std::int64_t by_holder = 0;
    for (const MemoryUse& use : now.categories)
      by_category += use.present_bytes;
    for (const MemoryHolder& holder : now.holders) {
      by_holder += holder.present_bytes;
    }
    ASSERT_EQ(by_category, now.total.present_bytes);
    ASSERT_EQ(by_holder, now.total.present_bytes);
    ASSERT_LE(now.total.present_bytes, 5000);
    ASSERT_EQ(now.total.peak_bytes, highest);
  }
}

TEST(MemoryLedger, LosesNothingBetweenThreads) {
  MemoryLedger ledger({.core = 0, .limit_bytes = 1 << 30});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&ledger] {
      for (int i = 0; i < 2000; ++i) {
        const auto charge =
            must_charge(ledger, MemoryCategory::kTensors, 64, "op");
        if (i % 2 == 0) ledger.release(charge);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ledger.total().present_bytes, 4 * 1000 * 64);
  EXPECT_EQ(ledger.snapshot().charges, 8000);
}

TEST(FormatBytes, TakesTheLargestUnitThatFits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(kTrn2CoreMemoryBytes), "24.00 GiB");
}

}  // namespace
}  // namespace trnscout
