#include "utf8.h"

#include <cstddef>
#include <cstdint>

namespace trnscout {
namespace {

// Bytes that follow a first byte, and the least code point that needs so many.
struct Form {
  std::size_t more;
  std::uint32_t least;
  std::uint32_t bits;  // of the code point, from the first byte
};

bool form_of(unsigned char first, Form& form) {
  if (first < 0x80) {
    form = {0, 0, first};
  } else if (first >= 0xC0 && first < 0xE0) {
    form = {1, 0x80, first & 0x1FU};
  } else if (first >= 0xE0 && first < 0xF0) {
    form = {2, 0x800, first & 0x0FU};
  } else if (first >= 0xF0 && first < 0xF8) {
    form = {3, 0x10000, first & 0x07U};
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool is_utf8(absl::string_view text) {
  while (!text.empty()) {
    Form form{};
    if (!form_of(static_cast<unsigned char>(text[0]), form)) return false;
    if (text.size() <= form.more) return false;
    std::uint32_t point = form.bits;
    for (std::size_t i = 1; i <= form.more; ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      if ((byte & 0xC0U) != 0x80U) return false;
      point = point << 6 | (byte & 0x3FU);
    }
    const bool surrogate = point >= 0xD800 && point < 0xE000;
    if (point < form.least || point > 0x10FFFF || surrogate) return false;
    text.remove_prefix(form.more + 1);
  }
  return true;
}

}  // namespace trnscout
