#include "regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace trnscout {
namespace {

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

absl::Status refuse_irregular(mode_t mode) {
  return absl::InvalidArgumentError(
      absl::StrCat(kind_of(mode), ", not a regular file"));
}

}  // namespace

absl::StatusOr<RegularFile> RegularFile::open(
    const std::filesystem::path& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0)
    return absl::ErrnoToStatus(errno, "cannot open");
  if (!S_ISREG(about.st_mode)) return refuse_irregular(about.st_mode);
  // O_NONBLOCK, for the file may have been swapped for a FIFO meanwhile.
  const int descriptor =
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, "cannot open");
  RegularFile file(descriptor);
  if (::fstat(descriptor, &about) != 0)
    return absl::ErrnoToStatus(errno, "cannot open");
  if (!S_ISREG(about.st_mode)) return refuse_irregular(about.st_mode);
  file.size_bytes_ = about.st_size;
  file.modified_ns_ =
      about.st_mtim.tv_sec * 1'000'000'000 + about.st_mtim.tv_nsec;
  return file;
}

RegularFile::RegularFile(RegularFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      size_bytes_(other.size_bytes_),
      modified_ns_(other.modified_ns_) {}

RegularFile& RegularFile::operator=(RegularFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(modified_ns_, other.modified_ns_);
  return *this;
}

RegularFile::~RegularFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

absl::StatusOr<std::string> RegularFile::read(std::int64_t offset,
                                              std::int64_t bytes) const {
  std::string out(static_cast<std::size_t>(bytes), '\0');
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got =
        ::pread(descriptor_, out.data() + done, out.size() - done,
                offset + static_cast<std::int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, "cannot read");
    if (got == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "became shorter while it was read: it had ", size_bytes_,
          " bytes, now ends at ", offset + static_cast<std::int64_t>(done)));
    }
    done += static_cast<std::size_t>(got);
  }
  return out;
}

}  // namespace trnscout
