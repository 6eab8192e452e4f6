#pragma once

// Generated from run_record_schema.toml by scripts/run_record.py.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trnscout/verdict.h"

namespace trnscout {

/// Version of the table of columns that RunRecord was made from.
inline constexpr std::int64_t kRunRecordVersion = 1;

/// The text of a JSON object.
struct JsonObject {
  std::string text = "{}";

  friend bool operator==(const JsonObject&, const JsonObject&) = default;
};

/// One row: question, answer, cost and stack of one check. What was not
/// measured has no value. docs/run_record.md has a sentence on each column.
///
/// Units: in the name; times are seconds.
struct RunRecord {
  // identity: which model
  std::string model;
  std::optional<std::string> revision;
  std::optional<std::string> content_hash;
  std::optional<std::string> task;
  std::optional<std::int64_t> weights_bytes;
  std::optional<std::string> row_id;
  Origin origin = Origin::kTrnscout;
  std::optional<std::string> imported_from;
  std::optional<std::string> weights_hash;
  std::optional<std::string> tokenizer_hash;
  std::optional<std::string> chat_template_hash;
  std::optional<std::string> generation_config_hash;
  std::optional<std::string> licence;
  std::optional<std::string> architecture;
  std::optional<std::int64_t> parameters;

  // question: what was asked of it
  Depth depth = Depth::kPlan;
  std::optional<std::string> dtype;
  std::optional<std::vector<std::int32_t>> prompt_token_ids;
  std::optional<std::int64_t> core_memory_bytes;
  std::optional<std::int64_t> batch;
  std::optional<std::int64_t> max_new_tokens;
  std::optional<std::string> cache_asked;
  std::optional<std::string> prompt;
  std::optional<std::string> prompt_hash;
  std::optional<std::int64_t> prompt_tokens;
  std::optional<std::string> image_hash;
  bool redacted = false;

  // answer: what came of it
  Verdict verdict = Verdict::kLeftOut;
  std::optional<ErrorClass> error_class;
  std::optional<std::string> error;
  std::optional<std::string> cache;
  std::optional<std::string> cache_reason;
  std::optional<std::vector<std::int32_t>> token_ids;
  std::optional<std::vector<std::int32_t>> reference_token_ids;
  std::optional<std::string> text;
  std::optional<std::string> stopped;
  std::vector<std::string> warnings;
  std::string boundary;
  std::optional<std::int64_t> new_tokens;
  std::optional<std::int64_t> reference_new_tokens;
  std::optional<std::string> reference_device;
  std::optional<std::int64_t> first_mismatch;
  std::optional<double> logit_tolerance_abs;
  std::optional<double> logit_tolerance_rel;
  std::optional<double> logit_max_error;
  std::optional<double> logit_rms_error;
  std::optional<double> logit_kl;
  std::optional<double> top1_agreement;
  std::optional<double> fragility;

  // cost: what it took
  std::int64_t cores = 1;
  std::int64_t tp_degree = 1;
  std::int64_t ep_degree = 1;
  std::optional<bool> compiled;
  std::optional<std::int64_t> graphs;
  std::optional<std::int64_t> device_peak_bytes;
  std::optional<std::map<std::string, std::int64_t>>
      device_peak_bytes_by_category;
  std::optional<std::int64_t> host_peak_bytes;
  std::optional<JsonObject> times_s;
  std::optional<JsonObject> reference_times_s;
  std::optional<double> import_s;
  std::optional<double> load_s;
  std::optional<double> compile_s;
  std::optional<double> first_token_s;
  std::optional<double> run_s;
  std::optional<double> total_s;
  std::optional<double> token_p50_s;
  std::optional<double> token_p90_s;
  std::optional<double> token_p99_s;
  std::optional<std::int64_t> device_peak_tensors_bytes;
  std::optional<std::int64_t> device_peak_constants_bytes;
  std::optional<std::int64_t> device_peak_model_code_bytes;
  std::optional<std::int64_t> device_peak_scratchpad_bytes;
  std::optional<std::int64_t> device_peak_dma_rings_bytes;
  std::optional<std::int64_t> device_peak_collectives_bytes;
  std::vector<std::string> estimated;
  std::optional<std::int64_t> fallbacks;
  std::optional<std::int64_t> syncs;
  std::optional<std::int64_t> graph_breaks;
  std::optional<std::int64_t> recompiles;
  std::optional<std::int64_t> collectives;
  std::optional<std::int64_t> cache_hits;

  // stack: with what software, and when
  std::map<std::string, std::string> versions;
  std::int64_t schema_version = 1;
  std::optional<std::string> finished_at;
  std::optional<std::string> neuronx_cc_version;
  std::optional<std::string> torch_neuronx_version;
  std::optional<std::string> torch_version;
  std::optional<std::string> transformers_version;
  std::optional<std::string> trnscout_version;
  std::optional<std::string> driver_version;
  std::optional<std::string> runtime_version;
  std::optional<std::string> rule_table_version;

  // script: what ran
  std::optional<std::string> run_py;
  std::optional<std::string> run_py_hash;

  friend bool operator==(const RunRecord&, const RunRecord&) = default;
};

/// Writes the record as one JSON object on one line, a key a column, null for
/// what has no value.
///
/// Errors: InvalidArgument - a number is not finite, a string is not UTF-8, or
///         a JsonObject holds no JSON object.
absl::StatusOr<std::string> to_json(const RunRecord& record);

/// Reads what `to_json` or `trnscout check --json` wrote. A key that is missing
/// is as one that is null.
///
/// Errors: InvalidArgument - not a JSON object; a key is no column of this
///         version; a value is not of its column's type; a column that must
///         have a value has none; PASS at another depth than hardware.
absl::StatusOr<RunRecord> run_record_from_json(absl::string_view text);

}  // namespace trnscout
