#include "gguf_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "printable.h"
#include "trnscout/ggml_type.h"
#include "utf8.h"

namespace trnscout {
namespace {

// The smallest that a key with its value, and a tensor, can be.
constexpr std::uint64_t kLeastKeyBytes = 8 + 4 + 1;
constexpr std::uint64_t kLeastTensorBytes = 8 + 4 + 4 + 8;
constexpr std::uint64_t kMaxKeyBytes = 65'535;
constexpr std::uint32_t kMaxDimensions = 4;
constexpr int kMaxArrayDepth = 8;

enum class ValueType : std::uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};

struct ValueTypeRow {
  absl::string_view name;
  std::uint64_t bytes;  // the least, where it varies
};

constexpr std::array<ValueTypeRow, 13> kValueTypes = {{
    {"UINT8", 1},
    {"INT8", 1},
    {"UINT16", 2},
    {"INT16", 2},
    {"UINT32", 4},
    {"INT32", 4},
    {"FLOAT32", 4},
    {"BOOL", 1},
    {"STRING", 8},
    {"ARRAY", 12},
    {"UINT64", 8},
    {"INT64", 8},
    {"FLOAT64", 8},
}};

absl::Status invalid(absl::string_view what) {
  return absl::InvalidArgumentError(what);
}

// Reads and checks the type of a value.
absl::StatusOr<ValueType> read_type(FileReader& reader) {
  const auto type = reader.number<std::uint32_t>();
  if (!reader.ok()) return reader.status();
  if (type < kValueTypes.size()) return static_cast<ValueType>(type);
  return invalid(absl::StrCat("unknown value type ", type, "; the last known ",
                              "is ", kValueTypes.size() - 1));
}

// Reads a length and that many bytes of UTF-8.
absl::StatusOr<std::string> read_text(FileReader& reader,
                                      std::uint64_t most_bytes) {
  const auto bytes = reader.number<std::uint64_t>();
  if (reader.ok() && bytes > most_bytes && bytes <= reader.left()) {
    return invalid(absl::StrCat("text of ", bytes,
                                " bytes is past the limit of ", most_bytes));
  }
  std::string text = reader.text(bytes);
  if (!reader.ok()) return reader.status();
  if (!is_utf8(text)) {
    return invalid(absl::StrCat("text ", printable(text), " is not UTF-8"));
  }
  return text;
}

absl::StatusOr<GgufArray> skip_array(FileReader& reader, int depth) {
  const auto type = read_type(reader);
  if (!type.ok()) return type.status();
  const auto count = reader.number<std::uint64_t>();
  if (!reader.ok()) return reader.status();
  const ValueTypeRow& row = kValueTypes[static_cast<std::size_t>(*type)];
  if (count > reader.left() / row.bytes) {
    return invalid(absl::StrCat("array of ", count, " ", row.name,
                                " does not fit the ", reader.left(),
                                " bytes that are left"));
  }
  if (*type == ValueType::kString) {
    for (std::uint64_t i = 0; i < count && reader.ok(); ++i) {
      reader.skip(reader.number<std::uint64_t>());
    }
  } else if (*type == ValueType::kArray) {
    if (depth == kMaxArrayDepth) {
      return invalid(absl::StrCat("arrays nested deeper than the limit of ",
                                  kMaxArrayDepth));
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto inner = skip_array(reader, depth + 1);
      if (!inner.ok()) return inner.status();
    }
  } else {
    reader.skip(count * row.bytes);
  }
  if (!reader.ok()) return reader.status();
  return GgufArray{std::string(row.name), count};
}

// Reads an integer of so many bits and gives it the width that values have.
template <typename Unsigned>
GgufValue read_signed(FileReader& reader) {
  using Signed = std::make_signed_t<Unsigned>;
  return std::int64_t{static_cast<Signed>(reader.number<Unsigned>())};
}

template <typename Unsigned>
GgufValue read_unsigned(FileReader& reader) {
  return std::uint64_t{reader.number<Unsigned>()};
}

absl::StatusOr<GgufValue> read_bool(FileReader& reader) {
  const auto byte = reader.number<std::uint8_t>();
  if (byte <= 1) return byte == 1;
  return invalid(
      absl::StrCat("BOOL is ", static_cast<int>(byte), ", not 0 or 1"));
}

absl::StatusOr<GgufValue> read_value(FileReader& reader) {
  const auto type = read_type(reader);
  if (!type.ok()) return type.status();
  switch (*type) {
    case ValueType::kUint8:
      return read_unsigned<std::uint8_t>(reader);
    case ValueType::kInt8:
      return read_signed<std::uint8_t>(reader);
    case ValueType::kUint16:
      return read_unsigned<std::uint16_t>(reader);
    case ValueType::kInt16:
      return read_signed<std::uint16_t>(reader);
    case ValueType::kUint32:
      return read_unsigned<std::uint32_t>(reader);
    case ValueType::kInt32:
      return read_signed<std::uint32_t>(reader);
    case ValueType::kUint64:
      return read_unsigned<std::uint64_t>(reader);
    case ValueType::kInt64:
      return read_signed<std::uint64_t>(reader);
    case ValueType::kFloat32:
      return double{absl::bit_cast<float>(reader.number<std::uint32_t>())};
    case ValueType::kFloat64:
      return absl::bit_cast<double>(reader.number<std::uint64_t>());
    case ValueType::kBool:
      return read_bool(reader);
    case ValueType::kString:
      return read_text(reader, std::numeric_limits<std::uint64_t>::max());
    case ValueType::kArray:
      return skip_array(reader, 0);
  }
  return absl::InternalError("a value type without a reader");
}

absl::Status read_metadata(FileReader& reader, std::uint64_t count,
                           GgufHeader& header) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string place = absl::StrCat("metadata key ", i + 1);
    auto key = read_text(reader, kMaxKeyBytes);
    if (!key.ok()) return at(place, key.status());
    if (key->empty()) return invalid(absl::StrCat(place, " is empty"));
    if (header.metadata.count(*key) > 0) {
      return invalid(absl::StrCat("duplicate metadata key ", printable(*key)));
    }
    auto value = read_value(reader);
    absl::Status status = value.ok() ? reader.status() : value.status();
    if (!status.ok()) {
      return at(absl::StrCat("metadata key ", printable(*key)), status);
    }
    header.metadata.emplace(*std::move(key), *std::move(value));
  }
  return absl::OkStatus();
}

