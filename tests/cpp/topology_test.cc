#include "trnscout/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "status_matchers.h"
#include "trnscout/memory_ledger.h"

namespace trnscout {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr std::int64_t kMiB = std::int64_t{1} << 20;

Topology found(const std::string& name) {
  auto topology = find_topology(name);
  EXPECT_THAT(topology, IsOk());
  return topology.ok() ? *topology : Topology();
}

TEST(Topology, GivesTrn2As24GiBACoreNot24GB) {
  const Topology trn2 = found("trn2");
  EXPECT_EQ(trn2.core_memory_bytes, 25'769'803'776);
  EXPECT_EQ(trn2.core_memory_bytes, kTrn2CoreMemoryBytes);
  EXPECT_EQ(trn2.chip_memory_bytes, 96 * kGiB);
  EXPECT_EQ(trn2.neuron_core, "v3");
  EXPECT_EQ(trn2.physical_cores_per_chip, 8);
  EXPECT_EQ(trn2.logical_cores_per_chip, 4);
  EXPECT_EQ(trn2.physical_cores_per_logical_core, 2);
  EXPECT_EQ(trn2.core_bandwidth_bytes_per_second, 725'000'000'000);
  EXPECT_EQ(trn2.core_microcode_bytes, 192 * kMiB);
  EXPECT_EQ(trn2.scratchpad_step_bytes, 64 * kMiB);
}

TEST(Topology, SaysHowMuchEachGenerationHasACore) {
  EXPECT_EQ(found("inf2").core_memory_bytes, 16 * kGiB);
  EXPECT_EQ(found("trn1").core_memory_bytes, 16 * kGiB);
  EXPECT_EQ(found("trn2-lnc1").core_memory_bytes, 12 * kGiB);
  EXPECT_EQ(found("trn3").core_memory_bytes, 36 * kGiB);
  EXPECT_EQ(found("trn3-lnc1").core_memory_bytes, 18 * kGiB);
  EXPECT_EQ(found("trn1").core_bandwidth_bytes_per_second, 410 * kGiB);
  EXPECT_EQ(found("trn1").core_microcode_bytes, 96 * kMiB);
}

TEST(Topology, ListsTheDegreesThatTheRuntimeTakes) {
  EXPECT_THAT(found("inf2").tp_degrees, ElementsAre(1, 2, 4, 8, 24));
  EXPECT_THAT(found("trn1").tp_degrees, ElementsAre(1, 2, 8, 16, 32));
  EXPECT_THAT(found("trn2").tp_degrees, ElementsAre(1, 2, 4, 8, 16, 32, 64));
  EXPECT_THAT(found("trn3").inferred, Contains(StartsWith("tp_degrees:")));
  EXPECT_THAT(found("trn2").inferred, Not(Contains(StartsWith("tp_degrees:"))));
}

// A model that needs three cores gets 8 on trn1 and 4 on trn2.
TEST(Topology, RefusesDegreesThatAreNotListed) {
  const Topology trn1 = found("trn1");
  const Topology trn2 = found("trn2");
  for (const std::int32_t degree : {-1, 0, 3, 4, 6, 12, 24, 64}) {
    EXPECT_FALSE(allows_tp_degree(trn1, degree)) << degree;
  }
  for (const std::int32_t degree : {3, 6, 12, 24, 128}) {
    EXPECT_FALSE(allows_tp_degree(trn2, degree)) << degree;
  }
  EXPECT_TRUE(allows_tp_degree(trn1, 8));
  EXPECT_TRUE(allows_tp_degree(trn2, 4));
}

TEST(Topology, HoldsTogetherInEveryRow) {
  EXPECT_EQ(topologies().size(), 6u);
  for (const Topology& row : topologies()) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(found(row.name), row);
    EXPECT_EQ(row.core_memory_bytes * row.logical_cores_per_chip,
              row.chip_memory_bytes);
    EXPECT_EQ(row.core_bandwidth_bytes_per_second * row.logical_cores_per_chip,
              row.chip_bandwidth_bytes_per_second);
    EXPECT_EQ(row.logical_cores_per_chip * row.physical_cores_per_logical_core,
              row.physical_cores_per_chip);
    EXPECT_THAT(row.tp_degrees, Not(IsEmpty()));
    EXPECT_TRUE(std::is_sorted(row.tp_degrees.begin(), row.tp_degrees.end()));
    EXPECT_TRUE(
        std::is_sorted(row.instances.begin(), row.instances.end(),
                       [](const InstanceType& a, const InstanceType& b) {
                         return a.logical_cores < b.logical_cores;
                       }));
    EXPECT_THAT(row.instances, Not(IsEmpty()));
    EXPECT_THAT(row.source, StartsWith("aws-neuron/aws-neuron-sdk: "));
    EXPECT_EQ(row.source_date.size(), std::string("2026-08-21").size());
  }
}

TEST(FindTopology, ListsTheKnownNamesForOneThatIsNot) {
  EXPECT_THAT(find_topology("trn9"),
              StatusIs(absl::StatusCode::kNotFound,
                       "there is no topology trn9; known are inf2, trn1, "
                       "trn2, trn2-lnc1, trn3, trn3-lnc1"));
  EXPECT_THAT(find_topology(""),
              StatusIs(absl::StatusCode::kNotFound,
                       StartsWith("there is no topology \"\"; known are")));
}

TEST(SmallestInstance, HasAsManyLogicalCores) {
  const auto name = [](const Topology& topology, std::int32_t cores) {
    const auto instance = smallest_instance(topology, cores);
    return instance.ok() ? instance->name : instance.status().ToString();
  };
  const Topology trn2 = found("trn2");
  EXPECT_EQ(name(trn2, 1), "trn2.3xlarge");
  EXPECT_EQ(name(trn2, 4), "trn2.3xlarge");
  EXPECT_EQ(name(trn2, 5), "trn2.48xlarge");
  EXPECT_EQ(name(trn2, 64), "trn2.48xlarge");
  EXPECT_EQ(name(found("trn2-lnc1"), 8), "trn2.3xlarge");
  EXPECT_EQ(name(found("inf2"), 12), "inf2.24xlarge");
  const auto largest = smallest_instance(trn2, 64);
  ASSERT_THAT(largest, IsOk());
  EXPECT_EQ(largest->logical_cores, 64);
  EXPECT_EQ(largest->chips, 16);
  EXPECT_EQ(largest->device_memory_bytes, 1536 * kGiB);
}

TEST(SmallestInstance, RefusesFewerThanOneCore) {
  EXPECT_THAT(smallest_instance(found("trn2"), 0),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "cores is 0; an instance for at least 1 can be found"));
}

TEST(SmallestInstance, NamesTheLargestWhereNoneIsLargeEnough) {
  EXPECT_THAT(
      smallest_instance(found("trn2"), 65),
      StatusIs(absl::StatusCode::kOutOfRange,
               "trn2 has no instance with 65 logical cores; the largest, "
               "trn2.48xlarge, has 64"));
  Topology none;
  none.name = "none";
  EXPECT_THAT(smallest_instance(none, 1),
              StatusIs(absl::StatusCode::kOutOfRange,
                       "none has no instance with 1 logical cores; none is "
                       "listed"));
}

}  // namespace
}  // namespace trnscout
