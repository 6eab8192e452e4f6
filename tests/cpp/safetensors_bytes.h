#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace trnscout {

/// The eight bytes that a file begins with, for a header of `length` bytes.
inline std::string header_length_bytes(std::uint64_t length) {
  std::string out;
  for (int i = 0; i < 8; ++i) {
    out.push_back(static_cast<char>(length & 0xFF));
    length >>= 8;
  }
  return out;
}

/// A safetensors file with this header, as it stands, and so much zero data.
inline std::string safetensors_bytes(const std::string& header,
                                     std::size_t data_bytes) {
  return header_length_bytes(header.size()) + header +
         std::string(data_bytes, '\0');
}

/// One entry of a header: a U8 vector over [begin, end).
inline std::string u8_entry(const std::string& name, std::size_t begin,
                            std::size_t end) {
  return "\"" + name + R"(":{"dtype":"U8","shape":[)" +
         std::to_string(end - begin) + R"(],"data_offsets":[)" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

/// A file with one U8 tensor of four bytes.
inline std::string u8_file(const std::string& name) {
  return safetensors_bytes("{" + u8_entry(name, 0, 4) + "}", 4);
}

}  // namespace trnscout
