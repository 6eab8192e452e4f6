#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "mutation.h"

namespace trnscout {

/// Changes one value, key, member or item of a JSON text, or adds one; `other`
/// is a JSON text to take pieces from. What is no JSON stays so.
void mutate_json(std::string& text, absl::string_view other, Random& random);

}  // namespace trnscout
