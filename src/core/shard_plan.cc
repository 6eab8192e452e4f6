#include "trnscout/shard_plan.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "division.h"
#include "printable.h"
#include "trnscout/memory_ledger.h"

namespace trnscout {
namespace {

// Past this much of a core a plan that fits is called tight.
constexpr double kTightFraction = 0.9;
// Lengths that are searched for the largest one end here.
constexpr std::int64_t kMaxSearchedTokens = std::int64_t{1} << 40;

// Tokens of a sequence, an image included.
absl::StatusOr<std::int64_t> text_length(const Question& question) {
  const auto& vision = question.config.vision;
  const std::int64_t image = vision.has_value() ? vision->image_tokens : 0;
  std::int64_t length = question.options.max_length;
  if (!__builtin_add_overflow(length, image, &length)) return length;
  return absl::OutOfRangeError(absl::StrFormat(
      "plan: max_length %d and an image of %d tokens pass 2^63 - 1",
      question.options.max_length, image));
}

std::string over_limit(const CoreBytes& bytes, std::int64_t limit) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < kPlanCategories; ++i) {
    if (bytes.categories[i].bytes == 0) continue;
    parts.push_back(
        absl::StrCat(plan_category_name(static_cast<PlanCategory>(i)), " ",
                     format_bytes(bytes.categories[i].bytes)));
  }
  return absl::StrFormat("a core would hold %s of %s: %s",
                         format_bytes(bytes.total()), format_bytes(limit),
                         absl::StrJoin(parts, ", "));
}

// The most tokens at which `division` still fits, by bisection: every category
// grows with the length or stays.
absl::StatusOr<std::int64_t> largest_length(const Question& question,
                                            const Division& division,
                                            std::int64_t limit) {
  std::int64_t fits = 0;
  std::int64_t too_long = kMaxSearchedTokens;
  while (too_long - fits > 1) {
    const std::int64_t middle = fits + (too_long - fits) / 2;
    const auto bytes = total_bytes(question, division, middle);
    const bool ok = bytes.ok() && *bytes <= limit;
    if (!bytes.ok() && !absl::IsOutOfRange(bytes.status())) {
      return bytes.status();
    }
    (ok ? fits : too_long) = middle;
  }
  return fits * question.options.batch;
}

double decode_bound(const Question& question, const Division& division,
                    const CoreBytes& bytes) {
  const double read = static_cast<double>(
      division.weights.sharded_bytes + division.weights.replicated_bytes -
      division.weights.unread_bytes + bytes[PlanCategory::kCache].bytes);
  return static_cast<double>(
             question.options.topology.core_bandwidth_bytes_per_second) /
         std::max(read, 1.0);
}

absl::Status accept(const Question& question, const Division& division,
                    CoreBytes bytes, ShardPlan& out) {
  const Topology& topology = question.options.topology;
  out.fits = true;
  out.degrees = division.degrees;
  out.tight = static_cast<double>(bytes.total()) >
              kTightFraction * static_cast<double>(out.core_limit_bytes);
  out.reason = absl::StrFormat(
      "%s: %s of %s on the core that holds most%s",
      degrees_text(division.degrees), format_bytes(bytes.total()),
      format_bytes(out.core_limit_bytes), out.tight ? ", a tight fit" : "");
  const auto largest = largest_length(question, division, out.core_limit_bytes);
  if (!largest.ok()) return largest.status();
  out.largest_batch_x_length = *largest;
  out.decode_tokens_per_second_bound = decode_bound(question, division, bytes);
  const auto instance = smallest_instance(topology, division.degrees.cores);
  if (instance.ok()) out.instance = instance->name;
  if (division.layout.mode == ParallelMode::kExpert &&
      division.degrees.cores > 1) {
    out.notes.push_back(
        "experts are divided without a tensor plan; Transformers takes that "
        "only with a tp_plan of the caller's own");
  }
  out.bytes_per_core = std::move(bytes);
  return absl::OkStatus();
}

