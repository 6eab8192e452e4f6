#include "file_mapping.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"

namespace trnscout {
namespace {

// Stands for the bytes of an empty file, which the system does not map.
constexpr std::byte kNothing{};

}  // namespace

absl::StatusOr<FileMapping> FileMapping::map(const RegularFile& file) {
  const std::int64_t bytes = file.size_bytes();
  if (bytes == 0) return FileMapping(&kNothing, 0);
  void* const data = ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ,
                            MAP_SHARED, file.descriptor(), 0);
  if (data == MAP_FAILED) return absl::ErrnoToStatus(errno, "cannot map");
  return FileMapping(static_cast<const std::byte*>(data), bytes);
}

FileMapping::FileMapping(FileMapping&& other) noexcept
    : data_(std::exchange(other.data_, &kNothing)),
      bytes_(std::exchange(other.bytes_, 0)) {}

FileMapping& FileMapping::operator=(FileMapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

FileMapping::~FileMapping() {
  if (bytes_ == 0) return;
  ::munmap(const_cast<std::byte*>(data_), static_cast<std::size_t>(bytes_));
}

}  // namespace trnscout
