// Patterns and the names that they meet. An input is a pattern, a line break
// and a name.

#include <algorithm>
#include <regex>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "fuzz_target.h"
#include "name_pattern.h"
#include "outcome.h"

namespace trnscout {
namespace {

// Time is a power of the name's length, one for each repeat. The patterns that
// are used come from a table and have few; those of an input are kept short.
constexpr std::size_t kMaxRegexBytes = 40;
constexpr std::size_t kMaxRepeats = 4;
constexpr std::size_t kMaxNameBytes = 60;

std::size_t repeats(absl::string_view regex) {
  return static_cast<std::size_t>(std::count(regex.begin(), regex.end(), '*') +
                                  std::count(regex.begin(), regex.end(), '+'));
}

void check_match(const NameMatch& match, absl::string_view name) {
  require(match.begin <= match.end && match.end <= name.size(),
          "the match lies in the name");
  for (const absl::string_view group : match.groups) {
    require(group.data() == nullptr ||
                (group.data() >= name.data() &&
                 group.data() + group.size() <= name.data() + name.size()),
            "a group lies in the name");
  }
}

// The standard library's engine knows no looks behind, lets `^` meet the place
// where a look ahead begins, and takes other bytes for ends of lines. Python's,
// which the patterns are written for, is as ours there.
bool has_authority(absl::string_view regex, absl::string_view name) {
  const auto plain = [](char c) {
    return absl::ascii_isprint(static_cast<unsigned char>(c));
  };
  const bool looks =
      absl::StrContains(regex, "(?=") || absl::StrContains(regex, "(?!");
  return !absl::StrContains(regex, "(?<") &&
         !(looks && regex.find('^', 1) != absl::string_view::npos) &&
         std::all_of(regex.begin(), regex.end(), plain) &&
         std::all_of(name.begin(), name.end(), plain);
}

void compare(const std::string& regex, const std::string& name,
             const std::optional<NameMatch>& match) {
  std::smatch expected;
  bool found = false;
  try {
    found = std::regex_search(name, expected, std::regex(regex));
  } catch (const std::regex_error&) {
    return;  // a spelling that only one of the two takes, as a lone `]`
  }
  require(found == match.has_value(),
          absl::StrCat("the standard library agrees on ", regex));
  if (!found) return;
  require(static_cast<std::size_t>(expected.position()) == match->begin &&
              static_cast<std::size_t>(expected.position() +
                                       expected.length()) == match->end,
          absl::StrCat("the standard library finds the place of ", regex));
}

}  // namespace

std::vector<std::string> seed_inputs() {
  return {
      "experts.*\\.w1\nexperts.1.w1.w1.w2",
      "(a|ab|abc)c?\nabc",
      "layers\\.\\d+$\nlayers.1.layers.23",
      "conv[123]x\nconv4x.conv2x",
      "(?:ab)?c\nabc",
      "^(a|b)\\.(\\d+)\\.(c)?(.+)\nb.12.rest",
      "^model(?!\\.(visual|text))\nmodel.layers",
      "weight(?!\\w)\nweight_scale.weight",
      "(?<!_)(?<!\\w)norm\\.\nq_norm.norm.x",
      "^model\\.(?:(?!model\\.))(.+)\nmodel.model.x",
      "a(?=b)\nacab",
      "a.*a\\.?b\naaaa.b",
      "mlp.experts.\\d+.(gate|up)_proj\nmodel.layers.0.mlp.experts.3.up_proj",
      "\nname",
      "x(?<=ax)\naxbx",
  };
}

std::string mutated(std::string input, absl::string_view other,
                    Random& random) {
  constexpr const char* kPieces[] = {
      "(",   ")",    "|",    "?",    "*",     "+",  ".",     "\\.", "\\d",
      "\\w", "^",    "$",    "[ab]", "(?:",   "a",  "b",     "1",   "(?!",
      "(?=", "(?<!", "(?<=", "a*",   "(a|b)", "?)", "(?:a)?"};
  if (random.one_in(3)) {
    mutate_bytes(input, other, random);
    return input;
  }
  input.insert(random.below(input.size() + 1), random.of(kPieces));
  return input;
}

}  // namespace trnscout

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace trnscout;
  const absl::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(input.find('\n'), input.size());
  const std::string regex(input.substr(0, std::min(end, kMaxRegexBytes)));
  const std::string name(
      input.substr(std::min(end + 1, input.size())).substr(0, kMaxNameBytes));
  const auto pattern = NamePattern::compile(regex);
  if (!pattern.ok()) {
    note_refused(pattern.status(), {absl::StatusCode::kInvalidArgument});
    return 0;
  }
  if (repeats(regex) > kMaxRepeats) {
    note_accepted("many repeats");
    return 0;
  }
  const auto match = pattern->search(name);
  if (match.has_value()) check_match(*match, name);
  if (has_authority(regex, name)) compare(regex, name, match);
  note_accepted(match.has_value() ? absl::StrCat("met ", match->groups.size())
                                  : "not met");
  return 0;
}
