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
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
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

// Orders names as the library does: layer 2 before layer 10.
bool natural_less(const std::string& a, const std::string& b) {
  const std::vector<absl::string_view> left = absl::StrSplit(a, '.');
  const std::vector<absl::string_view> right = absl::StrSplit(b, '.');
  return std::lexicographical_compare(
      left.begin(), left.end(), right.begin(), right.end(),
      [](absl::string_view x, absl::string_view y) {
        return NamePart(x).key() < NamePart(y).key();
      });
}

// Renames and collects the tensors of one load.
class Load {
 public:
  static absl::StatusOr<Load> start(const ModelClasses& classes,
                                    absl::string_view model_type) {
    Load out(*classes.model);
    auto transforms = weight_transforms(classes.classes, model_type,
                                        classes.model->base_prefix);
    if (!transforms.ok()) return transforms.status();
    out.transforms_ = *std::move(transforms);
    for (const absl::string_view regex : classes.ignored) {
      auto pattern = NamePattern::compile(regex);
      if (!pattern.ok()) return pattern.status();
      out.ignored_.push_back(*std::move(pattern));
    }
    out.guards_.resize(out.transforms_.size());
    return out;
  }

  absl::Status add(const TensorInfo& tensor) {
    Name name{tensor.name, -1, 0};
    if (absl::Status status = rename_all(name); !status.ok()) return status;
    if (!known(name.text) && known(tensor.name)) {
      name = {with_prefix(tensor.name), -1, 0};
    }
    const bool ignored =
        absl::c_any_of(ignored_, [&name](const NamePattern& pattern) {
          return pattern.search(name.text).has_value();
        });
    if (ignored || !known(name.text)) {
      out_.left_out.push_back(tensor.name);
      return absl::OkStatus();
    }
    ParameterInfo info{tensor.name, tensor.dtype, tensor.shape, {tensor.name}};
    if (name.transform < 0) {
      info.name = std::move(name.text);
      out_.parameters.push_back(std::move(info));
      return absl::OkStatus();
    }
    const auto index = static_cast<std::size_t>(name.transform);
    auto& lists = collected_[{std::move(name.text), index}];
    lists.resize(transforms_[index].sources.size());
    lists[static_cast<std::size_t>(name.source)].push_back(std::move(info));
    return absl::OkStatus();
  }

  absl::StatusOr<LoadedParameters> finish() && {
    for (auto& [key, lists] : collected_) {
      auto made =
          convert(*transforms_[key.second].row, key.first, std::move(lists));
      if (!made.ok()) return made.status();
      std::move(made->begin(), made->end(),
                std::back_inserter(out_.parameters));
    }
    absl::c_sort(out_.parameters,
                 [](const ParameterInfo& a, const ParameterInfo& b) {
                   return a.name < b.name;
                 });
    return std::move(out_);
  }

 private:
  struct Name {
    std::string text;
    std::int32_t transform = -1;  // the conversion that collects the tensor
    std::int32_t source = 0;
  };

  explicit Load(const ModelRow& model) : model_(&model) {}

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

  // All the renames that apply, then at most one conversion.
  absl::Status rename_all(Name& out) {
    for (const bool converts : {false, true}) {
      for (std::size_t i = 0; i < transforms_.size(); ++i) {
        const bool is_conversion =
            transforms_[i].row->kind == TransformKind::kConvert;
        if (is_conversion != converts) continue;
        bool guard = guards_[i];
        auto made = rename(transforms_[i], out.text, guard);
        guards_[i] = guard;
        if (!made) continue;
        if (transforms_[i].row->kind == TransformKind::kUnsupported) {
          return absl::UnimplementedError(absl::StrCat(
              "tensor ", printable(out.text), ": rename ",
              transforms_[i].row->name, " cannot be told from names alone"));
        }
        out.text = std::move(made->name);
        if (!converts) continue;
        out.transform = static_cast<std::int32_t>(i);
        out.source = made->source;
        break;
      }
    }
    out.text = with_prefix(std::move(out.text));
    return absl::OkStatus();
  }

  const ModelRow* model_;
  std::vector<WeightTransform> transforms_;
  std::vector<NamePattern> ignored_;
  std::vector<bool> guards_;
  std::map<std::pair<std::string, std::size_t>,
           std::vector<std::vector<ParameterInfo>>>
      collected_;
  LoadedParameters out_;
};

}  // namespace

absl::StatusOr<LoadedParameters> load_parameters(
    const ModelClasses& classes, absl::string_view model_type,
    absl::Span<const TensorInfo> tensors) {
  auto load = Load::start(classes, model_type);
  if (!load.ok()) return load.status();
  std::vector<const TensorInfo*> sorted;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.name.size() > NamePattern::kMaxNameBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", printable(tensor.name), ": a name of ", tensor.name.size(),
          " bytes is past the limit of ", NamePattern::kMaxNameBytes));
    }
    sorted.push_back(&tensor);
  }
  absl::c_sort(sorted, [](const TensorInfo* a, const TensorInfo* b) {
    return natural_less(a->name, b->name);
  });
  for (const TensorInfo* tensor : sorted) {
    absl::Status status = load->add(*tensor);
    if (!status.ok()) return status;
  }
  return (*std::move(load)).finish();
}

}  // namespace trnscout
