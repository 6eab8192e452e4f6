#include "weight_conversion.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "printable.h"

namespace trnscout {
namespace {

using Tensors = std::vector<ParameterInfo>;

const ConversionRow* find_conversion(absl::string_view id) {
  const auto rows = parallel_plan_table().conversions;
  const auto found =
      std::lower_bound(rows.begin(), rows.end(), id,
                       [](const ConversionRow& row, absl::string_view key) {
                         return row.id < key;
                       });
  return found != rows.end() && found->id == id ? &*found : nullptr;
}

// Class names and model types whose transforms cover a part of the model.
class Seen {
 public:
  bool covers(absl::string_view id, absl::string_view path) const {
    const auto found = paths_.find(std::string(id));
    if (found == paths_.end()) return false;
    return std::any_of(found->second.begin(), found->second.end(),
                       [path](const std::string& seen) {
                         return seen.empty() ||
                                absl::StartsWith(path, seen + ".");
                       });
  }
  void add(absl::string_view id, const std::string& path) {
    paths_[std::string(id)].push_back(path);
  }

 private:
  std::map<std::string, std::vector<std::string>> paths_;
};

// Which transforms a class brings along: its own, or its model type's.
const ConversionRow* conversion_of(const PlacedClass& placed,
                                   absl::string_view model_type, Seen& seen) {
  const ClassRow& row = *placed.row;
  const absl::string_view type = placed.path.empty() && !row.model_type.empty()
                                     ? model_type
                                     : row.model_type;
  if (seen.covers(row.name, placed.path)) return nullptr;
  const ConversionRow* conversion = find_conversion(row.name);
  const bool by_class = conversion != nullptr;
  if (!by_class) {
    if (type.empty()) return nullptr;
    if (seen.covers(type, placed.path)) return nullptr;
    conversion = find_conversion(type);
  }
  if (conversion == nullptr) return nullptr;
  seen.add(row.name, placed.path);
  if (!by_class) seen.add(type, placed.path);
  return conversion;
}

absl::Status append(const ConversionRow& conversion, const std::string* path,
                    absl::string_view base_prefix,
                    std::vector<WeightTransform>& out) {
  const std::string dot = base_prefix.empty() ? "" : ".";
  for (const TransformRow& row : conversion.transforms) {
    WeightTransform& made = out.emplace_back();
    made.row = &row;
    if (path != nullptr) {
      absl::string_view scope = *path;
      absl::ConsumePrefix(&scope, base_prefix);
      absl::ConsumePrefix(&scope, ".");
      made.scoped = true;
      made.scope = absl::StrCat(scope, scope.empty() ? "" : ".");
      made.base_prefix = absl::StrCat(base_prefix, dot);
    }
    made.tells_digits = row.kind == TransformKind::kOffsetRename;
    for (const SourceRow& source : row.sources) {
      const auto pattern = NamePattern::shared(source.regex);
      if (!pattern.ok()) return pattern.status();
      made.sources.push_back(*pattern);
      made.tells_digits |= (*pattern)->tells_digits();
    }
  }
  return absl::OkStatus();
}

absl::Status misfit(absl::string_view target, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("parameter ", printable(target), ": ", what));
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// Counts from the end where `dim` is negative.
absl::StatusOr<std::size_t> dimension(absl::string_view target,
                                      const ParameterInfo& tensor,
                                      std::int32_t dim, std::size_t more = 0) {
  const auto rank = static_cast<std::int64_t>(tensor.shape.size() + more);
  const std::int64_t place = dim < 0 ? dim + rank : dim;
  if (place < 0 || place >= rank) {
    return misfit(target, absl::StrCat("tensor ", printable(tensor.name),
                                       " of shape ", shape_text(tensor.shape),
                                       " has no dimension ", dim));
  }
  return static_cast<std::size_t>(place);
}

absl::StatusOr<ParameterInfo> stack(absl::string_view target,
                                    const Tensors& tensors, std::int32_t dim) {
  ParameterInfo out = tensors.front();
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    if (tensors[i].shape != out.shape) {
      return misfit(
          target,
          absl::StrCat("tensor ", printable(tensors[i].name), " has shape ",
                       shape_text(tensors[i].shape), ", ", printable(out.name),
                       " ", shape_text(out.shape)));
    }
    out.tensors.insert(out.tensors.end(), tensors[i].tensors.begin(),
                       tensors[i].tensors.end());
  }
  const auto place = dimension(target, out, dim, 1);
  if (!place.ok()) return place.status();
  out.shape.insert(out.shape.begin() + static_cast<std::ptrdiff_t>(*place),
                   static_cast<std::int64_t>(tensors.size()));
  return out;
}

absl::StatusOr<ParameterInfo> join(absl::string_view target,
                                   const Tensors& tensors, std::int32_t dim) {
  ParameterInfo out = tensors.front();
  const auto place = dimension(target, out, dim);
  if (!place.ok()) return place.status();
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    std::vector<std::int64_t> other = tensors[i].shape;
    const std::int64_t added =
        *place < other.size() ? std::exchange(other[*place], out.shape[*place])
                              : 0;
    if (other != out.shape) {
      return misfit(
          target,
          absl::StrCat("tensor ", printable(tensors[i].name), " of shape ",
                       shape_text(tensors[i].shape), " cannot be joined to ",
                       shape_text(out.shape), " along dimension ", *place));
    }
    if (added > std::numeric_limits<std::int64_t>::max() - out.shape[*place]) {
      return misfit(target, "the joined dimension is past 64 bits");
    }
    out.shape[*place] += added;
    out.tensors.insert(out.tensors.end(), tensors[i].tensors.begin(),
                       tensors[i].tensors.end());
  }
  return out;
}