absl::Status read_shape(FileReader& reader, TensorInfo& tensor) {
  const auto dimensions = reader.number<std::uint32_t>();
  if (!reader.ok()) return reader.status();
  if (dimensions > kMaxDimensions) {
    return invalid(absl::StrCat(dimensions, " dimensions are past the limit ",
                                "of ", kMaxDimensions));
  }
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    const auto dimension = reader.number<std::uint64_t>();
    if (dimension > std::numeric_limits<std::int64_t>::max()) {
      return invalid(absl::StrCat("dimension ", dimension, " is 2^63 or more"));
    }
    tensor.shape.push_back(static_cast<std::int64_t>(dimension));
  }
  std::reverse(tensor.shape.begin(), tensor.shape.end());
  return reader.status();
}

// Bytes that shape and type ask for.
absl::StatusOr<std::int64_t> bytes_by_shape(const TensorInfo& tensor,
                                            const GgmlType& type) {
  const std::string what =
      absl::StrCat(type.name, " [", absl::StrJoin(tensor.shape, ", "), "]");
  const std::int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (row % type.block_elements != 0) {
    return invalid(absl::StrCat(what, ": rows of ", row, " elements do not ",
                                "make whole blocks of ", type.block_elements));
  }
  std::int64_t elements = 1;
  for (const std::int64_t dimension : tensor.shape) {
    if (__builtin_mul_overflow(elements, dimension, &elements)) {
      return invalid(absl::StrCat(what, " has 2^63 elements or more"));
    }
  }
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(elements / type.block_elements, type.block_bytes,
                             &bytes)) {
    return invalid(absl::StrCat(what, " takes 2^63 bytes or more"));
  }
  return bytes;
}

