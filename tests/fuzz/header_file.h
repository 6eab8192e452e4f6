#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "mutation.h"

namespace trnscout {

/// The start of a file and the size of the whole, which an input holds as eight
/// bytes of size and then the start.
struct HeaderFile {
  std::int64_t file_bytes = 0;
  std::string first_bytes;

  static HeaderFile from(absl::string_view input);
  std::string input() const;
};

/// A file in memory that is as long as `file_bytes` says and begins with
/// `first_bytes`; the rest takes no room.
class MemoryFile {
 public:
  explicit MemoryFile(const HeaderFile& header);
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile();

  std::filesystem::path path() const;

 private:
  int descriptor_ = -1;
};

/// Takes an input apart into pieces, each with four bytes of length before it.
std::vector<std::string> pieces_of(absl::string_view input);

/// The reverse.
std::string input_of(const std::vector<std::string>& pieces);

}  // namespace trnscout
