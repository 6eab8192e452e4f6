#include "checkpoint_parts.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "printable.h"

namespace trnscout {
namespace {

constexpr char kIndex[] = "model.safetensors.index.json";
// Lists in messages end here.
constexpr std::size_t kShown = 8;

std::string list(const std::vector<std::string>& shown, std::size_t count) {
  return absl::StrCat(absl::StrJoin(shown, ", "),
                      count > shown.size()
                          ? absl::StrCat(" and ", count - shown.size(), " more")
                          : "");
}

// Order of a tensor of this name and shard beside another.
int compare(absl::string_view name, std::uint32_t shard,
            const TensorInfo& other) {
  const int order = name.compare(other.name);
  if (order != 0 || shard == other.shard) return order;
  return shard < other.shard ? -1 : 1;
}

// `held` is sorted by name and shard, as the index's places are.
absl::Status refuse_lacking(const ShardIndex& index,
                            const std::vector<TensorInfo>& held) {
  std::vector<std::string> shown;
  std::size_t lacking = 0;
  auto next = held.begin();
  for (const ShardIndex::Place& place : index.places) {
    int order = -1;
    while (next != held.end() &&
           (order = compare(place.tensor, place.shard, *next)) > 0) {
      ++next;
    }
    if (next != held.end() && order == 0) continue;
    if (++lacking > kShown) continue;
    shown.push_back(absl::StrCat(printable(place.tensor), " in ",
                                 printable(index.shards[place.shard])));
  }
  if (lacking == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(kIndex, " names ", counted(lacking, "tensor"),
                   " that the shard's header lacks: ", list(shown, lacking)));
}

// Tensors of one shard that its index does not place there.
struct Strays {
  std::vector<std::string> unnamed;
  std::vector<std::string> copies;

  void warn(absl::string_view shard, std::vector<std::string>& warnings) const {
    const auto say = [&](std::vector<std::string> names, const char* what) {
      if (names.empty()) return;
      const std::size_t count = names.size();
      names.resize(std::min(kShown, count));
      warnings.push_back(absl::StrCat(printable(shard), " holds ",
                                      counted(count, "tensor"), what,
                                      list(names, count)));
    };
    say(unnamed, " that the index does not name: ");
    say(copies, " that the index places elsewhere, left out: ");
  }
};

// Keeps one tensor a name: the one that the index places, or the only one.
absl::Status keep_indexed(const ShardIndex& index, CheckpointParts& parts) {
  std::vector<TensorInfo> kept;
  std::vector<Strays> strays(index.shards.size());
  auto place = index.places.begin();
  for (TensorInfo& tensor : parts.tensors) {
    while (place != index.places.end() && place->tensor < tensor.name) ++place;
    const bool named =
        place != index.places.end() && place->tensor == tensor.name;
    if (named && place->shard != tensor.shard) {
      strays[tensor.shard].copies.push_back(printable(tensor.name));
      continue;
    }
    if (!kept.empty() && kept.back().name == tensor.name) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", printable(tensor.name), " is in ",
                       printable(index.shards[kept.back().shard]), " and in ",
                       printable(index.shards[tensor.shard]), ", and ", kIndex,
                       " names neither"));
    }
    if (!named) {
      strays[tensor.shard].unnamed.push_back(printable(tensor.name));
    }
    kept.push_back(std::move(tensor));
  }
  for (std::size_t shard = 0; shard < strays.size(); ++shard) {
    strays[shard].warn(index.shards[shard], parts.warnings);
  }
  parts.tensors = std::move(kept);
  return absl::OkStatus();
}

// Says where the index's own sum differs from the headers'.
void warn_of_sum(const ShardIndex& index, CheckpointParts& parts) {
  const std::int64_t bytes = sum_bytes(parts.tensors);
  if (index.total_bytes.value_or(static_cast<std::uint64_t>(bytes)) ==
      static_cast<std::uint64_t>(bytes)) {
    return;
  }
  parts.warnings.push_back(
      absl::StrCat("metadata.total_size of the index is ", *index.total_bytes,
                   " bytes, the headers add up to ", bytes));
}

}  // namespace

absl::Status CheckpointParts::add(CheckpointShard shard,
                                  SafetensorsHeader header) {
  // Sparse files can be as long as they like; sums of tensors must not wrap.
  if (__builtin_add_overflow(file_bytes, header.file_bytes, &file_bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(shard.path.empty() ? printable(shard.file_name)
                                        : printable_path(shard.path),
                     ": the shards up to this one have 2^63 bytes or more"));
  }
  for (TensorInfo& tensor : header.tensors) {
    tensor.shard = static_cast<std::uint32_t>(shards.size());
    tensors.push_back(std::move(tensor));
  }
  shard.bytes = header.file_bytes;
  shard.modified_ns = header.modified_ns;
  shards.push_back(std::move(shard));
  return absl::OkStatus();
}

absl::Status CheckpointParts::settle(const ShardIndex& index) {
  warnings = index.warnings;
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorInfo& a, const TensorInfo& b) {
              return compare(a.name, a.shard, b) < 0;
            });
  absl::Status status = refuse_lacking(index, tensors);
  if (status.ok()) status = keep_indexed(index, *this);
  if (status.ok()) warn_of_sum(index, *this);
  return status;
}

std::string missing_shards(const ShardIndex& index,
                           const std::vector<std::uint32_t>& missing) {
  std::vector<std::size_t> tensors(index.shards.size(), 0);
  for (const ShardIndex::Place& place : index.places) ++tensors[place.shard];
  std::vector<std::string> shown;
  std::size_t lost = 0;
  for (const std::uint32_t shard : missing) {
    lost += tensors[shard];
    if (shown.size() == kShown) continue;
    shown.push_back(absl::StrCat(printable(index.shards[shard]), " (",
                                 counted(tensors[shard], "tensor"), ")"));
  }
  return absl::StrCat(missing.size(), " of its ",
                      counted(index.shards.size(), "shard"), " missing, with ",
                      counted(lost, "tensor"), ": ",
                      list(shown, missing.size()));
}

std::int64_t sum_bytes(const std::vector<TensorInfo>& tensors) {
  std::int64_t out = 0;
  for (const TensorInfo& tensor : tensors) out += tensor.bytes();
  return out;
}

}  // namespace trnscout