// Reads what follows a tensor's name.
absl::Status read_tensor(FileReader& reader, TensorInfo& tensor) {
  if (absl::Status shape = read_shape(reader, tensor); !shape.ok()) {
    return shape;
  }
  const auto id = reader.number<std::uint32_t>();
  const auto offset = reader.number<std::uint64_t>();
  if (!reader.ok()) return reader.status();
  const GgmlType* const type = find_ggml_type(id);
  if (type == nullptr) return invalid(absl::StrCat("unknown ggml type ", id));
  const auto bytes = bytes_by_shape(tensor, *type);
  if (!bytes.ok()) return bytes.status();
  tensor.dtype = std::string(type->name);
  if (offset > std::numeric_limits<std::int64_t>::max() ||
      __builtin_add_overflow(static_cast<std::int64_t>(offset), *bytes,
                             &tensor.end_bytes)) {
    return invalid(
        absl::StrCat("offset ", offset, " leads past the end of any file"));
  }
  tensor.begin_bytes = static_cast<std::int64_t>(offset);
  return absl::OkStatus();
}

absl::Status read_tensors(FileReader& reader, std::uint64_t count,
                          GgufHeader& header) {
  for (std::uint64_t i = 0; i < count; ++i) {
    auto name = read_text(reader, kMaxKeyBytes);
    if (!name.ok()) return at(absl::StrCat("tensor ", i + 1), name.status());
    TensorInfo& tensor = header.tensors.emplace_back();
    tensor.name = *std::move(name);
    absl::Status status = read_tensor(reader, tensor);
    if (!status.ok()) {
      return at(absl::StrCat("tensor ", printable(tensor.name)), status);
    }
  }
  return absl::OkStatus();
}

absl::Status check_count(std::uint64_t count, absl::string_view noun,
                         std::uint64_t most, std::uint64_t least_bytes,
                         const FileReader& reader) {
  if (count > most) {
    return invalid(absl::StrCat("header names ", count, " ", noun,
                                ", past the limit of ", most));
  }
  if (count * least_bytes > reader.left()) {
    return invalid(absl::StrCat("header names ", count, " ", noun,
                                ", which take at least ", count * least_bytes,
                                " bytes; ", reader.left(), " are left"));
  }
  return absl::OkStatus();
}

absl::Status check_magic(FileReader& reader) {
  const std::string magic =
      reader.text(std::min<std::uint64_t>(4, reader.left()));
  if (!reader.ok()) return reader.status();
  if (magic == "GGUF") return absl::OkStatus();
  return invalid(absl::StrCat(
      "not a GGUF file: it begins with ", printable(magic),
      magic == "vers" ? ", as Git LFS pointers do, whose weights were not "
                        "downloaded"
                      : ""));
}

absl::Status check_version(std::uint32_t version) {
  if (version == 2 || version == 3) return absl::OkStatus();
  if ((version & 0xFFFFU) == 0 && version != 0) {
    return absl::UnimplementedError(
        "the file is big-endian; only little-endian files are read");
  }
  return absl::UnimplementedError(absl::StrCat(
      "GGUF version ", version, "; only versions 2 and 3 are read"));
}

}  // namespace

absl::StatusOr<GgufHeader> read_gguf_header(FileReader& reader) {
  GgufHeader header;
  absl::Status status = check_magic(reader);
  if (!status.ok()) return status;
  header.version = reader.number<std::uint32_t>();
  if (!reader.ok()) return reader.status();
  status = check_version(header.version);
  if (!status.ok()) return status;
  const auto tensors = reader.number<std::uint64_t>();
  const auto keys = reader.number<std::uint64_t>();
  status = reader.status();
  if (status.ok()) {
    status = check_count(tensors, "tensors", GgufFile::kMaxTensors,
                         kLeastTensorBytes, reader);
  }
  if (status.ok()) {
    status = check_count(keys, "metadata keys", GgufFile::kMaxMetadataKeys,
                         kLeastKeyBytes, reader);
  }
  if (status.ok()) status = read_metadata(reader, keys, header);
  if (status.ok()) status = read_tensors(reader, tensors, header);
  if (!status.ok()) return status;
  header.bytes = reader.offset();
  return header;
}

}  // namespace trnscout
