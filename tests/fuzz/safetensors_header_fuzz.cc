// Headers of safetensors files, alone and with an index. An input is pieces:
// the index, empty for none, then the start of each file.

#include <algorithm>
#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "fuzz_target.h"
#include "header_file.h"
#include "json_mutation.h"
#include "outcome.h"
#include "safetensors_bytes.h"
#include "safetensors_header.h"
#include "trnscout/checkpoint.h"

namespace trnscout {
namespace {

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kNotFound = absl::StatusCode::kNotFound;
constexpr std::int64_t kLargestMemoryFile = std::int64_t{1} << 62;

void check_checkpoint(const Checkpoint& checkpoint) {
  std::int64_t file_bytes = 0;
  for (const CheckpointShard& shard : checkpoint.shards()) {
    require(shard.bytes >= 0, "a file has no negative size");
    require(!__builtin_add_overflow(file_bytes, shard.bytes, &file_bytes),
            "the files' sizes add up");
  }
  std::int64_t total = 0;
  const std::string* before = nullptr;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    require(before == nullptr || *before < tensor.name, "names ascend");
    before = &tensor.name;
    require(tensor.shard < checkpoint.shards().size(), "the shard is there");
    require(tensor.begin_bytes >= 8 && tensor.begin_bytes <= tensor.end_bytes &&
                tensor.end_bytes <= checkpoint.shards()[tensor.shard].bytes,
            "a tensor lies in its file");
    require(checkpoint.find(tensor.name) == &tensor, "a tensor is found");
    total += tensor.bytes();
  }
  require(total == checkpoint.total_bytes() && total <= file_bytes,
          "the total is the tensors'");
  for (const std::string& warning : checkpoint.warnings()) {
    check_message(warning);
  }
}

// The file itself must give what its first bytes give.
void check_file(const HeaderFile& header) {
  const auto given =
      parse_safetensors_header(header.first_bytes, header.file_bytes);
  if (!given.ok()) check_refusal(given.status(), {kInvalid});
  const auto bytes = static_cast<std::int64_t>(header.first_bytes.size());
  if (header.file_bytes < bytes || header.file_bytes > kLargestMemoryFile) {
    return;
  }
  const MemoryFile file(header);
  const auto read = read_safetensors_header(file.path());
  require(read.ok() == given.ok(), "the file is judged as its start");
  if (!read.ok()) return check_refusal(read.status(), {kInvalid});
  require(
      read->tensors == given->tensors && read->file_bytes == given->file_bytes,
      "the file has what its start says");
}

std::vector<ShardHeader> headers_of(const std::vector<std::string>& pieces,
                                    const std::vector<std::string>& names) {
  std::vector<ShardHeader> out;
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    const HeaderFile header = HeaderFile::from(pieces[i]);
    check_file(header);
    out.push_back({i <= names.size() ? names[i - 1] : absl::StrCat("more-", i),
                   header.file_bytes, header.first_bytes});
  }
  return out;
}

std::string entry(const std::string& name, Random& random, std::size_t& end) {
  constexpr const char* kTypes[] = {"U8", "F32", "BF16", "F4", "I64"};
  constexpr std::size_t kBits[] = {8, 32, 16, 4, 64};
  const std::size_t type = random.below(std::size(kTypes));
  const std::size_t rows = 2 * random.below(4);
  const std::size_t begin = end;
  end += rows * 3 * kBits[type] / 8;
  return absl::StrCat("\"", name, "\":{\"dtype\":\"", kTypes[type],
                      "\",\"shape\":[", rows, ",3],\"data_offsets\":[", begin,
                      ",", end, "]}");
}

// One file of `tensors` tensors that `prefix` names.
std::string file_of(const std::string& prefix, std::size_t tensors,
                    Random& random) {
  std::size_t end = 0;
  std::string text = random.one_in(3) ? R"({"__metadata__":{"a":"b"})" : "{";
  for (std::size_t i = 0; i < tensors; ++i) {
    if (text.size() > 1) text += ',';
    text += entry(absl::StrCat(prefix, i), random, end);
  }
  text += "}";
  const std::string file = safetensors_bytes(text, end);
  return HeaderFile{static_cast<std::int64_t>(file.size()),
                    file.substr(0, 8 + text.size())}
      .input();
}

