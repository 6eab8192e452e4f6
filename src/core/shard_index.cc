#include "shard_index.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "json_events.h"
#include "printable.h"
#include "regular_file.h"
#include "trnscout/checkpoint.h"

namespace trnscout {
namespace {

// Far past what an index has; keeps the reading of hostile ones short.
constexpr int kMaxDepth = 64;

// Collects (tensor, shard's name) pairs and metadata.total_size.
class IndexEvents final : public JsonEvents {
 public:
  std::vector<std::pair<std::string, std::string>> weight_map;
  std::optional<JsonValue> total_size;
  bool has_weight_map = false;

  absl::Status begin_object() override {
    if (depth_ == 1) section_ = key_;
    if (in_weight_map() && depth_ > 1) return not_a_name("an object");
    return enter();
  }

  absl::Status end_object() override { return leave(); }

  absl::Status begin_array() override {
    if (depth_ == 0) return absl::InvalidArgumentError("not an object");
    if (depth_ == 1) section_.clear();
    if (depth_ == 1 && key_ == "weight_map") return no_map("an array");
    if (in_weight_map()) return not_a_name("an array");
    return enter();
  }

  absl::Status end_array() override { return leave(); }

  absl::Status key(std::string name) override {
    key_ = std::move(name);
    if (depth_ == 1 && key_ == "weight_map" &&
        std::exchange(has_weight_map, true)) {
      return absl::InvalidArgumentError("weight_map stands twice");
    }
    return absl::OkStatus();
  }

  absl::Status value(JsonValue value) override {
    if (depth_ == 0) return absl::InvalidArgumentError("not an object");
    if (depth_ == 1 && key_ == "weight_map") return no_map(printable(value));
    if (in_weight_map()) {
      if (value.kind != JsonKind::kString) return not_a_name(printable(value));
      weight_map.emplace_back(std::move(key_), std::move(value.text));
    } else if (depth_ == 2 && section_ == "metadata" && key_ == "total_size") {
      total_size = std::move(value);
    }
    return absl::OkStatus();
  }

 private:
  bool in_weight_map() const { return depth_ > 1 && section_ == "weight_map"; }

  absl::Status enter() {
    if (++depth_ <= kMaxDepth) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("nested deeper than the limit of ", kMaxDepth));
  }

  absl::Status leave() {
    --depth_;
    return absl::OkStatus();
  }

  static absl::Status no_map(absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("weight_map is ", what, ", not an object"));
  }

  absl::Status not_a_name(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("weight_map: tensor ", printable(key_), " maps to ", what,
                     ", not to a file name"));
  }

  int depth_ = 0;
  std::string section_;
  std::string key_;
};

// The rule for a name before any file is touched.
absl::Status check_shard_name(absl::string_view name) {
  const auto refuse = [name](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("weight_map: shard name ", printable(name), " ", why));
  };
  if (name.empty()) return refuse("is empty");
  if (name.find('\0') != absl::string_view::npos) return refuse("holds NUL");
  // Harmless here, but a separator on the systems that write such names.
  if (name.find('\\') != absl::string_view::npos) {
    return refuse("holds a backslash");
  }
  if (name.front() == '/') return refuse("is absolute");
  for (const absl::string_view part : absl::StrSplit(name, '/')) {
    if (part == "..") return refuse("leads out of the directory");
    if (part.empty() || part == ".") return refuse("is not in its plain form");
  }
  return absl::OkStatus();
}

// "PREFIX-00002-of-00005.safetensors" is number 2 of 5 of family PREFIX.
struct FamilyMember {
  std::string prefix;
  std::int64_t number = 0;
  std::int64_t count = 0;
};

bool take_digits_off_end(absl::string_view& text, std::int64_t& number) {
  std::size_t begin = text.size();
  while (begin > 0 && absl::ascii_isdigit(text[begin - 1])) --begin;
  if (!absl::SimpleAtoi(text.substr(begin), &number)) return false;
  text = text.substr(0, begin);
  return true;
}

std::optional<FamilyMember> family_member(absl::string_view name) {
  FamilyMember out;
  if (!absl::ConsumeSuffix(&name, ".safetensors") ||
      !take_digits_off_end(name, out.count) ||
      !absl::ConsumeSuffix(&name, "-of-") ||
      !take_digits_off_end(name, out.number) ||
      !absl::ConsumeSuffix(&name, "-")) {
    return std::nullopt;
  }
  out.prefix = std::string(name);
  return out;
}

