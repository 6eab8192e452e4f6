#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace trnscout {

/// A little-endian number of `bytes` bytes.
inline std::string gguf_number(std::uint64_t value, std::size_t bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes; ++i) {
    out.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
  }
  return out;
}

inline std::string gguf_u32(std::uint64_t value) {
  return gguf_number(value, 4);
}
inline std::string gguf_u64(std::uint64_t value) {
  return gguf_number(value, 8);
}
inline std::string gguf_text(const std::string& text) {
  return gguf_u64(text.size()) + text;
}

/// A key of the metadata with a value of this type, in its raw bytes.
inline std::string gguf_key(const std::string& key, std::uint32_t type,
                            const std::string& value) {
  return gguf_text(key) + gguf_u32(type) + value;
}

/// A tensor of one dimension.
inline std::string gguf_tensor(const std::string& name, std::uint64_t elements,
                               std::uint32_t type, std::uint64_t offset) {
  return gguf_text(name) + gguf_u32(1) + gguf_u64(elements) + gguf_u32(type) +
         gguf_u64(offset);
}

/// What a GGUF file is made of; the defaults make a valid one without tensors.
struct GgufBytes {
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::uint64_t tensor_count = 0;
  std::uint64_t key_count = 0;
  std::string body = {};  ///< keys, then tensors
  std::size_t alignment = 32;
  std::size_t data_bytes = 0;

  std::string bytes() const {
    std::string out = magic + gguf_u32(version) + gguf_u64(tensor_count) +
                      gguf_u64(key_count) + body;
    out.resize((out.size() + alignment - 1) / alignment * alignment, '\0');
    return out + std::string(data_bytes, '\0');
  }
};

}  // namespace trnscout
