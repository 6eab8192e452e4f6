#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trnscout/checkpoint.h"
#include "trnscout/tensor_view.h"

namespace trnscout {

/// A checkpoint whose weights can be read in place, without a copy.
///
/// The files are mapped read-only and shared: processes that map the same
/// checkpoint share one copy of what they read, the system's own cache. A view
/// is good for as long as this object, or one that it was moved to, lives.
///
/// A file must not be cut while it is mapped: reading past its new end raises
/// SIGBUS, which no library can turn into an error. Replacing a file, which
/// hub clients do, is harmless.
///
/// Threads: any number may read.
class MappedCheckpoint {
 public:
  /// Maps every shard of `checkpoint`.
  ///
  /// Errors: NotFound - a shard is gone.
  ///         InvalidArgument - it is no regular file any more.
  ///         FailedPrecondition - size or time of last change differ from what
  ///         they were when the headers were read; or the checkpoint comes from
  ///         headers alone and has no files.
  ///         What errno stands for - the system refuses to open or map it.
  /// Cost:   a system call or three a shard; reads nothing.
  static absl::StatusOr<MappedCheckpoint> map(Checkpoint checkpoint);

  MappedCheckpoint(MappedCheckpoint&& other) noexcept;
  MappedCheckpoint& operator=(MappedCheckpoint&& other) noexcept;
  ~MappedCheckpoint();

  const Checkpoint& checkpoint() const { return *checkpoint_; }

  /// Gives the bytes of a tensor.
  ///
  /// Errors: NotFound - no tensor has that name.
  /// Cost:   O(log n) comparisons of names.
  absl::StatusOr<TensorView> view(absl::string_view name) const;

  /// Gives the bytes of every tensor, in the order of `Checkpoint::tensors`.
  std::vector<TensorView> views() const;

 private:
  class Files;

  MappedCheckpoint(std::unique_ptr<const Checkpoint> checkpoint,
                   std::unique_ptr<const Files> files);

  TensorView view_of(const TensorInfo& info) const;

  // On the heap, for views point at its tensors.
  std::unique_ptr<const Checkpoint> checkpoint_;
  std::unique_ptr<const Files> files_;
};

}  // namespace trnscout