void reject(Degrees degrees, std::string reason, ShardPlan& out) {
  out.degrees = degrees;
  out.rejected.push_back({degrees, std::move(reason)});
}

std::string no_plan_reason(const ParallelPlan& plan) {
  return absl::StrCat("Transformers ", transformers_version(),
                      " has no plan to divide ", plan.architecture,
                      plan.no_tensor_plan_reason.empty()
                          ? ""
                          : absl::StrCat(": ", plan.no_tensor_plan_reason));
}

// Tries one division; true once a plan was found.
absl::StatusOr<bool> try_division(const Question& question, ParallelMode mode,
                                  std::int32_t degree, ShardPlan& out) {
  const auto division = divide(question, mode, degree);
  if (!division.ok()) return division.status();
  if (!division->problem.empty()) {
    reject(division->degrees, division->problem, out);
    return false;
  }
  const auto length = text_length(question);
  if (!length.ok()) return length.status();
  auto bytes = weigh(question, *division, *length);
  if (!bytes.ok()) return bytes.status();
  if (bytes->total() > out.core_limit_bytes) {
    reject(division->degrees, over_limit(*bytes, out.core_limit_bytes), out);
    out.bytes_per_core = *std::move(bytes);
    return false;
  }
  const absl::Status status =
      accept(question, *division, *std::move(bytes), out);
  if (!status.ok()) return status;
  return true;
}

// Why the largest count that was tried does not work, in each of its modes.
std::string last_reasons(const ShardPlan& plan) {
  std::vector<std::string> reasons;
  for (const RejectedDegrees& rejected : plan.rejected) {
    if (rejected.degrees.cores == plan.degrees.cores) {
      reasons.push_back(rejected.reason);
    }
  }
  return absl::StrFormat("on %d: %s", plan.degrees.cores,
                         absl::StrJoin(reasons, "; "));
}

absl::Status search(const Question& question, ShardPlan& out) {
  const std::vector<ParallelMode> modes = modes_of(question);
  for (const std::int32_t degree : question.options.topology.tp_degrees) {
    if (degree > question.options.max_cores) break;
    if (degree > 1 && modes.empty()) {
      reject({degree, degree, 1}, no_plan_reason(question.plan), out);
      break;
    }
    const std::vector<ParallelMode> tried =
        degree == 1 ? std::vector<ParallelMode>{ParallelMode::kTensor} : modes;
    for (const ParallelMode mode : tried) {
      const absl::StatusOr<bool> found =
          try_division(question, mode, degree, out);
      if (!found.ok()) return found.status();
      if (*found) return absl::OkStatus();
    }
  }
  out.reason = absl::StrFormat("no division over up to %d cores works; %s",
                               question.options.max_cores, last_reasons(out));
  return absl::OkStatus();
}

void add_notes(const Question& question, ShardPlan& out) {
  const ModelConfig& config = question.config;
  const Topology& topology = question.options.topology;
  if (!config.quantization.method.empty()) {
    const bool dequantized =
        config.quantization.dequantized_on(topology.neuron_core);
    out.notes.push_back(absl::StrFormat(
        "weights are stored as %s; cores of %s %s",
        printable(config.quantization.method), topology.name,
        dequantized ? "cannot compute on that, so they are counted in " +
                          question.options.dtype
                    : "compute on that"));
  }
  if (config.vision.has_value()) {
    out.notes.push_back(absl::StrCat(
        "the image part counts with the text part; ",
        config.vision->image_tokens > 0
            ? absl::StrFormat("one image of %d tokens is added to max_length",
                              config.vision->image_tokens)
            : std::string("image tokens depend on the image's size, and none "
                          "are added to max_length")));
  }
  out.notes.insert(out.notes.end(), config.warnings.begin(),
                   config.warnings.end());
  out.notes.insert(out.notes.end(), question.model.weights.notes.begin(),
                   question.model.weights.notes.end());
}

