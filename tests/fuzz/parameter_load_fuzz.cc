// Names, types and shapes of tensors, loaded into an architecture. An input is
// lines: the architecture and a nested model's type, then a tensor a line.

#include <algorithm>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "fuzz_target.h"
#include "outcome.h"
#include "parallel_plan_table.h"
#include "trnscout/parallel_plan.h"

namespace trnscout {
namespace {

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kNotFound = absl::StatusCode::kNotFound;
constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;

// NAME|TYPE|2,3; a checkpoint has no negative sizes and no name twice.
std::vector<TensorInfo> tensors_of(absl::Span<const std::string> lines) {
  std::vector<TensorInfo> out;
  std::set<std::string> names;
  for (const std::string& line : lines) {
    const std::vector<std::string> parts = absl::StrSplit(line, '|');
    TensorInfo tensor;
    tensor.name = parts[0];
    if (parts.size() > 1) tensor.dtype = parts[1];
    for (const absl::string_view size :
         absl::StrSplit(parts.size() > 2 ? parts[2] : "", ',')) {
      std::int64_t number = 0;
      if (absl::SimpleAtoi(size, &number) && number >= 0) {
        tensor.shape.push_back(number);
      }
    }
    if (names.insert(tensor.name).second) out.push_back(std::move(tensor));
  }
  return out;
}

// Every rank's part of one dimension, put together.
void check_shards(const ParameterInfo& parameter, ParameterStyle found,
                  std::int32_t degree) {
  std::vector<std::int64_t> first;
  for (std::int32_t rank = 0; rank < degree; ++rank) {
    const auto shard = shard_of(found.style, parameter.shape,
                                parameter_role(parameter.name), {rank, degree});
    if (!shard.ok()) return check_refusal(shard.status(), {kInvalid});
    const std::vector<std::int64_t> shape = shard->shape();
    require(shape.size() == parameter.shape.size(), "dimensions stay");
    if (rank == 0) first = shape;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      require(shape[i] >= 0 && shape[i] <= first[i] &&
                  first[i] <= parameter.shape[i],
              "rank 0 holds most");
      for (const IndexRange& range : shard->dimensions[i]) {
        require(range.begin >= 0 && range.begin < range.end &&
                    range.end <= parameter.shape[i],
                "a range lies in its dimension");
      }
    }
  }
}

void check_parameters(const ParallelPlan& plan, const LoadedParameters& loaded,
                      const std::vector<TensorInfo>& tensors) {
  std::set<std::string> given;
  for (const TensorInfo& tensor : tensors) given.insert(tensor.name);
  for (const std::string& name : loaded.left_out) {
    require(given.count(name) == 1, "what is left out was there");
  }
  const std::string* before = nullptr;
  for (const ParameterInfo& parameter : loaded.parameters) {
    require(before == nullptr || *before <= parameter.name, "names ascend");
    before = &parameter.name;
    require(!parameter.tensors.empty(), "a parameter comes from somewhere");
    for (const std::string& name : parameter.tensors) {
      require(given.count(name) == 1, "what is joined was there");
    }
    for (const std::int64_t size : parameter.shape) {
      require(size >= 0, "a size is not negative");
    }
    for (const ParallelMode mode :
         {ParallelMode::kTensor, ParallelMode::kExpert,
          ParallelMode::kTensorAndExpert}) {
      const auto found = plan.style_of(parameter.name, mode);
      if (found.has_value()) check_shards(parameter, *found, 3);
    }
  }
}

// A name that a pattern of the table is likely to meet.
std::string sample_of(absl::string_view regex) {
  std::string out = absl::StrReplaceAll(regex, {{"\\.", "."},
                                                {"\\d+", "3"},
                                                {"\\d", "3"},
                                                {"\\w+", "w"},
                                                {".*", "x"},
                                                {".+", "x"},
                                                {"(?:", ""},
                                                {"^", ""},
                                                {"$", ""},
                                                {"(", ""},
                                                {")", ""},
                                                {"?", ""}});
  return out.substr(0, out.find('|'));
}

std::string line_of(absl::string_view name, const char* end) {
  return absl::StrCat(name, end, "|BF16|8,8");
}

// The parameters of the plan's rules, and tensors that its renames are for.
std::string input_for(const ParallelPlan& plan) {
  std::vector<std::string> lines = {plan.architecture};
  for (const PlanRule& rule : plan.tensor_rules) {
    const std::string name = absl::StrReplaceAll(rule.pattern, {{"*", "1"}});
    lines.push_back(line_of(name, ".weight"));
  }
  for (const ConversionRow& row : parallel_plan_table().conversions) {
    if (row.id != plan.model_type) continue;
    for (const TransformRow& transform : row.transforms) {
      for (const SourceRow& source : transform.sources) {
        const std::string name = sample_of(source.regex);
        lines.push_back(line_of(absl::StrCat("model.layers.0.", name), ""));
        lines.push_back(line_of(name, ".weight"));
      }
    }
  }
  lines.push_back(line_of("lm_head", ".weight"));
  return absl::StrJoin(lines, "\n");
}

std::string trap_part(Random& random) {
  const char* const parts[] = {
      "0",      "1",        "3",         "9223372036854775807",
      "00",     "",         "experts",   "99999999999999999999",
      "weight", "bias",     "model",     "language_model",
      "layers", "\\1",      "\\2",       "*",
      "\xff",   "\xc3\xa9", "gate_proj", "w1",
      "mlp",    "norm",     "LayerNorm", "gamma"};
  if (random.one_in(30)) return std::string(random.below(1100), 'a');
  return random.of(parts);
}

void mutate_name(std::string& line, Random& random) {
  const std::size_t end = std::min(line.find('|'), line.size());
  std::vector<std::string> parts = absl::StrSplit(line.substr(0, end), '.');
  const std::size_t at = random.below(parts.size());
  switch (random.below(4)) {
    case 0:
      parts[at] = trap_part(random);
      break;
    case 1:
      parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(at),
                   trap_part(random));
      break;
    case 2:
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    default:
      parts.push_back(parts[at]);
      break;
  }
  line = absl::StrCat(absl::StrJoin(parts, "."), line.substr(end));
}