absl::StatusOr<std::vector<Tensors>> chunk(absl::string_view target,
                                           const ParameterInfo& tensor,
                                           std::int32_t dim,
                                           std::size_t count) {
  const auto place = dimension(target, tensor, dim);
  if (!place.ok()) return place.status();
  const std::int64_t size = tensor.shape[*place];
  const auto parts = static_cast<std::int64_t>(count);
  const std::int64_t length = size / parts + (size % parts == 0 ? 0 : 1);
  std::vector<Tensors> out;
  for (std::int64_t i = 0; i < parts; ++i) {
    const std::int64_t begin = std::min(size, length * i);
    if (begin == size) {
      return misfit(
          target, absl::StrCat("tensor ", printable(tensor.name), " of shape ",
                               shape_text(tensor.shape), " has too little for ",
                               count, " parts"));
    }
    ParameterInfo part = tensor;
    part.shape[*place] = std::min(size, begin + length) - begin;
    out.push_back({std::move(part)});
  }
  return out;
}

// Part `index` of every source's list is stacked, and these are joined.
absl::StatusOr<std::vector<Tensors>> fuse_experts(
    absl::string_view target, const std::vector<Tensors>& lists,
    const OperationRow& op, std::size_t targets) {
  std::vector<Tensors> out;
  for (std::size_t index = 0; index < targets; ++index) {
    Tensors stacked;
    for (const Tensors& list : lists) {
      const std::size_t length = (list.size() + targets - 1) / targets;
      const std::size_t begin = std::min(list.size(), length * index);
      const std::size_t end = std::min(list.size(), begin + length);
      if (begin == end) return misfit(target, "a list of experts is too short");
      auto made =
          stack(target,
                Tensors(list.begin() + static_cast<std::ptrdiff_t>(begin),
                        list.begin() + static_cast<std::ptrdiff_t>(end)),
                op.dim0);
      if (!made.ok()) return made.status();
      stacked.push_back(*std::move(made));
    }
    auto joined = join(target, stacked, op.dim1);
    if (!joined.ok()) return joined.status();
    out.push_back({*std::move(joined)});
  }
  return out;
}

absl::Status transpose(absl::string_view target, const OperationRow& op,
                       std::vector<Tensors>& lists) {
  for (Tensors& list : lists) {
    list.resize(1);
    const auto first = dimension(target, list[0], op.dim0);
    if (!first.ok()) return first.status();
    const auto second = dimension(target, list[0], op.dim1);
    if (!second.ok()) return second.status();
    std::swap(list[0].shape[*first], list[0].shape[*second]);
  }
  return absl::OkStatus();
}

absl::Status unsupported(absl::string_view target, const OperationRow& op) {
  return absl::UnimplementedError(
      absl::StrCat("parameter ", printable(target), ": conversion ", op.name,
                   " needs more than the shapes of the checkpoint"));
}

// Transposes where the hidden size is not in its place: a weight has it last,
// the one that leads back to the hidden states first.
absl::Status transpose_to_fit(absl::string_view target, const OperationRow& op,
                              std::int64_t hidden,
                              std::vector<Tensors>& lists) {
  const ParameterInfo& tensor = lists[0][0];
  const bool leads_back = absl::StrContains(target, "down_proj");
  const auto place = dimension(target, tensor, leads_back ? op.dim0 : op.dim1);
  if (!place.ok()) return place.status();
  if (tensor.shape[*place] == hidden) return absl::OkStatus();
  if (absl::Status status = transpose(target, op, lists); !status.ok()) {
    return status;
  }
  if (lists[0][0].shape[*place] == hidden) return absl::OkStatus();
  return misfit(target,
                absl::StrCat("tensor ", printable(lists[0][0].tensors[0]),
                             " has no dimension of the hidden size ", hidden));
}

