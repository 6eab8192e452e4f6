#include "parameter_load.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "name_pattern.h"
#include "printable.h"
#include "weight_conversion.h"

namespace trnscout {
namespace {

// A part of a name: a whole number, or text with the number at its end.
struct NamePart {
  bool is_text = false;
  absl::string_view text;
  absl::string_view digits;  // no zeros in front

  NamePart() = default;
  explicit NamePart(absl::string_view part) {
    std::size_t begin = part.size();
    while (begin > 0 &&
           absl::ascii_isdigit(static_cast<unsigned char>(part[begin - 1]))) {
      --begin;
    }
    text = part.substr(0, begin);
    digits = part.substr(begin);
    while (digits.size() > 1 && digits[0] == '0') digits.remove_prefix(1);
    is_text = begin > 0 || part.empty();
  }

  auto key() const {
    return std::make_tuple(is_text, text, digits.size(), digits);
  }
};

// Takes the part before the next dot off `rest`; false where none is left.
bool take_part(absl::string_view& rest, bool& ended, NamePart& part) {
  if (ended) return false;
  const std::size_t dot = rest.find('.');
  part = NamePart(rest.substr(0, dot));
  ended = dot == absl::string_view::npos;
  if (!ended) rest.remove_prefix(dot + 1);
  return true;
}

// Orders names as the library does: layer 2 before layer 10.
bool natural_less(absl::string_view a, absl::string_view b) {
  bool a_ended = false;
  bool b_ended = false;
  NamePart left;
  NamePart right;
  while (true) {
    const bool more = take_part(a, a_ended, left);
    if (!take_part(b, b_ended, right)) return false;
    if (!more) return true;
    if (left.key() < right.key()) return true;
    if (right.key() < left.key()) return false;
  }
}

// The name with 0 for each digit past its first two parts, which tell whether
// the model has such a module at all.
std::string without_digits(absl::string_view name) {
  std::string out(name);
  const std::size_t dot = name.find('.');
  const std::size_t from =
      dot == absl::string_view::npos ? dot : name.find('.', dot + 1);
  for (std::size_t i = std::min(from, out.size()); i < out.size(); ++i) {
    if (absl::ascii_isdigit(static_cast<unsigned char>(out[i]))) out[i] = '0';
  }
  return out;
}

// Renames and collects the tensors of one load.
class Load {
 public:
  static absl::StatusOr<Load> start(const ModelClasses& classes,
                                    absl::string_view model_type,
                                    const ModelConfig* config) {
    Load out(*classes.model, config);
    auto transforms = weight_transforms(classes.classes, model_type,
                                        classes.model->base_prefix);
    if (!transforms.ok()) return transforms.status();
    out.transforms_ = *std::move(transforms);
    for (const absl::string_view regex : classes.ignored) {
      const auto pattern = NamePattern::shared(regex);
      if (!pattern.ok()) return pattern.status();
      out.ignored_.push_back(*pattern);
    }
    out.guards_.resize(out.transforms_.size());
    return out;
  }

  // Whether what a name becomes may hang on the names before it.
  bool needs_order() const {
    return absl::c_any_of(transforms_, [](const WeightTransform& transform) {
      return transform.row->kind == TransformKind::kGroupRename;
    });
  }

  void expect(std::size_t tensors) { out_.parameters.reserve(tensors); }

  absl::Status add(const TensorInfo& tensor) {
    Name name{tensor.name, -1, 0};
    if (absl::Status status = rename_all(name); !status.ok()) return status;
    if (!known(name.text) && known(tensor.name)) {
      name = {with_prefix(tensor.name), -1, 0};
    }
    const bool ignored =
        absl::c_any_of(ignored_, [&name](const NamePattern* pattern) {
          return pattern->search(name.text).has_value();
        });
    if (ignored || !known(name.text)) {
      out_.left_out.push_back(tensor.name);
      return absl::OkStatus();
    }
    ParameterInfo info{"", tensor.dtype, tensor.shape, {}};
    info.tensors.push_back(tensor.name);
    if (name.transform < 0) {
      info.name = std::move(name.text);
      out_.parameters.push_back(std::move(info));
      return absl::OkStatus();
    }
    info.name = tensor.name;
    const auto index = static_cast<std::size_t>(name.transform);
    auto& lists = collected_[{std::move(name.text), index}];
    lists.resize(transforms_[index].sources.size());
    lists[static_cast<std::size_t>(name.source)].push_back(std::move(info));
    return absl::OkStatus();
  }

  absl::StatusOr<LoadedParameters> finish() && {
    for (auto& [key, lists] : collected_) {
      for (auto& list : lists) {
        absl::c_sort(list, [](const ParameterInfo& a, const ParameterInfo& b) {
          return natural_less(a.name, b.name);
        });
      }
      auto made = convert(*transforms_[key.second].row, key.first,
                          std::move(lists), config_);
      if (!made.ok()) return made.status();
      std::move(made->begin(), made->end(),
                std::back_inserter(out_.parameters));
    }
    const auto by_name = [](const ParameterInfo& a, const ParameterInfo& b) {
      return a.name < b.name;
    };
    if (!absl::c_is_sorted(out_.parameters, by_name)) {
      absl::c_sort(out_.parameters, by_name);
    }
    return std::move(out_);
  }

 private:
  struct Name {
    std::string text;
    std::int32_t transform = -1;  // the conversion that collects the tensor
    std::int32_t source = 0;
  };

  Load(const ModelRow& model, const ModelConfig* config)
      : model_(&model), config_(config) {}

