#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "regular_file.h"

namespace trnscout {

/// The bytes of a file in this process's memory, read-only.
class FileMapping {
 public:
  /// Maps the whole file; nothing is read yet, and the file may be closed.
  ///
  /// Errors: What errno stands for - the system refuses, for instance because
  ///         the address space is full.
  static absl::StatusOr<FileMapping> map(const RegularFile& file);

  FileMapping(FileMapping&& other) noexcept;
  FileMapping& operator=(FileMapping&& other) noexcept;
  ~FileMapping();

  /// Not null, also for a file without bytes.
  const std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  FileMapping(const std::byte* data, std::int64_t bytes)
      : data_(data), bytes_(bytes) {}

  const std::byte* data_;
  std::int64_t bytes_;
};

}  // namespace trnscout
