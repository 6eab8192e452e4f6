#include "trnscout/topology.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "printable.h"

namespace trnscout {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr std::int64_t kGigabyte = 1'000'000'000;

// neuron-runtime/explore/device-memory.rst: "a micro-code overhead of 96MB per
// physical Neuron Core"; its example of the report shows 96.0 MB a core with
// GB for powers of two beside it.
constexpr std::int64_t kMicrocodeBytesPerPhysicalCore = 96 * kMiB;
constexpr std::int64_t kScratchpadStepBytes = 64 * kMiB;

constexpr char kSourceDate[] = "2026-08-21";

// The facts of a chip, from which the rows at each LNC follow.
struct Chip {
  const char* neuron_core;
  std::int32_t physical_cores;
  std::int64_t memory_bytes;
  std::int64_t bandwidth_bytes_per_second;
};

constexpr Chip kNeuronCoreV2Chip = {"v2", 2, 32 * kGiB, 820 * kGiB};
constexpr Chip kTrainium2 = {"v3", 8, 96 * kGiB, 2900 * kGigabyte};
constexpr Chip kTrainium3 = {"v4", 8, 144 * kGiB, 4900 * kGigabyte};

struct InstanceSize {
  const char* name;
  std::int32_t chips;
};

Topology on_chip(const char* name, const Chip& chip, std::int32_t lnc,
                 const std::vector<InstanceSize>& sizes) {
  Topology out;
  out.name = name;
  out.neuron_core = chip.neuron_core;
  out.physical_cores_per_chip = chip.physical_cores;
  out.logical_cores_per_chip = chip.physical_cores / lnc;
  out.physical_cores_per_logical_core = lnc;
  out.chip_memory_bytes = chip.memory_bytes;
  out.chip_bandwidth_bytes_per_second = chip.bandwidth_bytes_per_second;
  out.core_memory_bytes = chip.memory_bytes / out.logical_cores_per_chip;
  out.core_bandwidth_bytes_per_second =
      chip.bandwidth_bytes_per_second / out.logical_cores_per_chip;
  out.core_microcode_bytes = lnc * kMicrocodeBytesPerPhysicalCore;
  out.scratchpad_step_bytes = kScratchpadStepBytes;
  for (const auto& [instance, chips] : sizes) {
    out.instances.push_back({instance, chips,
                             chips * out.logical_cores_per_chip,
                             chips * chip.memory_bytes});
  }
  out.source_date = kSourceDate;
  out.inferred = {
      "core_bandwidth_bytes_per_second: the chip's, divided by its logical "
      "cores"};
  return out;
}

Topology inf2() {
  Topology out = on_chip("inf2", kNeuronCoreV2Chip, 1,
                         {{"inf2.xlarge", 1},
                          {"inf2.8xlarge", 1},
                          {"inf2.24xlarge", 6},
                          {"inf2.48xlarge", 12}});
  out.tp_degrees = {1, 2, 4, 8, 24};
  out.source =
      "aws-neuron/aws-neuron-sdk: about-neuron/arch/neuron-hardware/"
      "inferentia2.rst; libraries/nxd-inference/developer_guides/"
      "feature-guide.rst";
  out.inferred.push_back(
      "instances: the source says 12 chips at most; the smaller sizes are "
      "from EC2's list");
  out.inferred.push_back(
      "scratchpad_step_bytes: printed for later generations");
  return out;
}

Topology trn1() {
  Topology out = on_chip(
      "trn1", kNeuronCoreV2Chip, 1,
      {{"trn1.2xlarge", 1}, {"trn1.32xlarge", 16}, {"trn1n.32xlarge", 16}});
  out.tp_degrees = {1, 2, 8, 16, 32};
  out.source =
      "aws-neuron/aws-neuron-sdk: about-neuron/arch/neuron-hardware/"
      "{trainium,trn1-arch}.rst; libraries/nxd-inference/developer_guides/"
      "feature-guide.rst";
  out.inferred.push_back(
      "scratchpad_step_bytes: printed for later generations");
  return out;
}

// Two cores of one bank each may take all of it; half is what both can count
// on.
void share_banks(Topology& topology) {
  topology.inferred.push_back(
      "core_memory_bytes: two cores share a bank; half of it");
  topology.inferred.push_back("tp_degrees: those of LNC 2");
  topology.inferred.push_back(
      "scratchpad_step_bytes: that of LNC 2; at LNC 1 the documentation has "
      "pages of 512 MB");
}

Topology trn2(const char* name, std::int32_t lnc) {
  Topology out = on_chip(name, kTrainium2, lnc,
                         {{"trn2.3xlarge", 1}, {"trn2.48xlarge", 16}});
  out.tp_degrees = {1, 2, 4, 8, 16, 32, 64};
  out.source =
      "aws-neuron/aws-neuron-sdk: about-neuron/arch/neuron-hardware/"
      "{trainium2,trn2-arch}.rst; about-neuron/arch/neuron-features/"
      "logical-neuroncore-config.rst; libraries/nxd-inference/"
      "developer_guides/feature-guide.rst";
  if (lnc == 1) share_banks(out);
  return out;
}

// Servers of a Gen2 UltraServer are what its 144 chips are split into. What
// EC2 rents, and under which names, was not public at the source's date.
Topology trn3(const char* name, std::int32_t lnc) {
  Topology out = on_chip(name, kTrainium3, lnc,
                         {{"trn3 UltraServer Gen2, one server", 4},
                          {"trn3 UltraServer Gen1", 64},
                          {"trn3 UltraServer Gen2", 144}});
  out.tp_degrees = {1, 2, 4, 8, 16, 32, 64};
  out.source =
      "aws-neuron/aws-neuron-sdk: about-neuron/arch/neuron-hardware/"
      "{trainium3,trn3-arch}.rst";
  if (lnc == 1) {
    share_banks(out);
  } else {
    out.inferred.push_back(
        "core_memory_bytes: the chip's, divided by its logical cores");
    out.inferred.push_back("tp_degrees: those of trn2");
  }
  return out;
}

}  // namespace

const std::vector<Topology>& topologies() {
  static const auto* const table =
      new std::vector<Topology>{inf2(),          trn1(),
                                trn2("trn2", 2), trn2("trn2-lnc1", 1),
                                trn3("trn3", 2), trn3("trn3-lnc1", 1)};
  return *table;
}

absl::StatusOr<Topology> find_topology(absl::string_view name) {
  std::vector<absl::string_view> known;
  for (const Topology& topology : topologies()) {
    if (topology.name == name) return topology;
    known.push_back(topology.name);
  }
  return absl::NotFoundError(absl::StrCat("there is no topology ",
                                          printable(name), "; known are ",
                                          absl::StrJoin(known, ", ")));
}

bool allows_tp_degree(const Topology& topology, std::int32_t tp_degree) {
  return std::binary_search(topology.tp_degrees.begin(),
                            topology.tp_degrees.end(), tp_degree);
}

absl::StatusOr<InstanceType> smallest_instance(const Topology& topology,
                                               std::int32_t cores) {
  if (cores < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cores is ", cores, "; an instance for at least 1 can be found"));
  }
  const InstanceType* largest = nullptr;
  for (const InstanceType& instance : topology.instances) {
    if (instance.logical_cores >= cores) return instance;
    largest = &instance;
  }
  return absl::OutOfRangeError(absl::StrCat(
      topology.name, " has no instance with ", cores, " logical cores; ",
      largest == nullptr ? std::string("none is listed")
                         : absl::StrCat("the largest, ", largest->name,
                                        ", has ", largest->logical_cores)));
}

}  // namespace trnscout
