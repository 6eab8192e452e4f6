// Configs, and the plan that is made from what they say. An input is the text
// of a config.json.

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "config_table.h"
#include "fuzz_target.h"
#include "json_mutation.h"
#include "outcome.h"
#include "trnscout/model_config.h"
#include "trnscout/parallel_plan.h"
#include "trnscout/shard_plan.h"

namespace trnscout {
namespace {

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kNotFound = absl::StatusCode::kNotFound;
constexpr auto kOutOfRange = absl::StatusCode::kOutOfRange;
constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

void check_cache(const ModelConfig& config) {
  constexpr std::int64_t kNumbers[][3] = {
      {1, 1, 1},     {1, 2048, 2},          {1 << 20, 1 << 20, 4},
      {1, kMost, 1}, {kMost, kMost, kMost}, {0, 1, 1}};
  for (const auto& [batch, length, dtype_bytes] : kNumbers) {
    const auto bytes = config.kv_bytes(batch, length, dtype_bytes);
    if (!bytes.ok()) {
      check_refusal(bytes.status(), {batch < 1 ? kInvalid : kOutOfRange});
      continue;
    }
    require(bytes->attention_bytes >= 0 && bytes->state_bytes >= 0 &&
                bytes->total() >= 0,
            "a cache has no negative size");
    require(bytes->uncounted_layers <= config.layers,
            "layers are counted once");
  }
  for (const std::int64_t dtype_bytes : {std::int64_t{2}, kMost}) {
    const auto token = config.kv_bytes_per_token(dtype_bytes);
    if (!token.ok()) check_refusal(token.status(), {kOutOfRange});
    require(token.value_or(0) >= 0, "a token has no negative size");
  }
}

void check_config(const ModelConfig& config) {
  require(config.layers >= 1 && config.layers <= ModelConfig::kMaxLayers,
          "the layers are within their limit");
  // Layers that a model goes through several times have a cache each time.
  const std::int64_t caches = std::ssize(config.layer_caches);
  require(caches >= config.layers && caches <= ModelConfig::kMaxLayers,
          "each layer has its cache");
  for (const std::int64_t count :
       {config.hidden, config.vocab, config.q_heads, config.kv_heads,
        config.head_dim, config.intermediate, config.experts,
        config.experts_per_token, config.moe_intermediate,
        config.shared_experts, config.max_positions}) {
    require(count >= 0, "a count is not negative");
  }
  for (const LayerCache& cache : config.layer_caches) {
    require(cache.elements_per_token() >= 0 && cache.window_tokens >= 0 &&
                cache.token_bytes >= 0 && cache.block_tokens >= 0 &&
                cache.block_dim >= 0 && cache.open_dim >= 0 &&
                cache.state >= 0 && cache.state_bytes >= 0,
            "a layer's cache has no negative size");
  }
  for (const std::string& warning : config.warnings) check_message(warning);
  check_cache(config);
}

// The plan that the config's first architecture or its model type has.
absl::StatusOr<ParallelPlan> plan_of(const ModelConfig& config) {
  std::vector<std::string> names = config.architectures;
  names.resize(std::min<std::size_t>(names.size(), 1));
  names.push_back(config.model_type);
  absl::StatusOr<ParallelPlan> out;
  for (const std::string& name : names) {
    out = find_parallel_plan(name);
    if (out.ok()) break;
    check_refusal(out.status(), {kNotFound});
  }
  if (!out.ok() || out->nested.empty() || config.text_model_type.empty()) {
    return out;
  }
  const NestedModel text{out->nested[0].config_field, config.text_model_type};
  const auto nested = find_parallel_plan(out->architecture, {&text, 1});
  if (!nested.ok()) check_refusal(nested.status(), {kNotFound});
  return nested.ok() ? nested : out;
}

std::vector<std::int64_t> shape_of(const ModelConfig& config, Random& random) {
  const std::int64_t heads = config.kv_heads * config.head_dim;
  const std::int64_t usual[] = {config.hidden,  config.intermediate,
                                config.vocab,   heads,
                                config.experts, 1};
  std::vector<std::int64_t> out;
  const std::size_t dimensions =
      random.one_in(8) ? random.below(5) : 1 + random.below(2);
  for (std::size_t i = 0; i < dimensions; ++i) {
    const auto trap = static_cast<std::int64_t>(trap_number(random));
    out.push_back(random.one_in(64) ? trap : random.of(usual));
  }
  return out;
}

// Two layers of what the plan's rules name, and what they do not.
std::vector<ParameterInfo> parameters_for(const ModelConfig& config,
                                          const ParallelPlan& plan,
                                          Random& random) {
  constexpr const char* kTypes[] = {"BF16", "BF16", "F32",     "F16",
                                    "U8",   "I32",  "F8_E4M3", "BOOL"};
  std::vector<ParameterInfo> out;
  const auto add = [&](std::string name) {
    const char* type = random.one_in(200) ? "Q4_K" : random.of(kTypes);
    out.push_back({std::move(name), type, shape_of(config, random), {}});
  };
  for (const auto* const rules : {&plan.tensor_rules, &plan.expert_rules}) {
    for (const PlanRule& rule : *rules) {
      for (const char* layer : {"0", "17"}) {
        const std::string name =
            absl::StrReplaceAll(rule.pattern, {{"*", layer}});
        add(absl::StrCat(name, random.one_in(4) ? "" : ".weight"));
      }
    }
  }
  for (const char* name :
       {"lm_head.weight", "model.embed_tokens.weight", "model.norm.weight",
        "x.experts.w_blocks", "x\n\xff.weight"}) {
    add(name);
  }
  return out;
}

PlanOptions options_of(Random& random) {
  constexpr const char* kTypes[] = {"float32", "float16", "bfloat16"};
  constexpr std::int64_t kCounts[] = {1, 1, 4, 128, 2048, 1 << 20};
  const auto count = [&random, &kCounts] {
    return random.one_in(8) ? static_cast<std::int64_t>(trap_number(random))
                            : random.of(kCounts);
  };
  PlanOptions out;
  out.topology = random.of(topologies());
  out.dtype = random.of(kTypes);
  out.batch = count();
  out.max_length = count();
  out.max_cores = 1 << random.below(8);
  if (random.one_in(2)) out.what_if.kv_heads = KvHeadLayout::kReplicated;
  if (random.one_in(2)) out.what_if.vocab = VocabLayout::kPadded;
  if (random.one_in(2)) out.what_if.fused = FusedLayout::kSplit;
  return out;
}

void check_plan(const ShardPlan& plan, const PlanOptions& options) {
  for (const PlannedBytes& part : plan.bytes_per_core.categories) {
    require(part.bytes >= 0, "a part has no negative size");
  }
  const std::int64_t total = plan.bytes_per_core.total();
  require(total >= 0, "the whole has no negative size");
  check_message(plan.reason);
  for (const RejectedDegrees& rejected : plan.rejected) {
    check_message(rejected.reason);
  }
  for (const std::string& note : plan.notes) check_message(note);
  require(std::isfinite(plan.decode_tokens_per_second_bound) &&
              plan.decode_tokens_per_second_bound >= 0,
          "the bound is a number");
  if (!plan.fits) {
    return require(plan.largest_batch_x_length == 0, "no tokens fit");
  }
  require(total <= plan.core_limit_bytes, "what fits is below the limit");
  std::int64_t asked = 0;
  require(!__builtin_mul_overflow(options.batch, options.max_length, &asked) &&
              plan.largest_batch_x_length >= asked,
          "as many tokens fit as were asked for");
}

bool is_part_of(const ParameterShard& shard,
                const std::vector<std::int64_t>& whole) {
  std::vector<std::int64_t> shape = shard.shape();
  if (!shape.empty()) shape[0] -= shard.padding_rows;
  return shape.size() == whole.size() &&
         std::equal(shape.begin(), shape.end(), whole.begin(),
                    [](std::int64_t part, std::int64_t size) {
                      return part >= 0 && part <= size;
                    });
}

void check_ranks(const ModelConfig& config, const ParallelPlan& plan,
                 const std::vector<ParameterInfo>& parameters,
                 const PlanOptions& options, Random& random) {
  Degrees degrees;
  degrees.cores = 1 << random.below(6);
  degrees.tp_degree = random.one_in(2) ? degrees.cores : 1;
  degrees.ep_degree =
      random.one_in(2) || degrees.tp_degree == 1 ? degrees.cores : 1;
  const auto rank = static_cast<std::int32_t>(
      random.below(static_cast<std::size_t>(degrees.cores)));
  const auto held =
      rank_parameters(config, plan, parameters, options, degrees, rank);
  if (!held.ok()) {
    return check_refusal(held.status(), {kInvalid, kOutOfRange});
  }
  for (const RankParameter& part : *held) {
    require(part.bytes >= 0, "a part has no negative size");
    const auto fits = [&part](const ParameterInfo& whole) {
      return whole.name == part.name && is_part_of(part.shard, whole.shape);
    };
    const auto has_name = [&part](const ParameterInfo& whole) {
      return whole.name ==
             part.name;  // not so of a head that Transformers adds
    };
    require(std::none_of(parameters.begin(), parameters.end(), has_name) ||
                std::any_of(parameters.begin(), parameters.end(), fits),
            "a part is no larger than the whole");
  }
}

std::string plan_form(const ModelConfig& config, Random& random) {
  const auto plan = plan_of(config);
  if (!plan.ok()) return "no plan";
  const auto parameters = parameters_for(config, *plan, random);
  const PlanOptions options = options_of(random);
  const auto shards = plan_shards(config, *plan, parameters, options);
  check_ranks(config, *plan, parameters, options, random);
  if (!shards.ok()) {
    check_refusal(shards.status(), {kInvalid, kOutOfRange});
    return "refused plan";
  }
  check_plan(*shards, options);
  return absl::StrCat("plan ", shards->degrees.cores);
}

std::string accepted_form(const ModelConfig& config, Random& random) {
  std::string kinds;
  for (const LayerCache& cache : config.layer_caches) {
    const std::string kind(layer_cache_kind_name(cache.kind));
    if (kinds.find(kind) == std::string::npos)
      absl::StrAppend(&kinds, " ", kind);
  }
  return absl::StrCat(kinds, " ", config.warnings.size(), " ", config.text_path,
                      " ", plan_form(config, random));
}

constexpr absl::string_view kFields[] = {
    "hidden",           "layers",         "q_heads",
    "kv_heads",         "head_dim",       "vocab",
    "intermediate",     "positions",      "experts",
    "window",           "chunk",          "kv_rank",
    "rope_dim",         "nope_dim",       "value_dim",
    "index_dim",        "full_head_dim",  "full_kv_heads",
    "half_layers",      "ssm_expand",     "ssm_heads",
    "ssm_head_dim",     "ssm_state",      "ssm_groups",
    "ssm_kernel",       "delta_v_heads",  "delta_k_heads",
    "delta_k_dim",      "delta_v_dim",    "delta_kernel",
    "conv_kernel",      "period",         "experts_per_token",
    "moe_intermediate", "shared_experts", "shared_kv_layers",
    "window_kv_factor", "window_from"};

// The members that a class reads, with its defaults.
std::string members_of(absl::string_view key) {
  const ConfigRow row(key, config_row_text(key));
  std::string out;
  for (const absl::string_view field : kFields) {
    const ConfigField* const found = row.find(field);
    std::int64_t number = 0;
    if (found == nullptr || !absl::SimpleAtoi(found->fallback, &number)) {
      continue;
    }
    absl::StrAppend(&out, ",\"", found->names[0], "\":", number);
  }
  return out;
}

std::string config_of(const std::string& architecture,
                      absl::string_view model_type) {
  std::string out = absl::StrCat("{\"architectures\":[\"", architecture,
                                 "\"],\"model_type\":\"", model_type, "\"",
                                 members_of(model_type));
  const ConfigRow row(model_type, config_row_text(model_type));
  const ConfigField* const text = row.find("text");
  if (text != nullptr) {
    const std::vector<std::string> parts = absl::StrSplit(text->fallback, ':');
    absl::StrAppend(&out, ",\"", text->names[0], "\":{\"model_type\":\"",
                    parts[0], "\"", members_of(parts[0]), "}");
  }
  return absl::StrCat(out, "}");
}

// What no class's defaults bring: pieces for other inputs.
constexpr const char* kPieces[] = {
    R"({"hidden_size":64,"num_hidden_layers":4,"num_attention_heads":4,)"
    R"("vocab_size":32,"layer_types":["full_attention","sliding_attention",)"
    R"("linear_attention","conv"],"sliding_window":8})",
    R"({"model_type":"qwen3_next","full_attention_interval":3,)"
    R"("per_layer_config":{"0":{"num_key_value_heads":2,"head_dim":8}}})",
    R"({"model_type":"nemotron_h","hybrid_override_pattern":"M*-EM*"})",
    R"({"model_type":"jamba","attn_layer_period":4,"attn_layer_offset":2})",
    R"({"model_type":"bamba","attn_layer_indices":[1,3],)"
    R"("tie_word_embeddings":true,"torch_dtype":"torch.float16"})",
    R"({"model_type":"lfm2","full_attn_idxs":[2,5],"dtype":"bfloat16"})",
    R"({"model_type":"llama","quantization_config":{"quant_method":"fp8",)"
    R"("bits":8,"modules_to_not_convert":["lm_head"]},)"
    R"("vision_config":{"hidden_size":32,"num_hidden_layers":2}})",
    R"({"model_type":"falcon","multi_query":false,)"
    R"("new_decoder_architecture":true,"num_kv_heads":1})",
    R"({"model_type":"gpt_oss","quantization_config":{)"
    R"("quant_method":"mxfp4"},"attention_chunk_size":16,"eps":NaN})",
};

}  // namespace

std::vector<std::string> seed_inputs() {
  std::vector<std::string> out(std::begin(kPieces), std::end(kPieces));
  std::ifstream file(TRNSCOUT_TEST_DATA "/known_models.json");
  const auto known = nlohmann::json::parse(file);
  for (const auto& model : known) out.push_back(model.at("config").dump());
  for (const std::string& architecture : parallel_plan_architectures()) {
    const auto plan = find_parallel_plan(architecture);
    require(plan.ok(), "an architecture of the table is found");
    out.push_back(config_of(architecture, plan->model_type));
  }
  return out;
}

std::string mutated(std::string input, absl::string_view other,
                    Random& random) {
  if (random.one_in(24)) {
    mutate_bytes(input, other, random);
  } else {
    mutate_json(input, other, random);
  }
  return input;
}

}  // namespace trnscout

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace trnscout;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = ModelConfig::parse(text, "config.json");
  if (!config.ok()) {
    note_refused(config.status(), {kInvalid, kUnimplemented});
    return 0;
  }
  check_config(*config);
  Random random(hash_of(text));
  note_accepted(accepted_form(*config, random));
  return 0;
}
