#include "trnscout/mapped_checkpoint.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "file_mapping.h"
#include "printable.h"
#include "regular_file.h"

namespace trnscout {
namespace {

absl::Status check_unchanged(const CheckpointShard& shard,
                             const RegularFile& file) {
  if (file.size_bytes() != shard.bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("has ", file.size_bytes(), " bytes, had ", shard.bytes,
                     " when its header was read; open the checkpoint again"));
  }
  if (file.modified_ns() != shard.modified_ns) {
    return absl::FailedPreconditionError(
        "was changed after its header was read; open the checkpoint again");
  }
  return absl::OkStatus();
}

absl::StatusOr<FileMapping> map_shard(const CheckpointShard& shard) {
  if (shard.path.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(printable(shard.file_name),
                     ": only its header is here, there is no file to map"));
  }
  const std::string where = printable_path(shard.path);
  const auto file = RegularFile::open(shard.path);
  if (!file.ok()) return at(where, file.status());
  if (absl::Status status = check_unchanged(shard, *file); !status.ok()) {
    return at(where, status);
  }
  auto mapping = FileMapping::map(*file);
  if (!mapping.ok()) return at(where, mapping.status());
  return mapping;
}

}  // namespace

class MappedCheckpoint::Files {
 public:
  std::vector<FileMapping> mappings;  // in the order of the shards
};

absl::StatusOr<MappedCheckpoint> MappedCheckpoint::map(Checkpoint checkpoint) {
  auto files = std::make_unique<Files>();
  for (const CheckpointShard& shard : checkpoint.shards()) {
    auto mapping = map_shard(shard);
    if (!mapping.ok()) return mapping.status();
    files->mappings.push_back(*std::move(mapping));
  }
  return MappedCheckpoint(
      std::make_unique<const Checkpoint>(std::move(checkpoint)),
      std::move(files));
}

MappedCheckpoint::MappedCheckpoint(std::unique_ptr<const Checkpoint> checkpoint,
                                   std::unique_ptr<const Files> files)
    : checkpoint_(std::move(checkpoint)), files_(std::move(files)) {}

MappedCheckpoint::MappedCheckpoint(MappedCheckpoint&&) noexcept = default;
MappedCheckpoint& MappedCheckpoint::operator=(MappedCheckpoint&&) noexcept =
    default;
MappedCheckpoint::~MappedCheckpoint() = default;

absl::StatusOr<TensorView> MappedCheckpoint::view(
    absl::string_view name) const {
  const TensorInfo* const info = checkpoint_->find(name);
  if (info != nullptr) return view_of(*info);
  return absl::NotFoundError(absl::StrCat(
      "no tensor ", printable(name), " among the ",
      counted(checkpoint_->tensors().size(), "tensor"), " of the checkpoint"));
}

std::vector<TensorView> MappedCheckpoint::views() const {
  std::vector<TensorView> out;
  out.reserve(checkpoint_->tensors().size());
  for (const TensorInfo& info : checkpoint_->tensors()) {
    out.push_back(view_of(info));
  }
  return out;
}

TensorView MappedCheckpoint::view_of(const TensorInfo& info) const {
  return {files_->mappings[info.shard].data() + info.begin_bytes, &info};
}

}  // namespace trnscout
