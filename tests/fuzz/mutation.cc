#include "mutation.h"

#include <algorithm>

namespace trnscout {
namespace {

// A random piece of a text, short most of the time.
absl::string_view piece(absl::string_view text, Random& random) {
  if (text.empty()) return text;
  const std::size_t begin = random.below(text.size());
  const std::size_t most = random.one_in(4) ? text.size() : 16;
  return text.substr(begin, 1 + random.below(most));
}

void flip_bit(std::string& text, Random& random) {
  char& byte = random.of(text);
  byte = static_cast<char>(byte ^ (1 << random.below(8)));
}

void put_trap(std::string& text, Random& random) {
  constexpr std::size_t kWidths[] = {1, 4, 4, 8, 8};
  const std::size_t bytes = std::min(random.of(kWidths), text.size());
  put_number(text, random.below(text.size() - bytes + 1), trap_number(random),
             bytes);
}

// Adds or takes a little where a number may stand.
void nudge(std::string& text, Random& random) {
  const std::size_t bytes = std::min<std::size_t>(8, text.size());
  const std::size_t at = random.below(text.size() - bytes + 1);
  const std::uint64_t step = random.below(64) - 32;
  put_number(text, at, get_number(text, at, bytes) + step, bytes);
}

}  // namespace

std::uint64_t hash_of(absl::string_view text) {
  std::uint64_t out = 0xCBF29CE484222325U;  // FNV-1a
  for (const char c : text) {
    out = (out ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  }
  return out;
}

std::uint64_t trap_number(Random& random) {
  const std::uint64_t power = std::uint64_t{1} << random.below(64);
  constexpr std::uint64_t kSmall[] = {0, 1, 2, 3, 7, 31, 64, 255};
  switch (random.below(4)) {
    case 0:
      return random.of(kSmall);
    case 1:
      return power;
    case 2:
      return power - 1;
    default:
      return 0 - power;
  }
}

void put_number(std::string& text, std::size_t at, std::uint64_t number,
                std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) {
    text[at + i] = static_cast<char>(number >> (8 * i) & 0xFF);
  }
}

std::uint64_t get_number(absl::string_view text, std::size_t at,
                         std::size_t bytes) {
  std::uint64_t out = 0;
  for (std::size_t i = bytes; i-- > 0;) {
    out = out << 8 | static_cast<unsigned char>(text[at + i]);
  }
  return out;
}

void mutate_bytes(std::string& text, absl::string_view other, Random& random) {
  if (text.empty()) {
    text = std::string(piece(other, random));
    return;
  }
  const std::size_t at = random.below(text.size());
  switch (random.below(7)) {
    case 0:
      flip_bit(text, random);
      break;
    case 1:
      text.resize(at);
      break;
    case 2:
      text.erase(at, 1 + random.below(16));
      break;
    case 3:
      text.insert(at, std::string(piece(text, random)));
      break;
    case 4:
      text.insert(at, std::string(piece(other, random)));
      break;
    case 5:
      put_trap(text, random);
      break;
    default:
      nudge(text, random);
      break;
  }
}

}  // namespace trnscout