using Families =
    std::map<std::pair<std::string, std::int64_t>, std::set<std::int64_t>>;

absl::Status check_family(const std::string& prefix, std::int64_t count,
                          const std::set<std::int64_t>& numbers) {
  constexpr std::size_t kShown = 4;
  // Some families count from 0.
  const std::int64_t first = numbers.count(0) > 0 ? 0 : 1;
  const std::int64_t present = std::distance(
      numbers.lower_bound(first), numbers.upper_bound(first + (count - 1)));
  if (present >= count) return absl::OkStatus();
  std::vector<std::int64_t> absent;
  for (std::int64_t i = 0; i < count && absent.size() < kShown; ++i) {
    if (numbers.count(first + i) == 0) absent.push_back(first + i);
  }
  const bool more = count - present > static_cast<std::int64_t>(absent.size());
  return absl::InvalidArgumentError(absl::StrCat(
      "weight_map names ", present, " of the ", count, " shards ",
      printable(prefix), "-*-of-", count,
      "; absent: ", absl::StrJoin(absent, ", "), more ? ", ..." : ""));
}

// A stale index names the first shards of a family and forgets the others.
absl::Status check_families(const std::vector<std::string>& shards) {
  Families families;
  for (const std::string& shard : shards) {
    if (const auto member = family_member(shard)) {
      families[{member->prefix, member->count}].insert(member->number);
    }
  }
  for (const auto& [family, numbers] : families) {
    const absl::Status status =
        check_family(family.first, family.second, numbers);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status set_places(
    std::vector<std::pair<std::string, std::string>> weight_map,
    ShardIndex& index) {
  std::sort(weight_map.begin(), weight_map.end());
  const auto twice = std::adjacent_find(
      weight_map.begin(), weight_map.end(),
      [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice != weight_map.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "weight_map: duplicate tensor name ", printable(twice->first)));
  }
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : weight_map) shards.insert(shard);
  index.shards.assign(shards.begin(), shards.end());
  for (auto& [tensor, shard] : weight_map) {
    const auto found =
        std::lower_bound(index.shards.begin(), index.shards.end(), shard);
    index.places.push_back(
        {std::move(tensor),
         static_cast<std::uint32_t>(found - index.shards.begin())});
  }
  return absl::OkStatus();
}

absl::Status check_length(std::uint64_t bytes) {
  if (bytes <= Checkpoint::kMaxHeaderBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("index of ", bytes,
                                                 " bytes is past the limit of ",
                                                 Checkpoint::kMaxHeaderBytes));
}

absl::StatusOr<ShardIndex> read_index(const RegularFile& file) {
  absl::Status status =
      check_length(static_cast<std::uint64_t>(file.size_bytes()));
  if (!status.ok()) return status;
  const auto text = file.read(0, file.size_bytes());
  if (!text.ok()) return text.status();
  return parse_shard_index(*text);
}

}  // namespace

absl::StatusOr<ShardIndex> parse_shard_index(absl::string_view text) {
  if (absl::Status status = check_length(text.size()); !status.ok()) {
    return status;
  }
  IndexEvents events;
  if (absl::Status status = read_json(text, events); !status.ok()) {
    return status;
  }
  if (!events.has_weight_map) {
    return absl::InvalidArgumentError("weight_map is missing");
  }
  if (events.weight_map.empty()) {
    return absl::InvalidArgumentError("weight_map names no tensors");
  }
  ShardIndex index;
  absl::Status status = set_places(std::move(events.weight_map), index);
  for (std::size_t i = 0; status.ok() && i < index.shards.size(); ++i) {
    status = check_shard_name(index.shards[i]);
  }
  if (status.ok()) status = check_families(index.shards);
  if (!status.ok()) return status;
  if (!events.total_size.has_value()) return index;
  if (events.total_size->kind == JsonKind::kWhole) {
    index.total_bytes = events.total_size->whole;
  } else {
    index.warnings.push_back(absl::StrCat("metadata.total_size is ",
                                          printable(*events.total_size),
                                          ", not a whole number of bytes"));
  }
  return index;
}

absl::StatusOr<ShardIndex> read_shard_index(const std::filesystem::path& path) {
  const auto file = RegularFile::open(path);
  if (!file.ok()) return at(printable_path(path), file.status());
  auto index = read_index(*file);
  if (!index.ok()) return at(printable_path(path), index.status());
  return index;
}

}  // namespace trnscout
