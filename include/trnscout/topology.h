#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace trnscout {

/// One size of machine that AWS rents out.
struct InstanceType {
  std::string name;
  std::int32_t chips = 0;
  std::int32_t logical_cores = 0;        ///< at the topology's LNC
  std::int64_t device_memory_bytes = 0;  ///< HBM of all its chips

  friend bool operator==(const InstanceType&, const InstanceType&) = default;
};

/// What a generation of chips gives to one logical core.
///
/// The Neuron documentation prints MB and GB for powers of two (it equates
/// 512 MB with 536870912 bytes), so memory here is in MiB and GiB, in bytes.
/// Bandwidth is taken as it is printed: GiB/s for Inf2 and Trn1, TB/s later.
struct Topology {
  std::string name;         ///< for example "trn2" or "trn2-lnc1"
  std::string neuron_core;  ///< generation of the core: "v2", "v3", "v4"
  std::int32_t physical_cores_per_chip = 0;
  std::int32_t logical_cores_per_chip = 0;
  std::int32_t physical_cores_per_logical_core = 0;  ///< the LNC
  std::int64_t chip_memory_bytes = 0;
  std::int64_t chip_bandwidth_bytes_per_second = 0;
  std::int64_t core_memory_bytes = 0;  ///< of a logical core, before overhead
  std::int64_t core_bandwidth_bytes_per_second = 0;  ///< of a logical core
  std::int64_t core_microcode_bytes = 0;   ///< the runtime's, a logical core
  std::int64_t scratchpad_step_bytes = 0;  ///< the scratchpad grows in these
  std::vector<std::int32_t> tp_degrees;  ///< that the runtime takes, ascending
  std::vector<InstanceType> instances;   ///< smallest first
  std::string source;
  std::string source_date;            ///< YYYY-MM-DD
  std::vector<std::string> inferred;  ///< fields no source prints, with reasons

  friend bool operator==(const Topology&, const Topology&) = default;
};

/// Every topology that is known, oldest first.
///
/// Source: aws-neuron/aws-neuron-sdk: about-neuron/arch/neuron-hardware,
///         neuron-runtime/explore/device-memory.rst; each row has its own.
const std::vector<Topology>& topologies();

/// Finds a topology by its name.
///
/// Errors: NotFound - no topology has that name; the message lists the names.
absl::StatusOr<Topology> find_topology(absl::string_view name);

/// Says whether the runtime takes a group of `tp_degree` logical cores.
bool allows_tp_degree(const Topology& topology, std::int32_t tp_degree);

/// Finds the smallest instance with at least `cores` logical cores.
///
/// Errors: InvalidArgument - `cores` is not positive.
///         OutOfRange - no instance has as many; the message names the largest.
absl::StatusOr<InstanceType> smallest_instance(const Topology& topology,
                                               std::int32_t cores);

}  // namespace trnscout
