#include "safetensors_header.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "header_json.h"
#include "printable.h"
#include "regular_file.h"

namespace trnscout {
namespace {

constexpr std::int64_t kLengthBytes = 8;
// Enough for every magic below, and for a whole Git LFS pointer.
constexpr std::int64_t kPrefixBytes = 1024;

struct ElementType {
  absl::string_view name;
  std::int64_t bits;
};

// Source: huggingface/safetensors: safetensors/src/tensor.rs of 0.8.0, Dtype.
constexpr std::array<ElementType, 22> kElementTypes = {{
    {"BOOL", 8},        {"F4", 4},          {"F6_E2M3", 6}, {"F6_E3M2", 6},
    {"U8", 8},          {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8},
    {"F8_E8M0", 8},     {"F8_E4M3FNUZ", 8}, {"I16", 16},    {"U16", 16},
    {"F8_E5M2FNUZ", 8}, {"F16", 16},        {"BF16", 16},   {"I32", 32},
    {"U32", 32},        {"F32", 32},        {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
}};

struct ForeignFormat {
  absl::string_view magic;
  absl::string_view name;
};

// What people hand over in place of safetensors.
constexpr std::array<ForeignFormat, 6> kForeignFormats = {{
    {"PK\x03\x04", "a ZIP archive (pickled PyTorch weights)"},
    {"\x80\x02", "a pickle"},
    {"GGUF", "a GGUF file"},
    {"\x89HDF", "an HDF5 file"},
    {"<!DOCTYPE", "an HTML page, as failed downloads leave it"},
    {"<html", "an HTML page, as failed downloads leave it"},
}};

std::string shape_text(const std::vector<std::int64_t>& shape) {
  constexpr std::size_t kShown = 16;
  const auto shown =
      static_cast<std::ptrdiff_t>(std::min(kShown, shape.size()));
  return absl::StrCat("[",
                      absl::StrJoin(shape.begin(), shape.begin() + shown, ", "),
                      shape.size() > kShown ? ", ...]" : "]");
}

std::string range_text(const TensorInfo& tensor) {
  return absl::StrCat("data_offsets [", tensor.begin_bytes, ", ",
                      tensor.end_bytes, "]");
}

absl::Status refuse(const TensorInfo& tensor, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", printable(tensor.name), ": ", why));
}

// Bytes that shape and dtype ask for, or why they ask for no such number.
absl::StatusOr<std::int64_t> bytes_by_shape(const TensorInfo& tensor) {
  const auto* const type = std::find_if(
      kElementTypes.begin(), kElementTypes.end(),
      [&tensor](const ElementType& row) { return row.name == tensor.dtype; });
  if (type == kElementTypes.end()) {
    return refuse(tensor,
                  absl::StrCat("unknown dtype ", printable(tensor.dtype)));
  }
  const std::string what =
      absl::StrCat(type->name, " ", shape_text(tensor.shape));
  std::int64_t elements = 1;
  for (const std::int64_t dimension : tensor.shape) {
    if (__builtin_mul_overflow(elements, dimension, &elements)) {
      return refuse(tensor, absl::StrCat(what, " has 2^63 elements or more"));
    }
  }
  std::int64_t bits = 0;
  if (__builtin_mul_overflow(elements, type->bits, &bits)) {
    return refuse(tensor, absl::StrCat(what, " takes 2^63 bits or more"));
  }
  if (bits % 8 != 0) {
    return refuse(tensor, absl::StrCat(what, " takes ", bits,
                                       " bits, not a whole number of bytes"));
  }
  return bits / 8;
}

absl::Status check_range(const TensorInfo& tensor) {
  if (tensor.end_bytes < tensor.begin_bytes) {
    return refuse(tensor,
                  absl::StrCat(range_text(tensor), " end before they begin"));
  }
  const absl::StatusOr<std::int64_t> bytes = bytes_by_shape(tensor);
  if (!bytes.ok()) return bytes.status();
  if (*bytes == tensor.bytes()) return absl::OkStatus();
  return refuse(tensor,
                absl::StrCat(tensor.dtype, " ", shape_text(tensor.shape),
                             " takes ", *bytes, " bytes, ", range_text(tensor),
                             " hold ", tensor.bytes()));
}

absl::Status misplaced(const TensorInfo& tensor, const TensorInfo* before) {
  const std::int64_t covered = before == nullptr ? 0 : before->end_bytes;
  return refuse(
      tensor, absl::StrCat(
                  range_text(tensor),
                  tensor.begin_bytes < covered ? " overlap" : " leave a hole",
                  ": what comes before",
                  before == nullptr
                      ? std::string()
                      : absl::StrCat(", tensor ", printable(before->name), ","),
                  " ends at ", covered));
}

// Bytes of data that the tensors cover without gap or overlap.
absl::StatusOr<std::int64_t> covered_bytes(
    const std::vector<TensorInfo>& tensors) {
  std::vector<const TensorInfo*> by_range;
  by_range.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) by_range.push_back(&tensor);
  // Both ends, for an empty tensor must come before the one it touches.
  std::sort(by_range.begin(), by_range.end(),
            [](const TensorInfo* a, const TensorInfo* b) {
              return std::pair(a->begin_bytes, a->end_bytes) <
                     std::pair(b->begin_bytes, b->end_bytes);
            });
  std::int64_t covered = 0;
  const TensorInfo* before = nullptr;
  for (const TensorInfo* tensor : by_range) {
    if (tensor->begin_bytes != covered) return misplaced(*tensor, before);
    covered = tensor->end_bytes;
    before = tensor;
  }
  return covered;
}

std::string git_lfs_reason(absl::string_view prefix, std::int64_t file_bytes) {
  std::string out = absl::StrCat(
      "Git LFS pointer, weights were not downloaded: this file has ",
      file_bytes, " bytes");
  const std::size_t size = prefix.find("\nsize ");
  if (size == absl::string_view::npos) return out;
  const absl::string_view rest = prefix.substr(size + 6);
  std::size_t digits = 0;
  while (digits < rest.size() && absl::ascii_isdigit(rest[digits])) ++digits;
  absl::StrAppend(&out, ", the weights ", printable(rest.substr(0, digits)));
  return out;
}

// Refuses with the name of the format that the file has, if it is known, else
// with `otherwise`.
absl::Status not_safetensors(absl::string_view prefix, std::int64_t file_bytes,
                             absl::string_view otherwise) {
  if (absl::StartsWith(prefix, "version https://git-lfs.github.com/spec/")) {
    return absl::InvalidArgumentError(git_lfs_reason(prefix, file_bytes));
  }
  for (const ForeignFormat& format : kForeignFormats) {
    if (!absl::StartsWithIgnoreCase(prefix, format.magic)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(format.name, ", not safetensors"));
  }
  return absl::InvalidArgumentError(otherwise);
}

std::uint64_t little_endian(absl::string_view bytes) {
  std::uint64_t out = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    out = out << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return out;
}

// Length of the header, which the file is long enough to hold.
absl::StatusOr<std::int64_t> header_length(absl::string_view prefix,
                                           std::int64_t file_bytes) {
  if (file_bytes < kLengthBytes) {
    return not_safetensors(
        prefix, file_bytes,
        absl::StrCat("has ", file_bytes, " bytes, a header's length takes ",
                     kLengthBytes));
  }
  const std::uint64_t length = little_endian(prefix.substr(0, kLengthBytes));
  if (length > Checkpoint::kMaxHeaderBytes) {
    return not_safetensors(
        prefix, file_bytes,
        absl::StrCat("header of ", length, " bytes is past the limit of ",
                     Checkpoint::kMaxHeaderBytes));
  }
  const auto header_bytes = static_cast<std::int64_t>(length);
  if (header_bytes > file_bytes - kLengthBytes) {
    return not_safetensors(
        prefix, file_bytes,
        absl::StrCat("needs at least ", kLengthBytes + header_bytes,
                     " bytes by its header's length, has ", file_bytes,
                     " bytes: it is cut or damaged"));
  }
  const absl::string_view text = prefix.substr(kLengthBytes);
  if (header_bytes == 0 || !(text.empty() || text.front() == '{')) {
    return not_safetensors(prefix, file_bytes,
                           absl::StrCat("header of ", header_bytes,
                                        " bytes does not begin with {"));
  }
  return header_bytes;
}

// Compares what the header asks for with the file. The sum cannot wrap: ranges
// are below 2^63 and headers below 2^27.
absl::Status check_file_size(std::int64_t header_bytes, std::int64_t covered,
                             std::int64_t file_bytes) {
  const std::uint64_t needed = static_cast<std::uint64_t>(kLengthBytes) +
                               static_cast<std::uint64_t>(header_bytes) +
                               static_cast<std::uint64_t>(covered);
  const auto has = static_cast<std::uint64_t>(file_bytes);
  if (needed == has) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "needs ", needed, " bytes by its header, has ", has, " bytes: ",
      needed > has ? "it is cut" : "the last ones belong to no tensor"));
}

