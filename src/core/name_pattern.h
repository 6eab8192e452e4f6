#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace trnscout {

/// Where a pattern met a name, and what its groups held.
struct NameMatch {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::vector<absl::string_view> groups;  ///< from 1 on; empty where unused
};

/// A regular expression of the kind that Transformers' conversion mappings use.
///
/// Knows literals, `.`, `\.`, `\d`, `\w`, `[abc]`, `|`, groups, `*`, `+`, `?`,
/// `^`, `$` and looks ahead and behind, the last of one length; no references
/// back, no classes with ranges. Follows Python's `re`: leftmost match, first
/// alternative, greedy.
class NamePattern {
 public:
  /// Longest name that is searched: bounds both time and depth of the search.
  static constexpr std::size_t kMaxNameBytes = 1000;

  /// Errors: InvalidArgument - a piece of `regex` is outside what is known.
  static absl::StatusOr<NamePattern> compile(absl::string_view regex);

  /// Compiles once in the life of the program; `regex` must live as long.
  ///
  /// Errors:  any of `compile`.
  /// Threads: any.
  static absl::StatusOr<const NamePattern*> shared(absl::string_view regex);

  /// Says whether some digits match where others would not.
  bool tells_digits() const;

  /// Finds the leftmost match, or nothing; nothing too in a name over the
  /// limit. The groups view `name`.
  ///
  /// Cost: O(name) for literals; a power of it for nested repeats.
  std::optional<NameMatch> search(absl::string_view name) const;

 private:
  friend class NamePatternCompiler;

  enum class Op : std::uint8_t {
    kChar,
    kAny,
    kSet,
    kBegin,
    kEnd,
    kSave,
    kSplit,  // tries `x`, then `y`
    kJump,
    kLook,  // runs what follows up to its kMatch; goes on at `x`
    kMatch,
  };
  struct Instruction {
    Op op = Op::kMatch;
    char literal = '\0';
    bool negative = false;
    std::size_t x = 0;  // of kSet: index into `sets_`
    std::size_t y = 0;  // of kLook: bytes to step back
  };
  using Set = std::array<bool, 256>;
  struct Run;

  bool run(std::size_t pc, std::size_t at, Run& state) const;
  bool consume(const Instruction& step, std::size_t at, const Run& state) const;
  bool look(std::size_t pc, std::size_t at, Run& state) const;

  std::vector<Instruction> program_;
  std::vector<Set> sets_;
  std::string literal_;  // every match holds it
  std::size_t group_count_ = 0;
};

}  // namespace trnscout
