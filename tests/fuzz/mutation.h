#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

#include "absl/strings/string_view.h"

namespace trnscout {

/// Numbers by chance, the same from the same seed on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  std::uint64_t bits() { return engine_(); }
  /// A number below `count`, which must not be zero.
  std::size_t below(std::size_t count) {
    return static_cast<std::size_t>(engine_() % count);
  }
  bool one_in(std::size_t count) { return below(count) == 0; }
  /// One of the items of an array or vector that is not empty.
  template <typename Items>
  auto& of(Items& items) {
    return items[below(std::size(items))];
  }

 private:
  std::mt19937_64 engine_;
};

/// A seed for what an input itself decides, so that it can be run again alone.
std::uint64_t hash_of(absl::string_view text);

/// A whole number that code likes to get wrong.
std::uint64_t trap_number(Random& random);

/// Writes a little-endian number of `bytes` bytes over what stands at `at`.
void put_number(std::string& text, std::size_t at, std::uint64_t number,
                std::size_t bytes);

/// The little-endian number of `bytes` bytes at `at`.
std::uint64_t get_number(absl::string_view text, std::size_t at,
                         std::size_t bytes);

/// Flips bits, cuts, doubles, moves or overwrites bytes; `other` gives some.
void mutate_bytes(std::string& text, absl::string_view other, Random& random);

}  // namespace trnscout
