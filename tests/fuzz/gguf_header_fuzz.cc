// Headers of GGUF files. An input is the size of the file and its start.

#include <limits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "fuzz_target.h"
#include "gguf_bytes.h"
#include "header_file.h"
#include "outcome.h"
#include "trnscout/ggml_type.h"
#include "trnscout/gguf.h"

namespace trnscout {
namespace {

void check_file(const GgufFile& file, std::int64_t file_bytes) {
  require(file.file_bytes() == file_bytes, "the file has its size");
  const std::int64_t alignment = file.alignment();
  require(alignment > 0 && (alignment & (alignment - 1)) == 0,
          "the alignment is a power of two");
  std::int64_t total = 0;
  const std::string* before = nullptr;
  for (const TensorInfo& tensor : file.tensors()) {
    require(before == nullptr || *before < tensor.name, "names ascend");
    before = &tensor.name;
    require(tensor.begin_bytes > 0 && tensor.begin_bytes <= tensor.end_bytes &&
                tensor.end_bytes <= file_bytes,
            "a tensor lies in the file");
    require(tensor.begin_bytes % alignment == 0, "a tensor is aligned");
    require(find_ggml_type(tensor.dtype) != nullptr, "the type is known");
    require(file.find(tensor.name) == &tensor, "a tensor is found");
    total += tensor.bytes();
  }
  require(total == file.total_bytes() && total <= file_bytes,
          "the total is the tensors'");
  for (const auto& [key, value] : file.metadata()) {
    require(file.find_metadata(key) == &value, "a key is found");
  }
  for (const std::string& warning : file.warnings()) check_message(warning);
}

std::string scalar_key(std::size_t index, Random& random) {
  constexpr std::size_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  const std::string name = absl::StrCat("key.", index);
  const std::size_t type = random.below(std::size(kBytes));
  const std::uint64_t number =
      type == 7 ? random.below(2) : trap_number(random);
  if (type == 8) return gguf_key(name, 8, gguf_text("text"));
  if (type != 9) {
    return gguf_key(name, static_cast<std::uint32_t>(type),
                    gguf_number(number, kBytes[type]));
  }
  const std::string array =
      gguf_u32(8) + gguf_u64(2) + gguf_text("a") + gguf_text("bc");
  const bool nested = random.one_in(2);
  return gguf_key(name, 9,
                  nested ? gguf_u32(9) + gguf_u64(2) + array + array : array);
}

std::string made(Random& random) {
  GgufBytes out;
  out.version = random.one_in(4) ? 2 : 3;
  out.key_count = random.below(5);
  if (random.one_in(3)) {
    out.alignment = std::size_t{8} << random.below(4);
    out.body += gguf_key("general.alignment", 4, gguf_u32(out.alignment));
    ++out.key_count;
  }
  const std::size_t others = out.key_count - (out.body.empty() ? 0 : 1);
  for (std::size_t i = 0; i < others; ++i) out.body += scalar_key(i, random);
  out.tensor_count = random.below(4);
  const std::vector<GgmlType> types = ggml_types();
  for (std::uint64_t i = 0; i < out.tensor_count; ++i) {
    const GgmlType& type = random.of(types);
    const std::uint64_t blocks = random.below(4);
    out.body +=
        gguf_tensor(absl::StrCat("blk.", i, ".weight"),
                    blocks * static_cast<std::uint64_t>(type.block_elements),
                    type.id, out.data_bytes);
    out.data_bytes += static_cast<std::size_t>(blocks) *
                      static_cast<std::size_t>(type.block_bytes);
    out.data_bytes =
        (out.data_bytes + out.alignment - 1) / out.alignment * out.alignment;
  }
  const std::string file = out.bytes();
  return HeaderFile{static_cast<std::int64_t>(file.size()),
                    file.substr(0, file.size() - out.data_bytes)}
      .input();
}

}  // namespace

std::vector<std::string> seed_inputs() {
  Random random(11);
  std::vector<std::string> out;
  for (int i = 0; i < 200; ++i) out.push_back(made(random));
  return out;
}

std::string mutated(std::string input, absl::string_view other,
                    Random& random) {
  HeaderFile header = HeaderFile::from(input);
  if (random.one_in(12)) {
    header.file_bytes = static_cast<std::int64_t>(trap_number(random));
    return header.input();
  }
  mutate_bytes(header.first_bytes, HeaderFile::from(other).first_bytes, random);
  return header.input();
}

}  // namespace trnscout

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace trnscout;
  HeaderFile header =
      HeaderFile::from({reinterpret_cast<const char*>(data), size});
  // Negative sizes are none that a file can have.
  header.file_bytes &= std::numeric_limits<std::int64_t>::max();
  const MemoryFile memory(header);
  const auto file = GgufFile::open(memory.path());
  if (!file.ok()) {
    note_refused(file.status(), {absl::StatusCode::kInvalidArgument,
                                 absl::StatusCode::kUnimplemented});
    return 0;
  }
  check_file(*file, header.file_bytes);
  note_accepted(absl::StrCat(file->version(), " ", file->alignment(), " ",
                             file->tensors().size(), " ",
                             file->warnings().size()));
  return 0;
}
