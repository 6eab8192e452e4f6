#pragma once

#include "absl/strings/string_view.h"

namespace trnscout {

/// Says whether `text` is UTF-8 as RFC 3629 has it: shortest forms only, no
/// surrogates, nothing past U+10FFFF.
bool is_utf8(absl::string_view text);

}  // namespace trnscout