  // Whether the model has a module or tensor at the name's first parts.
  bool known(absl::string_view name) const {
    const std::size_t dot = name.find('.');
    const absl::string_view first = name.substr(0, dot);
    if (!absl::c_binary_search(model_->children, first)) return false;
    if (first != model_->base_prefix || model_->base_children.empty()) {
      return true;
    }
    if (dot == absl::string_view::npos) return false;
    const absl::string_view rest = name.substr(dot + 1);
    return absl::c_binary_search(model_->base_children,
                                 rest.substr(0, rest.find('.')));
  }

  // A checkpoint of the base model alone lacks its prefix, or has it where
  // the head's own name needs none.
  std::string with_prefix(std::string name) const {
    const absl::string_view prefix = model_->base_prefix;
    if (prefix.empty() || known(name)) return name;
    std::string added = absl::StrCat(prefix, ".", name);
    if (known(added)) return added;
    if (absl::StartsWith(name, absl::StrCat(prefix, ".")) &&
        known(absl::string_view(name).substr(prefix.size() + 1))) {
      return name.substr(prefix.size() + 1);
    }
    return name;
  }

  // What becomes of a name, for all names that differ in digits alone.
  struct Recipe {
    struct Step {
      std::size_t transform = 0;
      bool applies = false;
    };
    std::vector<Step> steps;
    bool shared = true;  // no step saw digits that others may lack
  };

  // A model has few kinds of names: what one of them met, the others meet.
  absl::Status rename_all(Name& name) {
    const std::string kind = without_digits(name.text);
    const auto found = recipes_.find(kind);
    if (found != recipes_.end()) {
      Name followed = name;
      const Recipe recipe = found->second;  // a guard that is met clears them
      if (follow(recipe, followed)) {
        name = std::move(followed);
        name.text = with_prefix(std::move(name.text));
        return absl::OkStatus();
      }
    }
    Recipe recipe;
    if (absl::Status status = rename_all(name, recipe); !status.ok()) {
      return status;
    }
    if (recipe.shared) recipes_[kind] = std::move(recipe);
    name.text = with_prefix(std::move(name.text));
    return absl::OkStatus();
  }

  // All the renames that apply, then at most one conversion.
  absl::Status rename_all(Name& name, Recipe& recipe) {
    for (const bool converts : {false, true}) {
      for (std::size_t i = 0; i < transforms_.size(); ++i) {
        const bool is_conversion =
            transforms_[i].row->kind == TransformKind::kConvert;
        if (is_conversion != converts) continue;
        auto made = rename_by(i, name.text);
        if (made || transforms_[i].tells_digits) {
          recipe.steps.push_back({i, made.has_value()});
        }
        if (!made) continue;
        if (transforms_[i].row->kind == TransformKind::kUnsupported) {
          return absl::UnimplementedError(absl::StrCat(
              "tensor ", printable(name.text), ": rename ",
              transforms_[i].row->name, " cannot be told from names alone"));
        }
        recipe.shared &= !made->tells_digits;
        take(i, *std::move(made), name);
        if (converts) break;
      }
    }
    return absl::OkStatus();
  }

  // False where this name's digits lead elsewhere.
  bool follow(const Recipe& recipe, Name& name) {
    for (const Recipe::Step& step : recipe.steps) {
      auto made = rename_by(step.transform, name.text);
      if (made.has_value() != step.applies) return false;
      if (!made) continue;
      if (made->tells_digits) return false;
      take(step.transform, *std::move(made), name);
    }
    return true;
  }

  std::optional<Renamed> rename_by(std::size_t transform,
                                   absl::string_view name) {
    bool guard = guards_[transform];
    auto made = rename(transforms_[transform], name, guard);
    // From here on the names before this one would come to something else.
    if (guard != guards_[transform]) recipes_.clear();
    guards_[transform] = guard;
    return made;
  }

  void take(std::size_t transform, Renamed made, Name& name) const {
    name.text = std::move(made.name);
    if (transforms_[transform].row->kind != TransformKind::kConvert) return;
    name.transform = static_cast<std::int32_t>(transform);
    name.source = made.source;
  }

  const ModelRow* model_;
  const ModelConfig* config_;
  std::vector<WeightTransform> transforms_;
  std::vector<const NamePattern*> ignored_;
  std::vector<bool> guards_;
  absl::flat_hash_map<std::string, Recipe> recipes_;
  std::map<std::pair<std::string, std::size_t>,
           std::vector<std::vector<ParameterInfo>>>
      collected_;
  LoadedParameters out_;
};

}  // namespace

absl::StatusOr<LoadedParameters> load_parameters(
    const ModelClasses& classes, absl::string_view model_type,
    absl::Span<const TensorInfo> tensors, const ModelConfig* config) {
  auto load = Load::start(classes, model_type, config);
  if (!load.ok()) return load.status();
  load->expect(tensors.size());
  std::vector<const TensorInfo*> sorted;
  sorted.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) {
    if (tensor.name.size() > NamePattern::kMaxNameBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", printable(tensor.name), ": a name of ", tensor.name.size(),
          " bytes is past the limit of ", NamePattern::kMaxNameBytes));
    }
    sorted.push_back(&tensor);
  }
  if (load->needs_order()) {
    absl::c_sort(sorted, [](const TensorInfo* a, const TensorInfo* b) {
      return natural_less(a->name, b->name);
    });
  }
  for (const TensorInfo* tensor : sorted) {
    absl::Status status = load->add(*tensor);
    if (!status.ok()) return status;
  }
  return (*std::move(load)).finish();
}

}  // namespace trnscout
