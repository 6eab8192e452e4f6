#include "model_directory.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "printable.h"

namespace trnscout {
namespace {

namespace fs = std::filesystem;

// What browsers, curl scripts, aria2 and huggingface_hub leave behind.
constexpr std::array<const char*, 5> kUnfinished = {
    ".incomplete", ".part", ".tmp", ".aria2", ".crdownload"};

constexpr std::array<const char*, 7> kOtherWeights = {
    ".bin", ".gguf", ".pt", ".pth", ".ckpt", ".h5", ".msgpack"};

absl::Status system_refused(const fs::path& path, std::error_code error) {
  return at(printable_path(path),
            absl::ErrnoToStatus(error.value(), "cannot open"));
}

fs::path in(const fs::path& directory, absl::string_view name) {
  return directory / std::string(name);
}

bool has_entry(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

// Names of the entries that end in one of `endings`, sorted.
template <std::size_t N>
std::vector<std::string> names_ending(
    const fs::path& directory, const std::array<const char*, N>& endings) {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (std::any_of(endings.begin(), endings.end(),
                    [&name](const char* ending) {
                      return absl::EndsWith(name, ending);
                    })) {
      out.push_back(name);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string list(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 4;
  std::vector<std::string> shown;
  for (const std::string& name : names) {
    if (shown.size() == kShown) break;
    shown.push_back(printable(name));
  }
  const std::size_t more = names.size() - shown.size();
  return absl::StrCat(absl::StrJoin(shown, ", "),
                      more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

}  // namespace

absl::StatusOr<ModelDirectory> ModelDirectory::open(const fs::path& dir) {
  std::error_code error;
  fs::path real = fs::canonical(dir, error);
  if (error) return system_refused(dir, error);
  if (!fs::is_directory(real, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat(printable_path(dir),
                     " is not a directory; pass the one that holds the model"));
  }
  // Without these every file would look missing.
  if (::access(real.c_str(), R_OK | X_OK) != 0) {
    return system_refused(dir, {errno, std::generic_category()});
  }
  return ModelDirectory(std::move(real));
}

bool ModelDirectory::has(absl::string_view name) const {
  return has_entry(in(path_, name));
}

// Whether `real`, a path without links, is in here or is a blob of the hub
// cache whose snapshot this is: REPO/snapshots/REVISION beside REPO/blobs.
bool ModelDirectory::holds(const fs::path& real) const {
  const auto [ours, theirs] =
      std::mismatch(path_.begin(), path_.end(), real.begin(), real.end());
  if (ours == path_.end() && theirs != real.end()) return true;
  const fs::path snapshots = path_.parent_path();
  if (snapshots.filename() != "snapshots") return false;
  std::error_code error;
  const fs::path blobs =
      fs::canonical(snapshots.parent_path() / "blobs", error);
  return !error && real.parent_path() == blobs;
}

absl::StatusOr<fs::path> ModelDirectory::locate(absl::string_view name) const {
  fs::path path = in(path_, name);
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error == std::errc::no_such_file_or_directory && has_entry(path)) {
    return absl::NotFoundError(
        absl::StrCat(printable_path(path), ": its link leads to nothing"));
  }
  if (error) return system_refused(path, error);
  if (holds(real)) return path;
  return absl::InvalidArgumentError(absl::StrCat(
      printable_path(path), ": its link leads out of the directory, to ",
      printable_path(real), "; pass the directory that holds the file itself"));
}

std::string ModelDirectory::unfinished_download(absl::string_view name) const {
  const fs::path path = in(path_, name);
  for (const char* ending : kUnfinished) {
    if (has_entry(path.native() + ending)) {
      return absl::StrCat("; unfinished download: ", printable(name), ending);
    }
  }
  // The hub's client keeps them apart: beside the blobs of its cache, or in a
  // directory of its own under the one it downloads to.
  const fs::path cache = path_.parent_path().parent_path() / "blobs";
  for (const fs::path& kept :
       {path_ / ".cache" / "huggingface" / "download", cache}) {
    if (kept == cache && path_.parent_path().filename() != "snapshots")
      continue;
    const auto names = names_ending(kept, std::array{".incomplete"});
    if (names.empty()) continue;
    return absl::StrCat("; unfinished downloads in ", printable_path(kept),
                        ": ", list(names));
  }
  return "";
}

absl::Status ModelDirectory::no_weights() const {
  std::string message =
      absl::StrCat("no model.safetensors or model.safetensors.index.json in ",
                   printable_path(path_));
  const auto others = names_ending(path_, kOtherWeights);
  if (!others.empty()) {
    absl::StrAppend(&message, "; this format is not read: ", list(others));
  }
  const auto unindexed = names_ending(path_, std::array{".safetensors"});
  if (!unindexed.empty()) {
    absl::StrAppend(&message, "; no index names ", list(unindexed));
  }
  absl::StrAppend(&message, unfinished_download("model.safetensors"));
  return absl::NotFoundError(message);
}

}  // namespace trnscout