// Rows of the parameter that `target` names, or 0 where the config is not read
// for that.
std::int64_t rows_of(absl::string_view target, const ModelConfig& config) {
  if (absl::EndsWith(target, "q_proj")) return config.q_heads * config.head_dim;
  if (absl::EndsWith(target, "k_proj") || absl::EndsWith(target, "v_proj")) {
    return config.kv_heads * config.head_dim;
  }
  return 0;
}

// Cuts one tensor into its targets, each as long as the config says.
absl::Status split(const TransformRow& transform, absl::string_view target,
                   const OperationRow& op, const ModelConfig& config,
                   std::vector<Tensors>& lists) {
  const ParameterInfo whole = lists[0][0];
  const auto place = dimension(target, whole, op.dim0);
  if (!place.ok()) return place.status();
  lists.clear();
  std::int64_t left = whole.shape[*place];
  for (const absl::string_view name : transform.targets) {
    const std::int64_t rows = rows_of(name, config);
    if (rows == 0) return unsupported(target, op);
    ParameterInfo part = whole;
    part.shape[*place] = rows;
    lists.push_back({std::move(part)});
    left -= rows;
  }
  if (left == 0) return absl::OkStatus();
  return misfit(
      target, absl::StrCat("tensor ", printable(whole.tensors[0]), " of shape ",
                           shape_text(whole.shape),
                           " is not as long as the heads of the config"));
}

// One step; a list for each source, or for each target after a cut.
absl::Status apply(const OperationRow& op, const TransformRow& transform,
                   absl::string_view target, const ModelConfig* config,
                   std::vector<Tensors>& lists) {
  const std::size_t targets = transform.targets.size();
  switch (op.kind) {
    case OperationKind::kStack:
      for (Tensors& list : lists) {
        auto made = stack(target, list, op.dim0);
        if (!made.ok()) return made.status();
        list.assign(1, *std::move(made));
      }
      return absl::OkStatus();
    case OperationKind::kConcatenate: {
      Tensors all;
      for (Tensors& list : lists) {
        std::move(list.begin(), list.end(), std::back_inserter(all));
      }
      auto made = join(target, all, op.dim0);
      if (!made.ok()) return made.status();
      lists.assign(1, {*std::move(made)});
      return absl::OkStatus();
    }
    case OperationKind::kChunk: {
      auto made = chunk(target, lists[0][0], op.dim0, targets);
      if (!made.ok()) return made.status();
      lists = *std::move(made);
      return absl::OkStatus();
    }
    case OperationKind::kFuseExperts: {
      auto made = fuse_experts(target, lists, op, targets);
      if (!made.ok()) return made.status();
      lists = *std::move(made);
      return absl::OkStatus();
    }
    case OperationKind::kSplit:
      if (config == nullptr) return unsupported(target, op);
      return split(transform, target, op, *config, lists);
    case OperationKind::kTranspose:
      return transpose(target, op, lists);
    case OperationKind::kTransposeToFit:
      if (config == nullptr) return unsupported(target, op);
      return transpose_to_fit(target, op, config->hidden, lists);
    case OperationKind::kKeepShape:
      return absl::OkStatus();
    case OperationKind::kDequantize:
      if (lists.size() > 1) return unsupported(target, op);
      return absl::OkStatus();
    case OperationKind::kUnsupported:
      return unsupported(target, op);
  }
  return absl::OkStatus();
}

bool may_lack_sources(const TransformRow& transform) {
  return transform.operations[0].kind == OperationKind::kDequantize;
}

// The parameters' names: `target` with the first target in it replaced.
absl::Status name_results(const TransformRow& transform,
                          absl::string_view target, std::vector<Tensors> lists,
                          std::vector<ParameterInfo>& out) {
  if (lists.size() > transform.targets.size()) {
    return misfit(target, absl::StrCat(transform.name, " leaves ", lists.size(),
                                       " tensors"));
  }
  const std::string full = absl::StrReplaceAll(target, {{"*.", "0."}});
  for (std::size_t i = 0; i < lists.size(); ++i) {
    ParameterInfo made = std::move(lists[i][0]);
    made.name = full;
    for (const absl::string_view key : transform.targets) {
      const std::size_t at = full.find(std::string(key));
      if (at == std::string::npos) continue;
      made.name = absl::StrCat(full.substr(0, at), transform.targets[i],
                               full.substr(at + key.size()));
      break;
    }
    out.push_back(std::move(made));
  }
  return absl::OkStatus();
}

