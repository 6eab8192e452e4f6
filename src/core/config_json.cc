#include "config_json.h"

#include <algorithm>
#include <array>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "printable.h"

namespace trnscout {
namespace {

constexpr std::size_t kMaxDepth = 64;

// JSON has no such values, so the parser is given strings of the same length
// that begin with a byte which no config has. Places in messages stay right.
constexpr char kMark = '\x7f';
constexpr std::array<absl::string_view, 3> kConstants = {"NaN", "Infinity",
                                                         "-Infinity"};

bool ends_word(absl::string_view rest) {
  return rest.empty() || absl::string_view(" \t\r\n,]}").find(rest.front()) !=
                             absl::string_view::npos;
}

std::string stand_in(absl::string_view constant) {
  std::string out(constant.size(), constant.front() == '-' ? '-' : '+');
  out.front() = out.back() = '"';
  out[1] = kMark;
  return out;
}

// Puts strings in the place of constants, outside of strings.
std::string without_constants(absl::string_view text) {
  std::string out(text);
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (in_string) {
      if (text[i] == '\\') {
        ++i;
      } else if (text[i] == '"') {
        in_string = false;
      }
      continue;
    }
    in_string = text[i] == '"';
    for (const absl::string_view constant : kConstants) {
      if (absl::StartsWith(text.substr(i), constant) &&
          ends_word(text.substr(i + constant.size()))) {
        out.replace(i, constant.size(), stand_in(constant));
        i += constant.size() - 1;
        break;
      }
    }
  }
  return out;
}

// The name of the constant that a string stands for.
absl::string_view constant_of(absl::string_view text) {
  if (text.size() == 1) return kConstants[0];
  return text[1] == '-' ? kConstants[2] : kConstants[1];
}

class TreeEvents final : public JsonEvents {
 public:
  explicit TreeEvents(std::vector<std::string>& warnings)
      : warnings_(warnings) {}

  ConfigValue take_root() { return std::move(root_); }

  absl::Status begin_object() override {
    return enter(ConfigValue::Kind::kObject);
  }
  absl::Status end_object() override { return leave(); }
  absl::Status begin_array() override {
    if (open_.empty()) return no_object("an array");
    return enter(ConfigValue::Kind::kArray);
  }
  absl::Status end_array() override { return leave(); }

  absl::Status key(std::string name) override {
    key_ = std::move(name);
    return absl::OkStatus();
  }

  absl::Status value(JsonValue value) override {
    if (open_.empty()) return no_object(printable(value));
    ConfigValue& added = add();
    if (value.kind == JsonKind::kString && !value.text.empty() &&
        value.text.front() == kMark) {
      added.kind = ConfigValue::Kind::kConstant;
      value.text = std::string(constant_of(value.text));
    }
    added.scalar = std::move(value);
    return absl::OkStatus();
  }

 private:
  static absl::Status no_object(absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("the whole is ", what, ", not an object"));
  }

  // Makes a place for the value that comes next. Duplicates stay until their
  // object ends, so that many keys cost no more than their sorting.
  ConfigValue& add() {
    if (open_.empty()) return root_;
    ConfigValue& parent = *open_.back();
    if (parent.kind == ConfigValue::Kind::kArray) {
      return parent.items.emplace_back();
    }
    return parent.members.emplace_back(std::move(key_), ConfigValue()).second;
  }

  absl::Status enter(ConfigValue::Kind kind) {
    if (open_.size() == kMaxDepth) {
      return absl::InvalidArgumentError(
          absl::StrCat("nested deeper than the limit of ", kMaxDepth));
    }
    ConfigValue& added = add();
    added.kind = kind;
    // A parent's parts do not move while this one is open: it is the last.
    open_.push_back(&added);
    return absl::OkStatus();
  }

  absl::Status leave() {
    ConfigValue& ended = *open_.back();
    open_.pop_back();
    if (ended.kind == ConfigValue::Kind::kObject) keep_last(ended);
    return absl::OkStatus();
  }

  void keep_last(ConfigValue& object) {
    auto& members = object.members;
    std::stable_sort(
        members.begin(), members.end(),
        [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t i = 0; i + 1 < members.size(); ++i) {
      if (members[i].first != members[i + 1].first) continue;
      if (warnings_.size() < kMostWarnings) {
        warnings_.push_back(absl::StrCat(printable(members[i].first),
                                         " stands twice; the last one "
                                         "counts, as in Python"));
      }
    }
    const auto first = std::unique(
        members.rbegin(), members.rend(),
        [](const auto& a, const auto& b) { return a.first == b.first; });
    members.erase(members.begin(), first.base());
  }

  static constexpr std::size_t kMostWarnings = 16;

  std::vector<std::string>& warnings_;
  ConfigValue root_;
  std::vector<ConfigValue*> open_;
  std::string key_;
};

}  // namespace

const ConfigValue* ConfigValue::find(absl::string_view name) const {
  const auto found =
      std::lower_bound(members.begin(), members.end(), name,
                       [](const auto& member, absl::string_view key) {
                         return absl::string_view(member.first) < key;
                       });
  return found == members.end() || found->first != name ? nullptr
                                                        : &found->second;
}

std::string printable(const ConfigValue& value) {
  switch (value.kind) {
    case ConfigValue::Kind::kArray:
      return "[...]";
    case ConfigValue::Kind::kObject:
      return "{...}";
    case ConfigValue::Kind::kConstant:
      return value.scalar.text;
    case ConfigValue::Kind::kScalar:
      break;
  }
  return printable(value.scalar);
}

absl::StatusOr<ConfigValue> read_config_json(
    absl::string_view text, std::vector<std::string>& warnings) {
  TreeEvents events(warnings);
  const std::string readable = without_constants(text);
  if (absl::Status status = read_json(readable, events); !status.ok()) {
    return status;
  }
  return events.take_root();
}

}  // namespace trnscout
