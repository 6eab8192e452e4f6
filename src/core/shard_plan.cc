#include "trnscout/shard_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "planned_weights.h"
#include "printable.h"
#include "trnscout/memory_ledger.h"

namespace trnscout {
namespace {

// Past this much of a core a plan that fits is called tight.
constexpr double kTightFraction = 0.9;
// Lengths that are searched for the largest one end here.
constexpr std::int64_t kMaxSearchedTokens = std::int64_t{1} << 40;

struct Question {
  const ModelConfig& config;
  const ParallelPlan& plan;
  const PlanOptions& options;
  std::int64_t dtype_bytes;
  std::vector<WeightGroup> groups;
};

// One division of the model, ready to be weighed at any length.
struct Division {
  Degrees degrees;
  ParallelMode mode = ParallelMode::kTensor;
  std::int32_t kv_degree = 1;  // that keys, values and their cache are cut by
  RankWeights weights;
};

absl::StatusOr<std::int64_t> bytes_of_dtype(absl::string_view dtype) {
  if (dtype == "float32") return 4;
  if (dtype == "bfloat16" || dtype == "float16") return 2;
  return absl::InvalidArgumentError(absl::StrCat(
      "plan: dtype is ", dtype, ", must be float32, float16 or bfloat16"));
}

absl::Status require_positive(const char* field, std::int64_t value) {
  if (value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("plan: %s is %d, must be positive", field, value));
}

absl::Status check(const PlanOptions& options,
                   absl::Span<const ParameterInfo> parameters) {
  absl::Status status = require_positive("batch", options.batch);
  status.Update(require_positive("max_length", options.max_length));
  status.Update(require_positive("max_cores", options.max_cores));
  if (status.ok() && parameters.empty()) {
    return absl::InvalidArgumentError("plan: the model has no parameters");
  }
  return status;
}

std::string degrees_text(const Degrees& degrees) {
  return absl::StrFormat("%d cores (tp_degree %d, ep_degree %d)", degrees.cores,
                         degrees.tp_degree, degrees.ep_degree);
}

double saturating(double bytes) { return std::min(bytes, 0x1p62); }

// Bytes that live at once while a prompt of all the tokens is read: inputs and
// outputs of a layer, its projections and the widest MLP, then one row of
// logits a sequence in float32.
double activation_bytes(const Question& question, const Division& division,
                        double tokens) {
  const ModelConfig& config = question.config;
  const double degree = division.degrees.tp_degree;
  const double experts =
      static_cast<double>(config.moe_intermediate * config.experts_per_token);
  const double widest =
      std::max(static_cast<double>(config.intermediate), experts);
  const double heads =
      static_cast<double>(config.q_heads + 2 * config.kv_heads) *
      static_cast<double>(config.head_dim);
  const double token = 4.0 * static_cast<double>(config.hidden) +
                       (heads + 2.0 * widest) / degree;
  return tokens * token * static_cast<double>(question.dtype_bytes) +
         4.0 * static_cast<double>(question.options.batch) *
             static_cast<double>(config.vocab);
}

// The cache of one rank: heads divided where the plan divides them.
absl::StatusOr<CacheBytes> cache_bytes(const Question& question,
                                       const Division& division,
                                       std::int64_t length) {
  if (division.kv_degree == 1) {
    return question.config.kv_bytes(question.options.batch, length,
                                    question.dtype_bytes);
  }
  ModelConfig local = question.config;
  for (LayerCache& layer : local.layer_caches) {
    if (layer.kind == LayerCacheKind::kLatent) continue;
    layer.kv_heads =
        (layer.kv_heads + division.kv_degree - 1) / division.kv_degree;
  }
  return local.kv_bytes(question.options.batch, length, question.dtype_bytes);
}

PlannedBytes& at(CoreBytes& bytes, PlanCategory category) {
  return bytes.categories[static_cast<std::size_t>(category)];
}

void add_weights(const Division& division, CoreBytes& out) {
  at(out, PlanCategory::kShardedWeights) = {
      division.weights.sharded_bytes, Basis::kCounted,
      absl::StrFormat("shards of rank 0 of %d", division.degrees.cores)};
  at(out, PlanCategory::kReplicatedWeights) = {
      division.weights.replicated_bytes, Basis::kCounted,
      "parameters that no rule of the plan cuts"};
}

void add_overhead(const Question& question, const Division& division,
                  std::int64_t length, CoreBytes& out) {
  const Topology& topology = question.options.topology;
  const double tokens =
      static_cast<double>(question.options.batch) * static_cast<double>(length);
  const double activations =
      saturating(activation_bytes(question, division, tokens));
  const auto step = static_cast<double>(topology.scratchpad_step_bytes);
  at(out, PlanCategory::kActivations) = {
      static_cast<std::int64_t>(activations), Basis::kEstimated,
      "batch x length x (4 hidden + (heads + 2 widest MLP) / tp_degree) x "
      "dtype + batch x vocab x 4"};
  const double rounded = step > 0 ? std::ceil(activations / step) * step : 0;
  at(out, PlanCategory::kScratchpad) = {
      static_cast<std::int64_t>(std::max(rounded - activations, 0.0)),
      Basis::kEstimated,
      absl::StrCat("activations rounded up to steps of ",
                   format_bytes(topology.scratchpad_step_bytes))};
  at(out, PlanCategory::kMicrocode) = {topology.core_microcode_bytes,
                                       Basis::kCounted,
                                       "fixed, a physical core's times LNC"};
  const double collectives =
      division.degrees.cores > 1
          ? saturating(2.0 * tokens *
                       static_cast<double>(question.config.hidden *
                                           question.dtype_bytes))
          : 0.0;
  at(out, PlanCategory::kCollectives) = {
      static_cast<std::int64_t>(collectives), Basis::kEstimated,
      "two buffers of batch x length x hidden x dtype past one core"};
}

absl::StatusOr<CoreBytes> weigh(const Question& question,
                                const Division& division, std::int64_t length) {
  CoreBytes out;
  add_weights(division, out);
  const auto cache = cache_bytes(question, division, length);
  if (!cache.ok()) return cache.status();
  at(out, PlanCategory::kCache) = {
      cache->total(), Basis::kCounted,
      absl::StrFormat("static cache of %d x %d tokens, KV heads cut by %d",
                      question.options.batch, length, division.kv_degree)};
  add_overhead(question, division, length, out);
  return out;
}

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

// Why the heads cannot be divided by `degree`; empty if they can.
std::string head_problem(const Question& question, std::int32_t degree) {
  const ModelConfig& config = question.config;
  if (config.q_heads > 0 && config.q_heads % degree != 0) {
    return absl::StrFormat("tp_degree %d does not divide the %d query heads",
                           degree, config.q_heads);
  }
  if (config.kv_heads <= 0 || config.kv_heads % degree == 0) return "";
  if (question.options.kv_heads == KvHeadLayout::kReplicated) {
    if (degree % config.kv_heads == 0) return "";
    return absl::StrFormat(
        "neither of tp_degree %d and the %d KV heads divides the other", degree,
        config.kv_heads);
  }
  return absl::StrFormat(
      "tp_degree %d does not divide the %d KV heads, and Transformers does not "
      "replicate them",
      degree, config.kv_heads);
}

bool has_expert_parameters(const Question& question, ParallelMode mode) {
  return std::any_of(
      question.groups.begin(), question.groups.end(),
      [&](const WeightGroup& group) {
        const auto found = question.plan.style_of(group.name, mode);
        return found.has_value() && found->axis == ParallelAxis::kExpert;
      });
}

// The modes in which a model can be divided; none is one core only.
std::vector<ParallelMode> modes_of(const Question& question) {
  std::vector<ParallelMode> out;
  const bool tensor = !question.plan.tensor_rules.empty() &&
                      question.plan.no_tensor_plan_reason.empty();
  const ParallelMode with_experts =
      tensor ? ParallelMode::kTensorAndExpert : ParallelMode::kExpert;
  if (tensor) out.push_back(ParallelMode::kTensor);
  if (question.plan.no_expert_plan_reason.empty() &&
      has_expert_parameters(question, with_experts)) {
    out.push_back(with_experts);
  }
  return out;
}

// Division or, in words, why there is none.
struct Attempt {
  Division division;
  std::string problem;
};

absl::StatusOr<Attempt> divide(const Question& question, ParallelMode mode,
                               std::int32_t degree) {
  Attempt out;
  Division& division = out.division;
  division.mode = mode;
  division.degrees = {degree, mode == ParallelMode::kExpert ? 1 : degree,
                      mode == ParallelMode::kTensor ? 1 : degree};
  const ModelConfig& config = question.config;
  if (mode != ParallelMode::kTensor && config.experts % degree != 0) {
    out.problem = absl::StrFormat("ep_degree %d does not divide the %d experts",
                                  degree, config.experts);
    return out;
  }
  if (degree > 1 && shards_kv_heads(question.plan, question.groups, mode)) {
    out.problem = head_problem(question, degree);
    if (!out.problem.empty()) return out;
    division.kv_degree = static_cast<std::int32_t>(std::min<std::int64_t>(
        degree, std::max<std::int64_t>(config.kv_heads, 1)));
  }
  const bool cut_kv = division.kv_degree > 1;
  auto weights =
      weights_of_largest_rank(config, question.plan, question.groups, mode,
                              degree, cut_kv ? division.kv_degree : degree);
  if (!weights.ok()) return weights.status();
  division.weights = *weights;
  return out;
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
    const auto bytes = weigh(question, division, middle);
    const bool ok = bytes.ok() && bytes->total() <= limit;
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
  if (division.mode == ParallelMode::kExpert && division.degrees.cores > 1) {
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
  const auto attempt = divide(question, mode, degree);
  if (!attempt.ok()) return attempt.status();
  const Division& division = attempt->division;
  if (!attempt->problem.empty()) {
    reject(division.degrees, attempt->problem, out);
    return false;
  }
  const auto length = text_length(question);
  if (!length.ok()) return length.status();
  auto bytes = weigh(question, division, *length);
  if (!bytes.ok()) return bytes.status();
  if (bytes->total() > out.core_limit_bytes) {
    reject(division.degrees, over_limit(*bytes, out.core_limit_bytes), out);
    out.bytes_per_core = *std::move(bytes);
    return false;
  }
  const absl::Status status =
      accept(question, division, *std::move(bytes), out);
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
  if (question.options.kv_heads == KvHeadLayout::kReplicated) {
    out.notes.push_back(
        "what-if: KV heads are replicated; unmodified Transformers does not");
  }
  if (config.vision.has_value()) {
    out.notes.push_back(
        config.vision->image_tokens > 0
            ? absl::StrFormat("one image of %d tokens is added to max_length",
                              config.vision->image_tokens)
            : std::string("image tokens depend on the image's size; none are "
                          "added to max_length"));
  }
  for (const std::string& warning : config.warnings) {
    out.notes.push_back(warning);
  }
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

absl::StatusOr<ShardPlan> plan_shards(
    const ModelConfig& config, const ParallelPlan& plan,
    absl::Span<const ParameterInfo> parameters, const PlanOptions& options) {
  if (absl::Status status = check(options, parameters); !status.ok()) {
    return status;
  }
  const auto dtype_bytes = bytes_of_dtype(options.dtype);
  if (!dtype_bytes.ok()) return dtype_bytes.status();
  auto groups = group_weights(config, plan, parameters, *dtype_bytes,
                              options.topology.neuron_core);
  if (!groups.ok()) return groups.status();
  const Question question{config, plan, options, *dtype_bytes,
                          *std::move(groups)};
  ShardPlan out;
  out.core_limit_bytes = options.topology.core_memory_bytes;
  add_notes(question, out);
  if (absl::Status status = search(question, out); !status.ok()) {
    return status;
  }
  return out;
}

absl::StatusOr<std::vector<RankParameter>> rank_parameters(
    const ParallelPlan& plan, absl::Span<const ParameterInfo> parameters,
    Degrees degrees, std::int32_t rank) {
  const ParallelMode mode = degrees.ep_degree == 1 ? ParallelMode::kTensor
                            : degrees.tp_degree == 1
                                ? ParallelMode::kExpert
                                : ParallelMode::kTensorAndExpert;
  std::vector<RankParameter> out;
  out.reserve(parameters.size());
  for (const ParameterInfo& parameter : parameters) {
    const auto found = degrees.cores > 1 ? plan.style_of(parameter.name, mode)
                                         : std::optional<ParameterStyle>();
    auto shard =
        shard_of(found.has_value() ? found->style : ParallelStyle::kReplicate,
                 parameter.shape, parameter_role(parameter.name),
                 {.rank = rank, .degree = degrees.cores});
    if (!shard.ok()) return shard.status();
    const bool sharded = shard->shape() != parameter.shape;
    out.push_back({parameter.name, *std::move(shard), sharded});
  }
  return out;
}

}  // namespace trnscout
