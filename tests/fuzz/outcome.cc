#include "outcome.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace trnscout {
namespace {

constexpr std::size_t kMaxMessageBytes = 4096;

Outcomes& counts() {
  static Outcomes out;
  return out;
}

// The last part of a message, which says what is wrong, without numbers.
std::string form_of(const absl::Status& status) {
  constexpr std::size_t kKept = 60;
  std::string out = absl::StrCat(status.code(), " ");
  const std::size_t colon = status.message().rfind(": ");
  for (const char c :
       status.message().substr(colon == absl::string_view::npos ? 0 : colon)) {
    if (out.size() == kKept) break;
    if (absl::ascii_islower(static_cast<unsigned char>(c))) out.push_back(c);
  }
  return out;
}

// Says whether the JSON library would write the text, which it does not where
// the text is no UTF-8.
bool is_unicode(absl::string_view text) {
  try {
    const nlohmann::json value(std::string(text.data(), text.size()));
    return !value.dump().empty();
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

}  // namespace

const Outcomes& outcomes() { return counts(); }

void require(bool holds, absl::string_view promise) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %.*s\n",
               static_cast<int>(promise.size()), promise.data());
  std::abort();
}

void check_message(absl::string_view text) {
  require(!text.empty(), "a message says something");
  require(text.size() <= kMaxMessageBytes,
          absl::StrCat("a message of ", text.size(), " bytes is too long: ",
                       text.substr(0, kMaxMessageBytes)));
  require(is_unicode(text), absl::StrCat("a message is UTF-8: ", text));
  require(
      std::none_of(text.begin(), text.end(),
                   [](char c) {
                     return absl::ascii_iscntrl(static_cast<unsigned char>(c));
                   }),
      absl::StrCat("a message has no control characters: ", text));
}

void check_refusal(const absl::Status& status,
                   std::initializer_list<absl::StatusCode> documented) {
  require(std::find(documented.begin(), documented.end(), status.code()) !=
              documented.end(),
          absl::StrCat("the code is documented: ", status.ToString()));
  check_message(status.message());
}

void note_refused(const absl::Status& status,
                  std::initializer_list<absl::StatusCode> documented) {
  check_refusal(status, documented);
  ++counts().refused;
  counts().last_form = form_of(status);
}

void note_accepted(absl::string_view form) {
  ++counts().accepted;
  counts().last_form = absl::StrCat("accepted ", form);
}

}  // namespace trnscout
