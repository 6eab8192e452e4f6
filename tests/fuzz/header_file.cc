#include "header_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "outcome.h"

namespace trnscout {

HeaderFile HeaderFile::from(absl::string_view input) {
  const std::size_t bytes = std::min<std::size_t>(8, input.size());
  return {static_cast<std::int64_t>(get_number(input, 0, bytes)),
          std::string(input.substr(bytes))};
}

std::string HeaderFile::input() const {
  std::string out(8, '\0');
  put_number(out, 0, static_cast<std::uint64_t>(file_bytes), 8);
  return out + first_bytes;
}

MemoryFile::MemoryFile(const HeaderFile& header)
    : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
  require(descriptor_ >= 0, "there is a file in memory");
  const auto bytes = static_cast<ssize_t>(header.first_bytes.size());
  require(::write(descriptor_, header.first_bytes.data(),
                  header.first_bytes.size()) == bytes &&
              ::ftruncate(descriptor_, header.file_bytes) == 0,
          "the file can be written");
}

MemoryFile::~MemoryFile() { ::close(descriptor_); }

std::filesystem::path MemoryFile::path() const {
  return absl::StrCat("/proc/self/fd/", descriptor_);
}

std::vector<std::string> pieces_of(absl::string_view input) {
  std::vector<std::string> out;
  while (input.size() >= 4) {
    const std::size_t bytes = std::min<std::size_t>(
        static_cast<std::size_t>(get_number(input, 0, 4)), input.size() - 4);
    out.emplace_back(input.substr(4, bytes));
    input.remove_prefix(4 + bytes);
  }
  return out;
}

std::string input_of(const std::vector<std::string>& pieces) {
  std::string out;
  for (const std::string& piece : pieces) {
    std::string length(4, '\0');
    put_number(length, 0, piece.size(), 4);
    out += length + piece;
  }
  return out;
}

}  // namespace trnscout