// What the options that were asked for do at the degree of the plan.
absl::Status add_what_if_notes(const Question& question, ShardPlan& out) {
  if (question.options.what_if == WhatIf()) return absl::OkStatus();
  const auto division =
      divide(question, mode_of(out.degrees), out.degrees.cores);
  if (!division.ok()) return division.status();
  for (std::string& note : division->layout.notes(question.groups())) {
    out.notes.push_back(std::move(note));
  }
  return absl::OkStatus();
}

absl::Status check(const Degrees& degrees, std::int32_t rank) {
  const auto fits = [&degrees](std::int32_t degree) {
    return degree == 1 || degree == degrees.cores;
  };
  if (degrees.cores < 1 || !fits(degrees.tp_degree) ||
      !fits(degrees.ep_degree) ||
      std::max(degrees.tp_degree, degrees.ep_degree) != degrees.cores) {
    return absl::InvalidArgumentError(absl::StrCat(
        "plan: ", degrees_text(degrees),
        " is no division: each degree must be 1 or the cores, one the cores"));
  }
  if (rank < 0 || rank >= degrees.cores) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "plan: rank %d is not below the %d cores", rank, degrees.cores));
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view plan_category_name(PlanCategory category) {
  constexpr std::array<absl::string_view, kPlanCategories> kNames = {
      "sharded_weights", "replicated_weights", "kv_cache",   "activations",
      "microcode",       "scratchpad",         "collectives"};
  return kNames[static_cast<std::size_t>(category)];
}

std::int64_t CoreBytes::total() const {
  std::int64_t out = 0;
  for (const PlannedBytes& part : categories) {
    if (__builtin_add_overflow(out, part.bytes, &out)) {
      return std::numeric_limits<std::int64_t>::max();
    }
  }
  return out;
}

absl::StatusOr<ShardPlan> answer(const Question& question) {
  ShardPlan out;
  out.core_limit_bytes = question.options.topology.core_memory_bytes;
  add_notes(question, out);
  absl::Status status = search(question, out);
  if (!status.ok()) return status;
  status = add_what_if_notes(question, out);
  if (!status.ok()) return status;
  return out;
}

absl::StatusOr<ShardPlan> plan_shards(
    const ModelConfig& config, const ParallelPlan& plan,
    absl::Span<const ParameterInfo> parameters, const PlanOptions& options) {
  const auto model = weigh_model(config, plan, parameters, options);
  if (!model.ok()) return model.status();
  return answer(
      {config, plan, options, bytes_of_dtype(options.dtype).value(), *model});
}

absl::StatusOr<std::vector<RankParameter>> rank_parameters(
    const ModelConfig& config, const ParallelPlan& plan,
    absl::Span<const ParameterInfo> parameters, const PlanOptions& options,
    const Degrees& degrees, std::int32_t rank) {
  absl::Status status = check(degrees, rank);
  if (!status.ok()) return status;
  const auto model = weigh_model(config, plan, parameters, options);
  if (!model.ok()) return model.status();
  const Question question{config, plan, options,
                          bytes_of_dtype(options.dtype).value(), *model};
  const auto division = divide(question, mode_of(degrees), degrees.cores);
  if (!division.ok()) return division.status();
  if (!division->problem.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan: ", degrees_text(degrees), ": ", division->problem));
  }
  std::vector<RankParameter> out;
  out.reserve(model->weights.weights.size());
  for (const CoreWeight& weight : model->weights.weights) {
    auto shard = division->layout.shard(weight.name, weight.shape, rank);
    if (!shard.ok()) return shard.status();
    const bool sharded = absl::MakeConstSpan(shard->shape()) != weight.shape;
    const std::int64_t bytes =
        bytes_of_shard(*shard, weight.shape, weight.bytes);
    out.push_back(
        {std::string(weight.name), *std::move(shard), sharded, bytes});
  }
  return out;
}

}  // namespace trnscout
