#include "json_mutation.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace trnscout {
namespace {

enum class SpanKind : std::uint8_t { kScalar, kArray, kObject, kKey };

// Where a value or a key stands in a text. Of a member's value, `member` is
// where the key begins; of an item, where the item itself does.
struct Span {
  SpanKind kind = SpanKind::kScalar;
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t member = 0;

  absl::string_view of(absl::string_view text) const {
    return text.substr(begin, end - begin);
  }
};

// Finds the spans of a text. Takes what is not JSON as it comes: a scalar is
// all up to the next sign.
class Scanner {
 public:
  explicit Scanner(absl::string_view text) : text_(text) {}

  std::vector<Span> spans() {
    constexpr std::size_t kMost = 4096;
    while (at_ < text_.size() && out_.size() < kMost) step();
    return std::move(out_);
  }

 private:
  void step() {
    constexpr absl::string_view kSigns = " \t\r\n,:[]{}\"";
    const char c = text_[at_];
    if (c == '{' || c == '[') {
      open_.push_back(out_.size());
      add(c == '{' ? SpanKind::kObject : SpanKind::kArray, at_, text_.size());
      ++at_;
    } else if ((c == '}' || c == ']') && !open_.empty()) {
      out_[open_.back()].end = ++at_;
      open_.pop_back();
    } else if (c == '"') {
      string();
    } else if (kSigns.find(c) != absl::string_view::npos) {
      ++at_;
    } else {
      const std::size_t begin = at_;
      at_ = std::min(text_.find_first_of(kSigns, at_), text_.size());
      add(SpanKind::kScalar, begin, at_);
    }
  }

  void string() {
    const std::size_t begin = at_++;
    while (at_ < text_.size() && text_[at_] != '"') {
      at_ += text_[at_] == '\\' ? 2 : 1;
    }
    at_ = std::min(at_ + 1, text_.size());
    const std::size_t next = text_.find_first_not_of(" \t\r\n", at_);
    const bool key = next != absl::string_view::npos && text_[next] == ':';
    if (!key) return add(SpanKind::kScalar, begin, at_);
    out_.push_back({SpanKind::kKey, begin, at_, begin});
    key_ = begin;
    has_key_ = true;
  }

  void add(SpanKind kind, std::size_t begin, std::size_t end) {
    out_.push_back({kind, begin, end, has_key_ ? key_ : begin});
    has_key_ = false;
  }

  absl::string_view text_;
  std::size_t at_ = 0;
  std::size_t key_ = 0;
  bool has_key_ = false;
  std::vector<std::size_t> open_;
  std::vector<Span> out_;
};

std::string deep(Random& random) {
  const std::size_t depth = std::size_t{1} << random.below(12);
  const bool objects = random.one_in(2);
  std::string out;
  for (std::size_t i = 0; i < depth; ++i) out += objects ? "{\"a\":" : "[";
  out += "1";
  return out + std::string(depth, objects ? '}' : ']');
}

// Values that readers like to get wrong.
constexpr const char* kTraps[] = {"0",
                                  "-1",
                                  "-0",
                                  "1",
                                  "8",
                                  "2.0",
                                  "0.5",
                                  "1e308",
                                  "1e400",
                                  "-1e308",
                                  "1e2",
                                  "NaN",
                                  "Infinity",
                                  "-Infinity",
                                  "null",
                                  "true",
                                  "false",
                                  "\"\"",
                                  "\"8\"",
                                  "[]",
                                  "{}",
                                  "[1,2,3]",
                                  "[null]",
                                  "{\"a\":{}}",
                                  "\"\\u0000\"",
                                  "nan",
                                  "[0]",
                                  "{\"0\":{}}",
                                  "\"\\ud800\"",
                                  "+1",
                                  "01",
                                  "\"\\u007f\"",
                                  "\"\xff\"",
                                  "\"\xc3\xa9\"",
                                  "\"..\"",
                                  "2147483648",
                                  "9223372036854775807",
                                  "9223372036854775808",
                                  "18446744073709551615",
                                  "18446744073709551616",
                                  "100000",
                                  "100001"};

std::string trap_value(Random& random) {
  if (random.one_in(3)) return absl::StrCat(trap_number(random));
  if (random.one_in(24)) return deep(random);
  if (random.one_in(24)) {
    return absl::StrCat("\"", std::string(random.below(5000), 'a'), "\"");
  }
  return random.of(kTraps);
}

// A number a little off, so that much stays acceptable.
std::string nudged(absl::string_view number, Random& random) {
  std::int64_t value = 0;
  if (!absl::SimpleAtoi(number, &value)) return trap_value(random);
  const auto bits = static_cast<std::uint64_t>(value);
  const std::uint64_t changed[] = {bits + 1, bits - 1,    bits * 2, bits / 2,
                                   bits * 4, bits * 1024, 0 - bits, bits / 3};
  return absl::StrCat(static_cast<std::int64_t>(random.of(changed)));
}

const Span* pick(const std::vector<Span>& spans, bool key, Random& random) {
  constexpr int kTries = 16;
  for (int i = 0; i < kTries && !spans.empty(); ++i) {
    const Span& span = random.of(spans);
    if ((span.kind == SpanKind::kKey) == key) return &span;
  }
  return nullptr;
}

// Takes a member or item out, with a comma beside it.
void drop(std::string& text, const Span& span) {
  std::size_t begin = span.member;
  std::size_t end = span.end;
  if (end < text.size() && text[end] == ',') {
    ++end;
  } else if (begin > 0 && text[begin - 1] == ',') {
    --begin;
  }
  text.erase(begin, end - begin);
}

// Puts a member or item of `from` before one of `text`.
void add_before(std::string& text, const Span& span, absl::string_view from,
                const Span& added) {
  text.insert(
      span.member,
      absl::StrCat(from.substr(added.member, added.end - added.member), ","));
}

void replace(std::string& text, const Span& span, absl::string_view with) {
  text.replace(span.begin, span.end - span.begin,
               std::string(with.data(), with.size()));
}

}  // namespace

void mutate_json(std::string& text, absl::string_view other, Random& random) {
  const std::vector<Span> spans = Scanner(text).spans();
  const std::string source(random.one_in(2) ? absl::string_view(text) : other);
  const std::vector<Span> others = Scanner(source).spans();
  const bool keys = random.one_in(6);
  const Span* const span = pick(spans, keys, random);
  const Span* const from = pick(others, keys, random);
  if (span == nullptr || from == nullptr) {
    return mutate_bytes(text, other, random);
  }
  if (keys) return replace(text, *span, from->of(source));
  switch (random.below(7)) {
    case 0:
    case 1:
      return replace(text, *span, trap_value(random));
    case 2:
    case 3:
      return replace(text, *span, nudged(span->of(text), random));
    case 4:
      return drop(text, *span);
    case 5:
      return add_before(text, *span, source, *from);
    default:
      return replace(text, *span, from->of(source));
  }
}

}  // namespace trnscout
