#include "name_pattern.h"

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "printable.h"

namespace trnscout {

// Recursive descent over the expression; emits code for a backtracking run.
class NamePatternCompiler {
 public:
  explicit NamePatternCompiler(absl::string_view regex) : regex_(regex) {}

  absl::StatusOr<NamePattern> compile() {
    if (absl::Status status = alternatives(0); !status.ok()) return status;
    if (at_ != regex_.size()) return refuse("a closing bracket too many");
    emit({.op = Op::kMatch});
    end_literal();
    out_.literal_ = std::move(longest_);
    return std::move(out_);
  }

 private:
  using Op = NamePattern::Op;
  using Instruction = NamePattern::Instruction;

  static constexpr int kMaxDepth = 16;

  bool more() const { return at_ < regex_.size(); }
  bool take(absl::string_view text) {
    if (regex_.substr(at_, text.size()) != text) return false;
    at_ += text.size();
    return true;
  }
  std::size_t emit(Instruction step) {
    out_.program_.push_back(std::move(step));
    return out_.program_.size() - 1;
  }
  Instruction& code(std::size_t pc) { return out_.program_[pc]; }
  std::size_t here() const { return out_.program_.size(); }

  absl::Status refuse(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("pattern ", printable(regex_), ": ", what));
  }

  // Only what stands outside brackets is sure to be in a match.
  void end_literal() {
    if (current_.size() > longest_.size()) longest_ = current_;
    current_.clear();
  }

  absl::Status alternatives(int depth) {
    if (depth > kMaxDepth) return refuse("nested too deep");
    std::vector<std::size_t> jumps;
    while (true) {
      const std::size_t branch = here();
      if (absl::Status status = sequence(depth); !status.ok()) return status;
      if (!take("|")) break;
      if (depth == 0) return refuse("an alternative outside a group");
      insert(branch, {.op = Op::kSplit});
      jumps.push_back(emit({.op = Op::kJump}));
      code(branch).x = branch + 1;
      code(branch).y = here();
    }
    for (const std::size_t jump : jumps) code(jump).x = here();
    return absl::OkStatus();
  }

  // Makes room at `pc`; code behind it was emitted last and moves along.
  void insert(std::size_t pc, Instruction step) {
    out_.program_.insert(
        out_.program_.begin() + static_cast<std::ptrdiff_t>(pc),
        std::move(step));
    for (std::size_t i = pc + 1; i < here(); ++i) {
      Instruction& moved = code(i);
      const bool jumps = moved.op == Op::kSplit || moved.op == Op::kJump ||
                         moved.op == Op::kLook;
      if (jumps && moved.x >= pc) ++moved.x;
      if (moved.op == Op::kSplit && moved.y >= pc) ++moved.y;
    }
  }

