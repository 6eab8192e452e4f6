#include "file_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace trnscout {
namespace {

constexpr std::int64_t kWindowBytes = 64 << 10;

}  // namespace

FileReader::FileReader(const RegularFile& file, std::int64_t limit_bytes)
    : file_(file), end_(std::min(file.size_bytes(), limit_bytes)) {}

std::string FileReader::text(std::uint64_t bytes) {
  if (!has(bytes)) return {};
  if (bytes <= kWindowBytes) {
    const auto size = static_cast<std::size_t>(bytes);
    return fill(size) ? std::string(take(size)) : std::string();
  }
  auto read = file_.read(offset_, static_cast<std::int64_t>(bytes));
  if (!read.ok()) {
    status_ = read.status();
    return {};
  }
  offset_ += static_cast<std::int64_t>(bytes);
  return *std::move(read);
}

void FileReader::skip(std::uint64_t bytes) {
  if (has(bytes)) offset_ += static_cast<std::int64_t>(bytes);
}

bool FileReader::has(std::uint64_t bytes) {
  if (!ok()) return false;
  if (bytes <= left()) return true;
  status_ = absl::InvalidArgumentError(
      end_ < file_.size_bytes()
          ? absl::StrCat("header is past the limit of ", end_, " bytes")
          : absl::StrCat("header is cut or damaged: ", bytes,
                         " bytes are needed from byte ", offset_,
                         " on, the file ends at ", end_));
  return false;
}

bool FileReader::fill(std::size_t bytes) {
  if (!has(bytes)) return false;
  const std::int64_t window_end =
      window_offset_ + static_cast<std::int64_t>(window_.size());
  const std::int64_t wanted_end = offset_ + static_cast<std::int64_t>(bytes);
  if (offset_ >= window_offset_ && wanted_end <= window_end) return true;
  auto read = file_.read(offset_, std::min(kWindowBytes, end_ - offset_));
  if (!read.ok()) {
    status_ = read.status();
    return false;
  }
  window_ = *std::move(read);
  window_offset_ = offset_;
  return true;
}

absl::string_view FileReader::take(std::size_t bytes) {
  const auto at = static_cast<std::size_t>(offset_ - window_offset_);
  offset_ += static_cast<std::int64_t>(bytes);
  return absl::string_view(window_).substr(at, bytes);
}

}  // namespace trnscout
