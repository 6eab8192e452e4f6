#include "trnscout/gguf.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "checkpoint_parts.h"
#include "file_reader.h"
#include "gguf_header.h"
#include "printable.h"
#include "regular_file.h"

namespace trnscout {
namespace {

constexpr char kAlignmentKey[] = "general.alignment";
constexpr std::int64_t kDefaultAlignment = 32;

bool by_name(const TensorInfo& a, const TensorInfo& b) {
  return a.name < b.name;
}

// An empty tensor comes before the one that it touches.
bool by_range(const TensorInfo& a, const TensorInfo& b) {
  return a.begin_bytes != b.begin_bytes ? a.begin_bytes < b.begin_bytes
                                        : a.end_bytes < b.end_bytes;
}

absl::Status refuse(const TensorInfo& tensor, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", printable(tensor.name), ": ", why));
}

absl::StatusOr<std::int64_t> alignment_of(const GgufFile::Metadata& metadata) {
  const auto found = metadata.find(absl::string_view(kAlignmentKey));
  if (found == metadata.end()) return kDefaultAlignment;
  const auto* const value = std::get_if<std::uint64_t>(&found->second);
  if (value == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(kAlignmentKey, " is no unsigned integer"));
  }
  if (*value == 0 || (*value & (*value - 1)) != 0 || *value > (1U << 30)) {
    return absl::InvalidArgumentError(absl::StrCat(
        kAlignmentKey, " is ", *value, ", not a power of two from 1 to 2^30"));
  }
  return static_cast<std::int64_t>(*value);
}

// The next multiple of `alignment`, which must exist below 2^63.
std::int64_t padded(std::int64_t bytes, std::int64_t alignment) {
  return (bytes + alignment - 1) & ~(alignment - 1);
}

// Refuses tensors that the file does not hold. From here on no sum can wrap.
absl::Status check_in_file(const std::vector<TensorInfo>& tensors,
                           std::int64_t data_begin, std::int64_t file_bytes) {
  for (const TensorInfo& tensor : tensors) {
    if (tensor.end_bytes <= file_bytes - data_begin) continue;
    return refuse(tensor,
                  absl::StrCat("ends ", tensor.end_bytes,
                               " bytes behind the header's end at ", data_begin,
                               ", the file has ", file_bytes,
                               " bytes: it is cut or damaged"));
  }
  return absl::OkStatus();
}

// Refuses tensors, sorted by range, that overlap or leave a hole. Gives the
// bytes that they and their padding cover.
absl::StatusOr<std::int64_t> check_layout(
    const std::vector<TensorInfo>& tensors, std::int64_t alignment) {
  std::int64_t covered = 0;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.begin_bytes % alignment != 0) {
      return refuse(tensor, absl::StrCat("offset ", tensor.begin_bytes,
                                         " is no multiple of the alignment, ",
                                         alignment));
    }
    if (tensor.begin_bytes != covered) {
      return refuse(tensor,
                    absl::StrCat("offset ", tensor.begin_bytes,
                                 tensor.begin_bytes < covered
                                     ? " overlaps what comes "
                                     : " leaves a hole after what comes ",
                                 "before, which ends at ", covered));
    }
    covered = padded(tensor.end_bytes, alignment);
  }
  return covered;
}

absl::Status check_names(const std::vector<TensorInfo>& by_names) {
  const auto twice = std::adjacent_find(
      by_names.begin(), by_names.end(),
      [](const auto& a, const auto& b) { return a.name == b.name; });
  if (twice == by_names.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("duplicate tensor name ", printable(twice->name)));
}

struct Layout {
  std::int64_t alignment = 0;
  std::int64_t data_begin = 0;
  std::int64_t end = 0;  // of the last tensor's padding
};

// Checks the tensors against each other and the file, sorts them by name and
// gives them ranges from the start of the file.
absl::StatusOr<Layout> lay_out(GgufHeader& header, std::int64_t file_bytes) {
  const auto alignment = alignment_of(header.metadata);
  if (!alignment.ok()) return alignment.status();
  const std::int64_t data_begin = padded(header.bytes, *alignment);
  std::vector<TensorInfo>& tensors = header.tensors;
  std::sort(tensors.begin(), tensors.end(), by_name);
  absl::Status status = check_names(tensors);
  if (status.ok()) status = check_in_file(tensors, data_begin, file_bytes);
  if (!status.ok()) return status;
  std::sort(tensors.begin(), tensors.end(), by_range);
  const auto covered = check_layout(tensors, *alignment);
  if (!covered.ok()) return covered.status();
  std::sort(tensors.begin(), tensors.end(), by_name);
  for (TensorInfo& tensor : tensors) {
    tensor.begin_bytes += data_begin;
    tensor.end_bytes += data_begin;
  }
  return Layout{*alignment, data_begin, data_begin + *covered};
}

}  // namespace

absl::StatusOr<GgufFile> GgufFile::open(const std::filesystem::path& path) {
  const std::string where = printable_path(path);
  const auto file = RegularFile::open(path);
  if (!file.ok()) return at(where, file.status());
  FileReader reader(*file, kMaxHeaderBytes);
  auto header = read_gguf_header(reader);
  if (!header.ok()) return at(where, header.status());
  const auto layout = lay_out(*header, file->size_bytes());
  if (!layout.ok()) return at(where, layout.status());
  GgufFile out;
  out.version_ = header->version;
  out.alignment_ = layout->alignment;
  out.file_bytes_ = file->size_bytes();
  out.metadata_ = std::move(header->metadata);
  out.tensors_ = std::move(header->tensors);
  if (out.file_bytes_ > layout->end) {
    out.warnings_.push_back(absl::StrCat("the last ",
                                         out.file_bytes_ - layout->end,
                                         " bytes belong to no tensor"));
  }
  return out;
}

const GgufValue* GgufFile::find_metadata(absl::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

const TensorInfo* GgufFile::find(absl::string_view name) const {
  const auto found =
      std::lower_bound(tensors_.begin(), tensors_.end(), name,
                       [](const TensorInfo& tensor, absl::string_view wanted) {
                         return tensor.name < wanted;
                       });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

std::int64_t GgufFile::total_bytes() const { return sum_bytes(tensors_); }

}  // namespace trnscout
