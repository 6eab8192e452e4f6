#include "trnscout/checkpoint.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "model_directory.h"
#include "printable.h"
#include "safetensors_header.h"
#include "shard_index.h"

namespace trnscout {
namespace {

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";
// Lists in messages end here.
constexpr std::size_t kShown = 8;

using Paths = std::vector<std::filesystem::path>;

std::string list(const std::vector<std::string>& shown, std::size_t count) {
  return absl::StrCat(absl::StrJoin(shown, ", "),
                      count > shown.size()
                          ? absl::StrCat(" and ", count - shown.size(), " more")
                          : "");
}

// Refuses with every shard that is missing and what is lost with it.
absl::Status missing_shards(const ModelDirectory& directory,
                            const ShardIndex& index,
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
  return absl::NotFoundError(absl::StrCat(
      printable_path(directory.path() / kIndexFile), ": ", missing.size(),
      " of its ", counted(index.shards.size(), "shard"), " missing, with ",
      counted(lost, "tensor"), ": ", list(shown, missing.size()),
      directory.unfinished_download(index.shards[missing.front()])));
}

absl::StatusOr<Paths> locate_shards(const ModelDirectory& directory,
                                    const ShardIndex& index) {
  Paths paths;
  std::vector<std::uint32_t> missing;
  for (std::uint32_t shard = 0; shard < index.shards.size(); ++shard) {
    auto path = directory.locate(index.shards[shard]);
    if (path.ok()) {
      paths.push_back(*std::move(path));
    } else if (absl::IsNotFound(path.status())) {
      missing.push_back(shard);
    } else {
      return path.status();
    }
  }
  if (!missing.empty()) return missing_shards(directory, index, missing);
  return paths;
}

// What a checkpoint is made of, while it is put together.
struct Parts {
  std::vector<TensorInfo> tensors;
  std::vector<CheckpointShard> shards;
  std::vector<std::string> warnings;
  std::int64_t file_bytes = 0;
};

// Appends a file and its tensors.
absl::Status add_shard(absl::string_view file_name,
                       const std::filesystem::path& path, Parts& parts) {
  auto header = read_safetensors_header(path);
  if (!header.ok()) return header.status();
  // Sparse files can be as long as they like; sums of tensors must not wrap.
  if (__builtin_add_overflow(parts.file_bytes, header->file_bytes,
                             &parts.file_bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(printable_path(path),
                     ": the shards up to this one have 2^63 bytes or "
                     "more"));
  }
  for (TensorInfo& tensor : header->tensors) {
    tensor.shard = static_cast<std::uint32_t>(parts.shards.size());
    parts.tensors.push_back(std::move(tensor));
  }
  parts.shards.push_back({std::string(file_name), path, header->file_bytes});
  return absl::OkStatus();
}

bool by_name_and_shard(const TensorInfo& a, const TensorInfo& b) {
  return a.name != b.name ? a.name < b.name : a.shard < b.shard;
}

absl::Status refuse_lacking(const ShardIndex& index,
                            const std::vector<TensorInfo>& held) {
  std::vector<std::string> shown;
  std::size_t lacking = 0;
  for (const ShardIndex::Place& place : index.places) {
    TensorInfo wanted;
    wanted.name = place.tensor;
    wanted.shard = place.shard;
    if (std::binary_search(held.begin(), held.end(), wanted,
                           by_name_and_shard)) {
      continue;
    }
    if (++lacking > kShown) continue;
    shown.push_back(absl::StrCat(printable(place.tensor), " in ",
                                 printable(index.shards[place.shard])));
  }
  if (lacking == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(kIndexFile, " names ", counted(lacking, "tensor"),
                   " that the shard's header lacks: ", list(shown, lacking)));
}

// Shard that the index gives for a tensor.
std::optional<std::uint32_t> indexed_shard(const ShardIndex& index,
                                           absl::string_view tensor) {
  const auto found = std::lower_bound(
      index.places.begin(), index.places.end(), tensor,
      [](const ShardIndex::Place& place, absl::string_view name) {
        return place.tensor < name;
      });
  if (found == index.places.end() || found->tensor != tensor) {
    return std::nullopt;
  }
  return found->shard;
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
absl::Status keep_indexed(const ShardIndex& index, Parts& parts) {
  std::vector<TensorInfo> kept;
  std::vector<Strays> strays(index.shards.size());
  for (TensorInfo& tensor : parts.tensors) {
    const auto shard = indexed_shard(index, tensor.name);
    if (shard.has_value() && *shard != tensor.shard) {
      strays[tensor.shard].copies.push_back(printable(tensor.name));
      continue;
    }
    if (!kept.empty() && kept.back().name == tensor.name) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", printable(tensor.name), " is in ",
                       printable(index.shards[kept.back().shard]), " and in ",
                       printable(index.shards[tensor.shard]), ", and ",
                       kIndexFile, " names neither"));
    }
    if (!shard.has_value()) {
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

std::int64_t sum_bytes(const std::vector<TensorInfo>& tensors) {
  std::int64_t out = 0;
  for (const TensorInfo& tensor : tensors) out += tensor.bytes();
  return out;
}

absl::StatusOr<Parts> open_sharded(const ModelDirectory& directory) {
  const auto index_path = directory.locate(kIndexFile);
  if (!index_path.ok()) return index_path.status();
  const auto index = read_shard_index(*index_path);
  if (!index.ok()) return index.status();
  const auto paths = locate_shards(directory, *index);
  if (!paths.ok()) return paths.status();
  Parts parts;
  parts.warnings = index->warnings;
  for (std::size_t i = 0; i < paths->size(); ++i) {
    const absl::Status status = add_shard(index->shards[i], (*paths)[i], parts);
    if (!status.ok()) return status;
  }
  std::sort(parts.tensors.begin(), parts.tensors.end(), by_name_and_shard);
  absl::Status status = refuse_lacking(*index, parts.tensors);
  if (status.ok()) status = keep_indexed(*index, parts);
  if (!status.ok()) return at(printable_path(directory.path()), status);
  const std::int64_t bytes = sum_bytes(parts.tensors);
  if (index->total_bytes.value_or(static_cast<std::uint64_t>(bytes)) !=
      static_cast<std::uint64_t>(bytes)) {
    parts.warnings.push_back(absl::StrCat(
        "metadata.total_size of the index is ", *index->total_bytes,
        " bytes, the headers add up to ", bytes));
  }
  return parts;
}

absl::StatusOr<Parts> open_single(const ModelDirectory& directory) {
  const auto path = directory.locate(kSingleFile);
  if (absl::IsNotFound(path.status())) {
    return absl::NotFoundError(absl::StrCat(
        path.status().message(), directory.unfinished_download(kSingleFile)));
  }
  if (!path.ok()) return path.status();
  Parts parts;
  const absl::Status status = add_shard(kSingleFile, *path, parts);
  if (!status.ok()) return status;
  if (directory.has(kIndexFile)) {
    parts.warnings.push_back(absl::StrCat(kSingleFile, " was read; ",
                                          kIndexFile, " beside it was not"));
  }
  return parts;
}

}  // namespace

absl::StatusOr<Checkpoint> Checkpoint::open(const std::filesystem::path& dir) {
  const auto directory = ModelDirectory::open(dir);
  if (!directory.ok()) return directory.status();
  const bool single = directory->has(kSingleFile);
  if (!single && !directory->has(kIndexFile)) return directory->no_weights();
  auto parts = single ? open_single(*directory) : open_sharded(*directory);
  if (!parts.ok()) return parts.status();
  Checkpoint out;
  out.tensors_ = std::move(parts->tensors);
  out.shards_ = std::move(parts->shards);
  out.warnings_ = std::move(parts->warnings);
  return out;
}

const TensorInfo* Checkpoint::find(absl::string_view name) const {
  const auto found =
      std::lower_bound(tensors_.begin(), tensors_.end(), name,
                       [](const TensorInfo& tensor, absl::string_view wanted) {
                         return tensor.name < wanted;
                       });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

std::int64_t Checkpoint::total_bytes() const { return sum_bytes(tensors_); }

}  // namespace trnscout