// Reads the text of a header whose length is known to fit the file.
absl::StatusOr<SafetensorsHeader> parse_text(absl::string_view text,
                                             std::int64_t file_bytes) {
  const auto header_bytes = static_cast<std::int64_t>(text.size());
  auto tensors = read_header_json(text);
  if (!tensors.ok()) return at("header", tensors.status());
  for (const TensorInfo& tensor : *tensors) {
    if (absl::Status status = check_range(tensor); !status.ok()) return status;
  }
  const auto covered = covered_bytes(*tensors);
  if (!covered.ok()) return covered.status();
  const absl::Status size = check_file_size(header_bytes, *covered, file_bytes);
  if (!size.ok()) return size;
  for (TensorInfo& tensor : *tensors) {
    tensor.begin_bytes += kLengthBytes + header_bytes;
    tensor.end_bytes += kLengthBytes + header_bytes;
  }
  return SafetensorsHeader{std::move(*tensors), file_bytes};
}

absl::StatusOr<SafetensorsHeader> read_header(const RegularFile& file) {
  const std::int64_t file_bytes = file.size_bytes();
  const auto prefix = file.read(0, std::min(kPrefixBytes, file_bytes));
  if (!prefix.ok()) return prefix.status();
  const auto header_bytes = header_length(*prefix, file_bytes);
  if (!header_bytes.ok()) return header_bytes.status();
  const auto text = file.read(kLengthBytes, *header_bytes);
  if (!text.ok()) return text.status();
  auto header = parse_text(*text, file_bytes);
  if (header.ok()) header->modified_ns = file.modified_ns();
  return header;
}

