#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "trnscout/checkpoint.h"

namespace trnscout {

/// The bytes of one tensor in a mapped file. Not to be kept past the
/// `MappedCheckpoint` that gave it.
///
/// Nothing promises that `data` is aligned: the format packs tensors without
/// padding. Take elements with `element` or `copy`, never through a cast of
/// `data`, unless `aligned_to` says that it may be done.
struct TensorView {
  const std::byte* data = nullptr;   ///< not null, also without elements
  const TensorInfo* info = nullptr;  ///< of the mapped checkpoint

  std::int64_t bytes() const { return info->bytes(); }

  /// Number of elements that have type T in memory.
  template <typename T>
  std::int64_t count() const {
    return bytes() / static_cast<std::int64_t>(sizeof(T));
  }

  /// Reads element `index`, which must be below `count<T>()`.
  template <typename T>
  T element(std::int64_t index) const {
    static_assert(std::is_trivially_copyable_v<T>);
    assert(index >= 0 && index < count<T>());
    T out;
    std::memcpy(&out, data + index * static_cast<std::int64_t>(sizeof(T)),
                sizeof(T));
    return out;
  }

  /// Copies every byte to `target`, which must have room for `bytes()`.
  void copy(void* target) const {
    std::memcpy(target, data, static_cast<std::size_t>(bytes()));
  }

  /// Says whether `data` is a multiple of `alignment`, a power of two.
  bool aligned_to(std::size_t alignment) const {
    return (reinterpret_cast<std::uintptr_t>(data) & (alignment - 1)) == 0;
  }
};

}  // namespace trnscout
