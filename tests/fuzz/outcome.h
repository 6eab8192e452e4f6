#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace trnscout {

/// What the inputs so far came to.
struct Outcomes {
  std::int64_t accepted = 0;
  std::int64_t refused = 0;
  /// What the last input's answer looks like; inputs whose answers look alike
  /// most likely took the same way.
  std::string last_form;
};

const Outcomes& outcomes();

/// Counts the input as accepted.
void note_accepted(absl::string_view form);

/// Counts the input as refused and checks how.
void note_refused(const absl::Status& status,
                  std::initializer_list<absl::StatusCode> documented);

/// Requires a code that the function documents and a message fit to be shown:
/// not empty, UTF-8 on one line, a few kilobytes at most.
void check_refusal(const absl::Status& status,
                   std::initializer_list<absl::StatusCode> documented);

/// Requires a text fit to be shown, as above.
void check_message(absl::string_view text);

/// Prints the promise and ends the process unless it holds.
void require(bool holds, absl::string_view promise);

}  // namespace trnscout