absl::Status too_few(std::size_t given, std::int64_t needed) {
  return absl::InvalidArgumentError(
      absl::StrCat("length and header take ", needed, " bytes, only the first ",
                   given, " are given"));
}

}  // namespace

absl::StatusOr<SafetensorsHeader> read_safetensors_header(
    const std::filesystem::path& path) {
  const auto file = RegularFile::open(path);
  if (!file.ok()) return at(printable_path(path), file.status());
  auto header = read_header(*file);
  if (!header.ok()) return at(printable_path(path), header.status());
  return header;
}

absl::StatusOr<SafetensorsHeader> parse_safetensors_header(
    absl::string_view first_bytes, std::int64_t file_bytes) {
  const auto given = static_cast<std::int64_t>(first_bytes.size());
  if (given > file_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "has ", file_bytes, " bytes, yet its first ", given, " are given"));
  }
  if (given < std::min(kLengthBytes, file_bytes)) {
    return too_few(first_bytes.size(), kLengthBytes);
  }
  const auto header_bytes =
      header_length(first_bytes.substr(0, kPrefixBytes), file_bytes);
  if (!header_bytes.ok()) return header_bytes.status();
  if (given < kLengthBytes + *header_bytes) {
    return too_few(first_bytes.size(), kLengthBytes + *header_bytes);
  }
  return parse_text(
      first_bytes.substr(kLengthBytes, static_cast<std::size_t>(*header_bytes)),
      file_bytes);
}

}  // namespace trnscout
