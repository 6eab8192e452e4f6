#include "trnscout/checkpoint.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "checkpoint_parts.h"
#include "model_directory.h"
#include "printable.h"
#include "safetensors_header.h"
#include "shard_index.h"

namespace trnscout {
namespace {

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";

using Paths = std::vector<std::filesystem::path>;

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
  if (missing.empty()) return paths;
  return absl::NotFoundError(absl::StrCat(
      printable_path(directory.path() / kIndexFile), ": ",
      missing_shards(index, missing),
      directory.unfinished_download(index.shards[missing.front()])));
}

// Appends a file and its tensors.
absl::Status add_file(absl::string_view file_name,
                      const std::filesystem::path& path,
                      CheckpointParts& parts) {
  auto header = read_safetensors_header(path);
  if (!header.ok()) return header.status();
  return parts.add({.file_name = std::string(file_name), .path = path},
                   *std::move(header));
}

absl::StatusOr<CheckpointParts> open_sharded(const ModelDirectory& directory) {
  const auto index_path = directory.locate(kIndexFile);
  if (!index_path.ok()) return index_path.status();
  const auto index = read_shard_index(*index_path);
  if (!index.ok()) return index.status();
  const auto paths = locate_shards(directory, *index);
  if (!paths.ok()) return paths.status();
  CheckpointParts parts;
  for (std::size_t i = 0; i < paths->size(); ++i) {
    const absl::Status status = add_file(index->shards[i], (*paths)[i], parts);
    if (!status.ok()) return status;
  }
  const absl::Status status = parts.settle(*index);
  if (!status.ok()) return at(printable_path(directory.path()), status);
  return parts;
}

absl::StatusOr<CheckpointParts> open_single(const ModelDirectory& directory) {
  const auto path = directory.locate(kSingleFile);
  if (absl::IsNotFound(path.status())) {
    return absl::NotFoundError(absl::StrCat(
        path.status().message(), directory.unfinished_download(kSingleFile)));
  }
  if (!path.ok()) return path.status();
  CheckpointParts parts;
  const absl::Status status = add_file(kSingleFile, *path, parts);
  if (!status.ok()) return status;
  if (directory.has(kIndexFile)) {
    parts.warnings.push_back(absl::StrCat(kSingleFile, " was read; ",
                                          kIndexFile, " beside it was not"));
  }
  return parts;
}

// Appends a file that is elsewhere.
absl::Status add_header(const ShardHeader& header, CheckpointParts& parts) {
  auto parsed = parse_safetensors_header(header.first_bytes, header.file_bytes);
  if (!parsed.ok()) return at(printable(header.file_name), parsed.status());
  return parts.add({.file_name = header.file_name}, *std::move(parsed));
}

// Puts the headers into the order of the index, each shard's once.
absl::Status match_shards(const ShardIndex& index,
                          std::vector<const ShardHeader*>& headers) {
  std::sort(headers.begin(), headers.end(),
            [](const ShardHeader* a, const ShardHeader* b) {
              return a->file_name < b->file_name;
            });
  for (std::size_t i = 0; i < headers.size(); ++i) {
    const std::string& name = headers[i]->file_name;
    if (i > 0 && headers[i - 1]->file_name == name) {
      return absl::InvalidArgumentError(
          absl::StrCat("two headers are given for ", printable(name)));
    }
    if (!std::binary_search(index.shards.begin(), index.shards.end(), name)) {
      return absl::InvalidArgumentError(
          absl::StrCat(kIndexFile, " names no shard ", printable(name),
                       ", for which a header is given"));
    }
  }
  std::vector<std::uint32_t> missing;
  std::size_t next = 0;
  for (std::uint32_t shard = 0; shard < index.shards.size(); ++shard) {
    if (next < headers.size() &&
        headers[next]->file_name == index.shards[shard]) {
      ++next;
    } else {
      missing.push_back(shard);
    }
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat(kIndexFile, ": ", missing_shards(index, missing)));
}

absl::StatusOr<CheckpointParts> join_headers(
    const std::vector<ShardHeader>& headers, absl::string_view index_json) {
  const auto index = parse_shard_index(index_json);
  if (!index.ok()) return at(kIndexFile, index.status());
  std::vector<const ShardHeader*> ordered;
  for (const ShardHeader& header : headers) ordered.push_back(&header);
  absl::Status status = match_shards(*index, ordered);
  CheckpointParts parts;
  for (std::size_t i = 0; status.ok() && i < ordered.size(); ++i) {
    status = add_header(*ordered[i], parts);
  }
  if (status.ok()) status = parts.settle(*index);
  if (!status.ok()) return status;
  return parts;
}

absl::StatusOr<CheckpointParts> single_header(
    const std::vector<ShardHeader>& headers) {
  if (headers.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(counted(headers.size(), "header"),
                     " given without an index; one file needs none, more need ",
                     kIndexFile));
  }
  CheckpointParts parts;
  const absl::Status status = add_header(headers.front(), parts);
  if (!status.ok()) return status;
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
  return Checkpoint(std::move(parts->tensors), std::move(parts->shards),
                    std::move(parts->warnings));
}

absl::StatusOr<Checkpoint> Checkpoint::from_headers(
    const std::vector<ShardHeader>& headers,
    std::optional<absl::string_view> index_json) {
  auto parts = index_json.has_value() ? join_headers(headers, *index_json)
                                      : single_header(headers);
  if (!parts.ok()) return parts.status();
  return Checkpoint(std::move(parts->tensors), std::move(parts->shards),
                    std::move(parts->warnings));
}

absl::StatusOr<std::vector<std::string>> Checkpoint::shard_names(
    absl::string_view index_json) {
  auto index = parse_shard_index(index_json);
  if (!index.ok()) return at(kIndexFile, index.status());
  return std::move(index->shards);
}

Checkpoint::Checkpoint(std::vector<TensorInfo> tensors,
                       std::vector<CheckpointShard> shards,
                       std::vector<std::string> warnings)
    : tensors_(std::move(tensors)),
      shards_(std::move(shards)),
      warnings_(std::move(warnings)) {}

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
