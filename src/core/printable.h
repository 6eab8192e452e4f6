#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace trnscout {

/// Spells text from an untrusted file for a message: plain ASCII on one line,
/// cut after 200 bytes, and `""` where it is empty.
std::string printable(absl::string_view text);

/// Spells a path for a message, in full.
std::string printable_path(const std::filesystem::path& path);

/// Spells a count: "1 tensor", "2 tensors".
std::string counted(std::size_t count, absl::string_view noun);

/// Puts "where: " before the message of a status that is not OK.
absl::Status at(absl::string_view where, const absl::Status& status);

}  // namespace trnscout
