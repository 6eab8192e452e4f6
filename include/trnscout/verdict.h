#pragma once

// Generated from run_record_schema.toml by scripts/run_record.py.

#include <cstdint>

#include "absl/strings/string_view.h"

namespace trnscout {

/// The answer.
enum class Verdict : std::uint8_t {
  /// It ran on real Neuron cores, with the reference's tokens.
  kPass,
  /// Nothing stopped it on virtual cores.
  kNoBlocker,
  /// It ran into something; the error class names it.
  kFail,
  /// There is no verdict on this model; the error class says why.
  kLeftOut,
};

/// Returns the value as it stands in records: "PASS".
absl::string_view verdict_name(Verdict value);

/// How deep the question was asked.
enum class Depth : std::uint8_t {
  /// From the model's files alone.
  kPlan,
  /// The model's own code, on shapes alone.
  kDryRun,
  /// The recorded script, on virtual cores.
  kVirtual,
  /// The recorded script, on real cores.
  kHardware,
};

/// Returns the value as it stands in records: "plan".
absl::string_view depth_name(Depth value);

/// Who made a row.
enum class Origin : std::uint8_t {
  /// A check of ours.
  kTrnscout,
  /// A foreign dataset: unverified, and never counted among our verdicts unless
  /// asked.
  kImported,
};

/// Returns the value as it stands in records: "trnscout".
absl::string_view origin_name(Origin value);

/// Why a verdict is not the good one.
enum class ErrorClass : std::uint8_t {
  /// A core's limit was passed; `error` ends with the ledger's table.
  kOutOfDeviceMemory,
  /// PyTorch has no kernel for an operator on this device.
  kOperatorMissing,
  /// `torch.compile(backend="neuron")` failed.
  kCompileError,
  /// It stopped while the model was read or moved to the core.
  kLoadError,
  /// It stopped while tokens were made.
  kRunError,
  /// The process died by a signal.
  kCrash,
  /// It did not end within the time given.
  kTimeout,
  /// It ended well but printed no answer.
  kNoAnswer,
  /// It made other tokens than the CPU.
  kTokenMismatch,
  /// Neither text-generation nor image-text-to-text.
  kTaskNotCovered,
  /// It needs Python code from its repository, which is never run.
  kCustomCode,
  /// Its weights have an element type no run here can load.
  kDtypeNotCovered,
  /// Its weights pass 24 GiB, and several cores are not run yet.
  kTooLargeForOneCore,
  /// Its weights pass this machine's memory.
  kTooLargeForThisHost,
  /// It fails on the CPU too, so the device is not to blame.
  kReferenceFails,
};

/// Returns the value as it stands in records: "out_of_device_memory".
absl::string_view error_class_name(ErrorClass value);

}  // namespace trnscout