std::string sharded(std::size_t shards, Random& random) {
  std::vector<std::string> pieces(1);
  std::string map;
  for (std::size_t shard = 0; shard < shards; ++shard) {
    const std::string prefix = absl::StrCat("layers.", shard, ".");
    const std::size_t tensors = 1 + random.below(3);
    pieces.push_back(file_of(prefix, tensors, random));
    for (std::size_t i = 0; i < tensors; ++i) {
      absl::StrAppend(&map, map.empty() ? "" : ",", "\"", prefix, i,
                      "\":\"model-0000", shard + 1, "-of-0000", shards,
                      ".safetensors\"");
    }
  }
  pieces[0] = absl::StrCat("{\"metadata\":{\"total_size\":", random.below(100),
                           "},\"weight_map\":{", map, "}}");
  return input_of(pieces);
}

// Changes the header's JSON and, most of the time, the lengths with it.
void mutate_header(std::string& piece, absl::string_view other,
                   Random& random) {
  HeaderFile header = HeaderFile::from(piece);
  const HeaderFile from = HeaderFile::from(other);
  std::string& bytes = header.first_bytes;
  if (bytes.size() < 8 || random.one_in(8)) {
    return mutate_bytes(piece, other, random);
  }
  std::string text = bytes.substr(8);
  mutate_json(text,
              absl::string_view(from.first_bytes)
                  .substr(std::min<std::size_t>(8, from.first_bytes.size())),
              random);
  const auto grown = static_cast<std::int64_t>(text.size()) -
                     static_cast<std::int64_t>(bytes.size() - 8);
  bytes = header_length_bytes(text.size()) + text;
  if (!random.one_in(16) &&
      __builtin_add_overflow(header.file_bytes, grown, &header.file_bytes)) {
    header.file_bytes = 0;
  }
  if (random.one_in(16)) {
    put_number(bytes, 0, trap_number(random), 8);
  }
  if (random.one_in(16)) {
    header.file_bytes = static_cast<std::int64_t>(trap_number(random));
  }
  piece = header.input();
}

}  // namespace

std::vector<std::string> seed_inputs() {
  Random random(7);
  std::vector<std::string> out;
  for (std::size_t i = 0; i < 60; ++i) {
    out.push_back(i % 2 == 0 ? input_of({"", file_of("t", i % 5, random)})
                             : sharded(1 + i % 4, random));
  }
  return out;
}

std::string mutated(std::string input, absl::string_view other,
                    Random& random) {
  if (random.one_in(20)) {
    mutate_bytes(input, other, random);
    return input;
  }
  std::vector<std::string> pieces = pieces_of(input);
  const std::vector<std::string> others = pieces_of(other);
  if (pieces.empty() || others.empty()) return input_of({"", input});
  const std::size_t at = random.below(pieces.size());
  const std::string& from = others[random.below(others.size())];
  if (random.one_in(24)) {
    pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(at));
  } else if (random.one_in(24)) {
    pieces.push_back(from);
  } else if (at == 0) {
    mutate_json(pieces[at], others[0], random);
  } else {
    mutate_header(pieces[at], from, random);
  }
  return input_of(pieces);
}

}  // namespace trnscout

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace trnscout;
  const std::vector<std::string> pieces =
      pieces_of({reinterpret_cast<const char*>(data), size});
  std::optional<absl::string_view> index;
  std::vector<std::string> names = {"model.safetensors"};
  if (!pieces.empty() && !pieces[0].empty()) {
    index = pieces[0];
    auto listed = Checkpoint::shard_names(*index);
    if (!listed.ok()) check_refusal(listed.status(), {kInvalid});
    if (listed.ok()) names = *std::move(listed);
  }
  const auto checkpoint =
      Checkpoint::from_headers(headers_of(pieces, names), index);
  if (!checkpoint.ok()) {
    note_refused(checkpoint.status(), {kInvalid, kNotFound});
    return 0;
  }
  check_checkpoint(*checkpoint);
  note_accepted(absl::StrCat(index.has_value(), checkpoint->warnings().size()));
  return 0;
}