void mutate_shape(std::string& line, Random& random) {
  line.resize(std::min(line.rfind('|'), line.size()));
  std::vector<std::uint64_t> shape(random.below(5), 8);
  for (std::uint64_t& size : shape) {
    if (random.one_in(4)) size = trap_number(random);
  }
  absl::StrAppend(&line, "|", absl::StrJoin(shape, ","));
}

}  // namespace

std::vector<std::string> seed_inputs() {
  std::vector<std::string> out;
  for (const std::string& architecture : parallel_plan_architectures()) {
    const auto plan = find_parallel_plan(architecture);
    require(plan.ok(), "an architecture of the table is found");
    out.push_back(input_for(*plan));
  }
  return out;
}

std::string mutated(std::string input, absl::string_view other,
                    Random& random) {
  std::vector<std::string> lines = absl::StrSplit(input, '\n');
  const std::vector<std::string> others = absl::StrSplit(other, '\n');
  const std::size_t at = random.below(lines.size());
  switch (random.below(10)) {
    case 0:
      mutate_bytes(lines[at], other, random);
      break;
    case 1:
      if (lines.size() > 1) {
        lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at));
      }
      break;
    case 2:
      lines.push_back(random.of(others));
      break;
    case 3:
      lines.push_back(lines[at]);
      mutate_name(lines.back(), random);
      break;
    case 4:
      lines[0] = others[0];
      break;
    case 5:
    case 6:
      mutate_shape(lines[at], random);
      break;
    default:
      mutate_name(lines[at], random);
      break;
  }
  return absl::StrJoin(lines, "\n");
}

}  // namespace trnscout

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace trnscout;
  const std::string input(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string> lines = absl::StrSplit(input, '\n');
  const auto plan = find_parallel_plan(lines[0]);
  if (!plan.ok()) {
    note_refused(plan.status(), {kNotFound});
    return 0;
  }
  const std::vector<TensorInfo> tensors =
      tensors_of(absl::MakeConstSpan(lines).subspan(1));
  const auto loaded = plan->parameters_of(tensors);
  if (!loaded.ok()) {
    note_refused(loaded.status(), {kInvalid, kUnimplemented});
    return 0;
  }
  check_parameters(*plan, *loaded, tensors);
  note_accepted(absl::StrCat(plan->architecture, " ",
                             loaded->left_out.empty() ? "all" : "some"));
  return 0;
}
