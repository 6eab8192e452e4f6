#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/status/statusor.h"

namespace trnscout {

/// A file with bytes of its own, open for reading.
class RegularFile {
 public:
  /// Opens `path`; links are followed. Messages leave the path to the caller.
  ///
  /// Errors: NotFound - nothing is there.
  ///         InvalidArgument - it is a directory, FIFO, socket or device. None
  ///         of these is read, and a FIFO without a writer does not block.
  ///         What errno stands for - the system refuses to open the file.
  static absl::StatusOr<RegularFile> open(const std::filesystem::path& path);

  RegularFile(RegularFile&& other) noexcept;
  RegularFile& operator=(RegularFile&& other) noexcept;
  ~RegularFile();

  /// Size at the time it was opened.
  std::int64_t size_bytes() const { return size_bytes_; }

  /// Time of its last change when it was opened, in ns since 1970.
  std::int64_t modified_ns() const { return modified_ns_; }

  /// For system calls; owned by this object.
  int descriptor() const { return descriptor_; }

  /// Reads exactly `bytes` from `offset`. Both must be checked against
  /// `size_bytes` first, for this allocates what it is asked for.
  ///
  /// Errors: InvalidArgument - the file has become shorter since.
  ///         What errno stands for - the system refuses to read.
  absl::StatusOr<std::string> read(std::int64_t offset,
                                   std::int64_t bytes) const;

 private:
  explicit RegularFile(int descriptor) : descriptor_(descriptor) {}

  int descriptor_ = -1;
  std::int64_t size_bytes_ = 0;
  std::int64_t modified_ns_ = 0;
};

}  // namespace trnscout