  absl::Status sequence(int depth) {
    while (more() && regex_[at_] != '|' && regex_[at_] != ')') {
      const std::size_t begin = here();
      if (absl::Status status = atom(depth); !status.ok()) return status;
      if (absl::Status status = repeat(begin); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status repeat(std::size_t begin) {
    if (!more()) return absl::OkStatus();
    const char sign = regex_[at_];
    if (sign != '*' && sign != '+' && sign != '?') return absl::OkStatus();
    ++at_;
    if (!current_.empty()) current_.pop_back();  // the repeated character
    end_literal();
    const Op op = here() == begin + 1 ? code(begin).op : Op::kMatch;
    if (op == Op::kBegin || op == Op::kEnd) {
      return refuse("a repeat of nothing");
    }
    // A loop over what can be empty would never end.
    if (sign != '?' && here() != begin + 1) {
      return refuse("a repeat of more than one letter");
    }
    if (more() && (regex_[at_] == '?' || regex_[at_] == '+')) {
      return refuse("a repeat that is not greedy");
    }
    if (sign == '+') {
      emit({.op = Op::kSplit, .x = begin, .y = here() + 1});
      return absl::OkStatus();
    }
    insert(begin, {.op = Op::kSplit});
    if (sign == '*') emit({.op = Op::kJump, .x = begin});
    code(begin).x = begin + 1;
    code(begin).y = here();
    return absl::OkStatus();
  }

  absl::Status atom(int depth) {
    const char c = regex_[at_++];
    if (c == '(') return group(depth);
    if (c == '[') return set();
    if (c == '\\') return escape();
    if (c == '*' || c == '+' || c == '?' || c == '{') {
      return refuse("a repeat of nothing");
    }
    if (c == '.' || c == '^' || c == '$') {
      end_literal();
      emit({.op = c == '.' ? Op::kAny : c == '^' ? Op::kBegin : Op::kEnd});
      return absl::OkStatus();
    }
    literal(c);
    return absl::OkStatus();
  }

  void literal(char c) {
    emit({.op = Op::kChar, .literal = c});
    if (open_ == 0) current_.push_back(c);
  }

  void emit_set(NamePattern::Set set) {
    out_.sets_.push_back(set);
    emit({.op = Op::kSet, .x = out_.sets_.size() - 1});
  }

  absl::Status escape() {
    if (!more()) return refuse("a backslash at the end");
    const char c = regex_[at_++];
    if (absl::ascii_ispunct(static_cast<unsigned char>(c))) {
      literal(c);
      return absl::OkStatus();
    }
    if (c != 'd' && c != 'w') return refuse("an unknown escape");
    end_literal();
    NamePattern::Set set{};
    for (std::size_t i = 0; i < set.size(); ++i) {
      const auto byte = static_cast<unsigned char>(i);
      set[i] = c == 'd' ? absl::ascii_isdigit(byte)
                        : absl::ascii_isalnum(byte) || byte == '_';
    }
    emit_set(set);
    return absl::OkStatus();
  }

  absl::Status set() {
    end_literal();
    NamePattern::Set set{};
    while (more() && regex_[at_] != ']') {
      const char c = regex_[at_++];
      if (c == '^' || c == '-' || c == '\\' || c == '[') {
        return refuse("a class of more than letters");
      }
      set[static_cast<unsigned char>(c)] = true;
    }
    if (!take("]")) return refuse("a class without its end");
    emit_set(set);
    return absl::OkStatus();
  }

  absl::Status group(int depth) {
    end_literal();
    ++open_;
    absl::Status status;
    if (take("?!")) {
      status = look(depth, /*negative=*/true, /*behind=*/false);
    } else if (take("?=")) {
      status = look(depth, /*negative=*/false, /*behind=*/false);
    } else if (take("?<!")) {
      status = look(depth, /*negative=*/true, /*behind=*/true);
    } else if (take("?<=")) {
      status = look(depth, /*negative=*/false, /*behind=*/true);
    } else if (take("?:")) {
      status = alternatives(depth + 1);
    } else if (take("?")) {
      status = refuse("an unknown kind of group");
    } else {
      const std::size_t index = ++out_.group_count_;
      emit({.op = Op::kSave, .x = 2 * index});
      status = alternatives(depth + 1);
      emit({.op = Op::kSave, .x = 2 * index + 1});
    }
    --open_;
    if (status.ok() && !take(")")) status = refuse("a group without its end");
    return status;
  }

  absl::Status look(int depth, bool negative, bool behind) {
    const std::size_t begin = emit({.op = Op::kLook, .negative = negative});
    absl::Status status = alternatives(depth + 1);
    if (!status.ok()) return status;
    std::size_t width = 0;
    for (std::size_t pc = begin + 1; behind && pc < here(); ++pc) {
      const Op op = code(pc).op;
      if (op == Op::kSplit || op == Op::kJump || op == Op::kLook) {
        return refuse("a look behind of no one length");
      }
      if (op == Op::kChar || op == Op::kAny || op == Op::kSet) ++width;
    }
    emit({.op = Op::kMatch});
    code(begin).x = here();
    code(begin).y = width;
    return absl::OkStatus();
  }

  absl::string_view regex_;
  std::size_t at_ = 0;
  int open_ = 0;
  std::string current_;
  std::string longest_;
  NamePattern out_;
};

struct NamePattern::Run {
  absl::string_view name;
  std::vector<std::size_t> saves;
  std::size_t end = 0;
};

absl::StatusOr<NamePattern> NamePattern::compile(absl::string_view regex) {
  return NamePatternCompiler(regex).compile();
}

absl::StatusOr<const NamePattern*> NamePattern::shared(
    absl::string_view regex) {
  struct Cache {
    absl::Mutex mutex;
    absl::node_hash_map<absl::string_view, absl::StatusOr<NamePattern>> made
        ABSL_GUARDED_BY(mutex);
  };
  static Cache& cache = *new Cache;  // never torn down under a running thread
  const absl::MutexLock lock(&cache.mutex);
  const auto [found, is_new] = cache.made.try_emplace(regex);
  if (is_new) found->second = compile(regex);
  if (!found->second.ok()) return found->second.status();
  return &*found->second;
}

bool NamePattern::tells_digits() const {
  const auto digits = [](const Set& set) {
    return std::count(set.begin() + '0', set.begin() + '9' + 1, true);
  };
  return std::any_of(
      program_.begin(), program_.end(), [&](const Instruction& step) {
        if (step.op == Op::kChar) {
          return absl::ascii_isdigit(static_cast<unsigned char>(step.literal));
        }
        return step.op == Op::kSet && digits(sets_[step.x]) % 10 != 0;
      });
}

bool NamePattern::consume(const Instruction& step, std::size_t at,
                          const Run& state) const {
  if (at >= state.name.size()) return false;
  const char c = state.name[at];
  if (step.op == Op::kChar) return c == step.literal;
  if (step.op == Op::kAny) return c != '\n';
  return sets_[step.x][static_cast<unsigned char>(c)];
}

bool NamePattern::look(std::size_t pc, std::size_t at, Run& state) const {
  const Instruction& step = program_[pc];
  if (at < step.y) return step.negative;
  Run inner{state.name, state.saves, 0};
  return run(pc + 1, at - step.y, inner) != step.negative;
}

bool NamePattern::run(std::size_t pc, std::size_t at, Run& state) const {
  while (true) {
    const Instruction& step = program_[pc];
    switch (step.op) {
      case Op::kChar:
      case Op::kAny:
      case Op::kSet:
        if (!consume(step, at, state)) return false;
        ++at, ++pc;
        break;
      case Op::kBegin:
        if (at != 0) return false;
        ++pc;
        break;
      case Op::kEnd:
        if (at != state.name.size()) return false;
        ++pc;
        break;
      case Op::kSave: {
        const std::size_t before = std::exchange(state.saves[step.x], at);
        if (run(pc + 1, at, state)) return true;
        state.saves[step.x] = before;
        return false;
      }
      case Op::kSplit:
        if (run(step.x, at, state)) return true;
        pc = step.y;
        break;
      case Op::kJump:
        pc = step.x;
        break;
      case Op::kLook:
        if (!look(pc, at, state)) return false;
        pc = step.x;
        break;
      case Op::kMatch:
        state.end = at;
        return true;
    }
  }
}

std::optional<NameMatch> NamePattern::search(absl::string_view name) const {
  constexpr std::size_t kUnset = absl::string_view::npos;
  if (name.size() > kMaxNameBytes) return std::nullopt;
  if (name.find(literal_) == absl::string_view::npos) return std::nullopt;
  Run state{name, std::vector<std::size_t>(2 * group_count_ + 2, kUnset), 0};
  const Instruction& first = program_.front();
  for (std::size_t begin = 0; begin <= name.size(); ++begin) {
    if (first.op == Op::kChar) {
      begin = name.find(first.literal, begin);
      if (begin == absl::string_view::npos) break;
    }
    // A run that fails leaves no saves behind.
    if (!run(0, begin, state)) {
      if (first.op == Op::kBegin) break;
      continue;
    }
    NameMatch match{begin, state.end, {}};
    for (std::size_t i = 1; i <= group_count_; ++i) {
      const std::size_t from = state.saves[2 * i];
      const std::size_t to = state.saves[2 * i + 1];
      match.groups.push_back(to == kUnset ? absl::string_view()
                                          : name.substr(from, to - from));
    }
    return match;
  }
  return std::nullopt;
}

}  // namespace trnscout
