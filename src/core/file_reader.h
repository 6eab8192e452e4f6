#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "regular_file.h"

namespace trnscout {

/// Reads little-endian values one after the other from the start of a file.
///
/// The first failure stays: from then on `ok` is false, values are zero and
/// texts empty, so that a caller may read a few before it asks. A loop whose
/// length came from the file must ask each time.
class FileReader {
 public:
  /// Never reads past `limit_bytes`. `file` must outlive this.
  FileReader(const RegularFile& file, std::int64_t limit_bytes);

  bool ok() const { return status_.ok(); }

  /// What failed first: InvalidArgument where the file or the limit ends.
  const absl::Status& status() const { return status_; }

  std::int64_t offset() const { return offset_; }

  /// Bytes until the end of the file or the limit.
  std::uint64_t left() const {
    return static_cast<std::uint64_t>(end_ - offset_);
  }

  /// Reads an unsigned number.
  template <typename Unsigned>
  Unsigned number() {
    Unsigned out = 0;
    if (!fill(sizeof(Unsigned))) return out;
    const absl::string_view bytes = take(sizeof(Unsigned));
    for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
      const auto byte = static_cast<unsigned char>(bytes[i]);
      out = static_cast<Unsigned>(out | static_cast<Unsigned>(byte) << (8 * i));
    }
    return out;
  }

  /// Reads a text; allocates no more than the file has.
  std::string text(std::uint64_t bytes);

  /// Passes over bytes without reading them.
  void skip(std::uint64_t bytes);

 private:
  // Notes a failure unless so many bytes are left.
  bool has(std::uint64_t bytes);
  // Gets so many bytes, a few at most, into the window.
  bool fill(std::size_t bytes);
  absl::string_view take(std::size_t bytes);

  const RegularFile& file_;
  std::int64_t offset_ = 0;
  std::int64_t end_ = 0;
  std::string window_;
  std::int64_t window_offset_ = 0;
  absl::Status status_;
};

}  // namespace trnscout
