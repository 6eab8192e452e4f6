#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "mutation.h"

// What each fuzz target defines, and fuzz_main.cc runs.

/// The entry that libFuzzer and its kin call as well. Ends the process where a
/// promise is broken.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size);

namespace trnscout {

/// Inputs to begin with; most of them are accepted.
std::vector<std::string> seed_inputs();

/// Changes an input, by its own structure most of the time. `other` is another
/// input to take pieces from.
std::string mutated(std::string input, absl::string_view other, Random& random);

}  // namespace trnscout