// Fills `\1`, `\2` ... of a target with what the groups held.
std::string filled(absl::string_view target, const NameMatch& match,
                   std::int32_t offset) {
  std::string out(target);
  for (std::size_t i = 0; i < match.groups.size(); ++i) {
    std::string group(match.groups[i]);
    std::int64_t number = 0;
    // Where the sum wraps, no model has such a layer, and the name stays.
    if (offset != 0 && absl::SimpleAtoi(group, &number) &&
        !__builtin_add_overflow(number, offset, &number)) {
      group = absl::StrCat(number);
    }
    out = absl::StrReplaceAll(out, {{absl::StrCat("\\", i + 1), group}});
  }
  return out;
}

}  // namespace

absl::StatusOr<std::vector<WeightTransform>> weight_transforms(
    absl::Span<const PlacedClass> classes, absl::string_view model_type,
    absl::string_view base_prefix) {
  std::vector<WeightTransform> out;
  Seen seen;
  for (const PlacedClass& placed : classes) {
    const ConversionRow* conversion = conversion_of(placed, model_type, seen);
    if (conversion == nullptr) continue;
    const std::string* path = placed.path.empty() ? nullptr : &placed.path;
    absl::Status status = append(*conversion, path, base_prefix, out);
    if (!status.ok()) return status;
  }
  absl::Status status =
      append(*find_conversion("legacy"), nullptr, base_prefix, out);
  if (!status.ok()) return status;
  return out;
}

std::optional<Renamed> rename(const WeightTransform& transform,
                              absl::string_view name, bool& guard_met) {
  absl::string_view prefix;
  if (transform.scoped) {
    const std::string longest =
        absl::StrCat(transform.base_prefix, transform.scope);
    if (absl::StartsWith(name, longest)) {
      prefix = name.substr(0, longest.size());
    } else if (absl::StartsWith(name, transform.scope)) {
      prefix = name.substr(0, transform.scope.size());
    } else {
      return std::nullopt;
    }
  }
  const absl::string_view rest = name.substr(prefix.size());
  std::optional<NameMatch> match;
  std::size_t branch = 0;
  for (std::size_t i = 0; i < transform.sources.size(); ++i) {
    auto found = transform.sources[i]->search(rest);
    if (!found || (match && found->begin >= match->begin)) continue;
    match = std::move(found);
    branch = i;
  }
  if (!match) return std::nullopt;
  const TransformRow& row = *transform.row;
  const std::int32_t source = row.sources[branch].index;
  const bool group = row.kind == TransformKind::kGroupRename;
  if (group && source == 0) guard_met = true;
  if (group && !guard_met) return std::nullopt;
  const absl::string_view target =
      row.targets[group ? static_cast<std::size_t>(source) : 0];
  // As Python's str.replace: the first place that reads like the match.
  const absl::string_view met =
      rest.substr(match->begin, match->end - match->begin);
  const std::size_t at = rest.find(met);
  return Renamed{absl::StrCat(prefix, rest.substr(0, at),
                              filled(target, *match, row.offset),
                              rest.substr(at + met.size())),
                 source, transform.tells_digits || at != match->begin};
}

absl::StatusOr<std::vector<ParameterInfo>> convert(
    const TransformRow& transform, absl::string_view target,
    std::vector<std::vector<ParameterInfo>> collected,
    const ModelConfig* config) {
  if (!may_lack_sources(transform)) {
    for (std::size_t i = 0; i < collected.size(); ++i) {
      if (!collected[i].empty()) continue;
      for (const SourceRow& source : transform.sources) {
        if (source.index != static_cast<std::int32_t>(i)) continue;
        return misfit(target, absl::StrCat("the checkpoint lacks its part ",
                                           printable(source.regex)));
      }
    }
  }
  collected.erase(
      std::remove_if(collected.begin(), collected.end(),
                     [](const Tensors& list) { return list.empty(); }),
      collected.end());
  for (const OperationRow& op : transform.operations) {
    absl::Status status = apply(op, transform, target, config, collected);
    if (!status.ok()) return status;
  }
  std::vector<ParameterInfo> out;
  absl::Status status =
      name_results(transform, target, std::move(collected), out);
  if (!status.ok()) return status;
  return out;
}

}  // namespace trnscout
