#pragma once

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace trnscout {

/// The directory of one model, links resolved, and the rule for its files.
class ModelDirectory {
 public:
  /// Errors: NotFound - `dir` does not exist.
  ///         InvalidArgument - it is no directory.
  ///         What errno stands for - the system refuses.
  static absl::StatusOr<ModelDirectory> open(const std::filesystem::path& dir);

  const std::filesystem::path& path() const { return path_; }

  /// Says whether the directory has an entry `name`, be it a dangling link.
  bool has(absl::string_view name) const;

  /// Gives the path of the file `name` once it is sure that its links stay in
  /// the directory or, in a hub cache, lead into the repository's `blobs`.
  ///
  /// Errors: NotFound - there is no such entry, or its link leads to nothing.
  ///         InvalidArgument - the link leads out of the directory.
  ///         What errno stands for - the system refuses.
  absl::StatusOr<std::filesystem::path> locate(absl::string_view name) const;

  /// Names the traces of a download of `name` that did not end, as the end of
  /// a message; empty where there are none.
  std::string unfinished_download(absl::string_view name) const;

  /// Says that no weights are here, and what is here in their place.
  absl::Status no_weights() const;

 private:
  explicit ModelDirectory(std::filesystem::path path)
      : path_(std::move(path)) {}

  bool holds(const std::filesystem::path& real) const;

  std::filesystem::path path_;
};

}  // namespace trnscout
