#include "json_events.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "printable.h"

namespace trnscout {
namespace {

// The parser's own sentence, without its name and its numbering of errors.
absl::string_view without_tag(absl::string_view what) {
  const std::size_t tag = what.find("] ");
  return tag == absl::string_view::npos ? what : what.substr(tag + 2);
}

class Adapter final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Adapter(JsonEvents& events) : events_(events) {}

  absl::Status status() const { return status_; }

  bool null() override { return value({JsonKind::kNull, 0, "null"}); }
  bool boolean(bool value_read) override {
    return value({JsonKind::kBoolean, 0, value_read ? "true" : "false"});
  }
  // Called for numbers that begin with a minus, "-0" among them.
  bool number_integer(std::int64_t number) override {
    return value({JsonKind::kNumber, 0,
                  number == 0 ? std::string("-0") : absl::StrCat(number)});
  }
  bool number_unsigned(std::uint64_t number) override {
    return value({JsonKind::kWhole, number, absl::StrCat(number)});
  }
  bool number_float(double, const std::string& spelled) override {
    return value({JsonKind::kNumber, 0, spelled});
  }
  bool string(std::string& text) override {
    return value({JsonKind::kString, 0, std::move(text)});
  }
  bool binary(nlohmann::json::binary_t&) override {
    return keep(absl::InternalError("a JSON text has no binary values"));
  }
  bool start_object(std::size_t) override {
    return keep(events_.begin_object());
  }
  bool key(std::string& name) override {
    return keep(events_.key(std::move(name)));
  }
  bool end_object() override { return keep(events_.end_object()); }
  bool start_array(std::size_t) override { return keep(events_.begin_array()); }
  bool end_array() override { return keep(events_.end_array()); }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::json::exception& error) override {
    return keep(absl::InvalidArgumentError(
        absl::StrCat("not JSON: ", printable(without_tag(error.what())))));
  }

 private:
  bool value(JsonValue value_read) {
    return keep(events_.value(std::move(value_read)));
  }
  bool keep(absl::Status status) {
    status_ = std::move(status);
    return status_.ok();
  }

  JsonEvents& events_;
  absl::Status status_;
};

}  // namespace

std::string printable(const JsonValue& value) {
  if (value.kind != JsonKind::kString) return printable(value.text);
  return value.text.empty() ? "\"\""
                            : absl::StrCat("\"", printable(value.text), "\"");
}

absl::Status read_json(absl::string_view text, JsonEvents& events) {
  // The parser takes a NUL for the end of the text and skips a byte order mark.
  const std::size_t nul = text.find('\0');
  if (nul != absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("not JSON: byte ", nul, " is NUL"));
  }
  if (absl::StartsWith(text, "\xEF\xBB\xBF")) {
    return absl::InvalidArgumentError(
        "not JSON: it begins with a byte order mark");
  }
  Adapter adapter(events);
  nlohmann::json::sax_parse(text.begin(), text.end(), &adapter);
  return adapter.status();
}

}  // namespace trnscout
