#include "printable.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace trnscout {
namespace {

// Quotes stay as they are: messages quote what they do not escape.
std::string escaped(absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isprint(byte) && c != '\\') {
      out.push_back(c);
    } else {
      absl::StrAppend(&out, "\\x", absl::Hex(byte, absl::kZeroPad2));
    }
  }
  return out;
}

}  // namespace

std::string printable(absl::string_view text) {
  constexpr std::size_t kLongest = 200;
  if (text.empty()) return "\"\"";
  return absl::StrCat(escaped(text.substr(0, kLongest)),
                      text.size() > kLongest ? "..." : "");
}

std::string printable_path(const std::filesystem::path& path) {
  return escaped(path.native());
}

std::string counted(std::size_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

absl::Status at(absl::string_view where, const absl::Status& status) {
  if (status.ok()) return status;
  return {status.code(), absl::StrCat(where, ": ", status.message())};
}

}  // namespace trnscout
