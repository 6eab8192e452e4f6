#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace trnscout {

enum class JsonKind : std::uint8_t {
  kNull,
  kBoolean,
  kWhole,   ///< not negative, below 2^64, spelled without fraction or exponent
  kNumber,  ///< any other number
  kString,
};

/// One value that is neither object nor array.
struct JsonValue {
  JsonKind kind = JsonKind::kNull;
  std::uint64_t whole = 0;  ///< where `kind` is kWhole
  std::string text;  ///< a string's content; else the value as it is spelled
};

/// Spells a value for a message.
std::string printable(const JsonValue& value);

/// Gets the pieces of a JSON text in the order in which they stand, duplicate
/// keys included. A status that is not OK ends the reading and is its result.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual absl::Status begin_object() = 0;
  virtual absl::Status end_object() = 0;
  virtual absl::Status begin_array() = 0;
  virtual absl::Status end_array() = 0;
  virtual absl::Status key(std::string name) = 0;
  virtual absl::Status value(JsonValue value) = 0;
};

/// Reads one JSON text, as RFC 8259 has it: UTF-8, no byte order mark.
///
/// Errors: InvalidArgument - the text is not JSON; the message has the place.
///         Any - what `events` returned.
/// Cost:   no recursion, whatever the depth.
absl::Status read_json(absl::string_view text, JsonEvents& events);

}  // namespace trnscout
