#include "header_json.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "json_events.h"
#include "printable.h"

namespace trnscout {
namespace {

constexpr char kMetadataKey[] = "__metadata__";

absl::Status refuse(const TensorInfo& tensor, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", printable(tensor.name), ": ", why));
}

// Collects tensors with ranges relative to the data, as the header has them.
class HeaderEvents final : public JsonEvents {
 public:
  std::vector<TensorInfo> take_tensors() { return std::move(tensors_); }

  absl::Status begin_object() override {
    if (place_ == Place::kOutside) {
      place_ = Place::kHeader;
    } else if (place_ == Place::kHeader && key_ == kMetadataKey) {
      place_ = Place::kMetadata;
    } else if (place_ == Place::kHeader) {
      place_ = Place::kTensor;
      seen_ = {};
      offsets_ = 0;
      tensors_.emplace_back().name = key_;
    } else {
      return unexpected("an object");
    }
    return absl::OkStatus();
  }

  absl::Status end_object() override {
    if (place_ == Place::kHeader) {
      place_ = Place::kOutside;
      return absl::OkStatus();
    }
    const Place ended = std::exchange(place_, Place::kHeader);
    return ended == Place::kTensor ? end_tensor() : end_metadata();
  }

  absl::Status begin_array() override {
    if (place_ != Place::kTensor || field_ == kDtype) {
      return unexpected("an array");
    }
    place_ = field_ == kShape ? Place::kShape : Place::kOffsets;
    return absl::OkStatus();
  }

  absl::Status end_array() override {
    place_ = Place::kTensor;
    return absl::OkStatus();
  }

  absl::Status key(std::string name) override {
    key_ = std::move(name);
    if (place_ == Place::kTensor) return field_key();
    if (place_ == Place::kMetadata) {
      metadata_keys_.push_back(key_);
    } else if (key_ == kMetadataKey && std::exchange(has_metadata_, true)) {
      return absl::InvalidArgumentError("__metadata__ stands twice");
    }
    return absl::OkStatus();
  }

  absl::Status value(JsonValue value) override {
    const bool is_string = value.kind == JsonKind::kString;
    switch (place_) {
      case Place::kMetadata:
        if (is_string) return absl::OkStatus();
        break;
      case Place::kHeader:
        if (key_ == kMetadataKey && value.kind == JsonKind::kNull) {
          return absl::OkStatus();
        }
        break;
      case Place::kTensor:
        if (field_ != kDtype || !is_string) break;
        tensors_.back().dtype = std::move(value.text);
        return absl::OkStatus();
      case Place::kShape:
      case Place::kOffsets:
        return number(value);
      case Place::kOutside:
        break;
    }
    return unexpected(printable(value));
  }

 private:
  enum class Place { kOutside, kHeader, kTensor, kShape, kOffsets, kMetadata };
  enum Field : std::size_t { kDtype, kShape, kOffsets, kFields };
  static constexpr std::array<absl::string_view, kFields> kFieldNames = {
      "dtype", "shape", "data_offsets"};

  absl::Status field_key() {
    const auto* const found =
        std::find(kFieldNames.begin(), kFieldNames.end(), key_);
    if (found == kFieldNames.end()) {
      return refuse(tensors_.back(),
                    absl::StrCat("unknown key ", printable(key_)));
    }
    field_ = static_cast<Field>(found - kFieldNames.begin());
    if (std::exchange(seen_[field_], true)) {
      return refuse(tensors_.back(), absl::StrCat(*found, " stands twice"));
    }
    return absl::OkStatus();
  }

  absl::Status number(const JsonValue& value) {
    TensorInfo& tensor = tensors_.back();
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    if (value.kind != JsonKind::kWhole ||
        value.whole > static_cast<std::uint64_t>(kMost)) {
      return refuse(
          tensor, absl::StrCat(kFieldNames[field_], " holds ", printable(value),
                               ", not a whole number from 0 to ", kMost));
    }
    const auto whole = static_cast<std::int64_t>(value.whole);
    if (place_ == Place::kShape) {
      tensor.shape.push_back(whole);
    } else if (++offsets_ <= 2) {
      (offsets_ == 1 ? tensor.begin_bytes : tensor.end_bytes) = whole;
    }
    return absl::OkStatus();
  }

  absl::Status end_tensor() const {
    for (std::size_t field = 0; field < kFields; ++field) {
      if (seen_[field]) continue;
      return refuse(tensors_.back(),
                    absl::StrCat(kFieldNames[field], " is missing"));
    }
    if (offsets_ != 2) {
      return refuse(tensors_.back(),
                    absl::StrCat("data_offsets holds ",
                                 counted(offsets_, "number"), ", not 2"));
    }
    return absl::OkStatus();
  }

  absl::Status end_metadata() {
    std::sort(metadata_keys_.begin(), metadata_keys_.end());
    const auto twice =
        std::adjacent_find(metadata_keys_.begin(), metadata_keys_.end());
    if (twice == metadata_keys_.end()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("__metadata__: duplicate key ", printable(*twice)));
  }

  absl::Status unexpected(absl::string_view what) const {
    switch (place_) {
      case Place::kOutside:
        return absl::InvalidArgumentError(
            absl::StrCat("header is ", what, ", not an object"));
      case Place::kHeader:
        return absl::InvalidArgumentError(absl::StrCat(
            key_ == kMetadataKey ? std::string(kMetadataKey)
                                 : absl::StrCat("tensor ", printable(key_)),
            " is ", what, ", not an object"));
      case Place::kMetadata:
        return absl::InvalidArgumentError(
            absl::StrCat("__metadata__: key ", printable(key_), " holds ", what,
                         ", not a string"));
      case Place::kTensor:
        return refuse(tensors_.back(),
                      absl::StrCat(kFieldNames[field_], " is ", what,
                                   field_ == kDtype ? ", not a string"
                                                    : ", not an array"));
      case Place::kShape:
      case Place::kOffsets:
        break;
    }
    return refuse(tensors_.back(),
                  absl::StrCat(kFieldNames[field_], " holds ", what));
  }

  Place place_ = Place::kOutside;
  std::string key_;
  Field field_ = kDtype;
  std::array<bool, kFields> seen_ = {};
  std::size_t offsets_ = 0;
  bool has_metadata_ = false;
  std::vector<std::string> metadata_keys_;
  std::vector<TensorInfo> tensors_;
};

// Sorts by name and refuses a name that stands twice.
absl::Status sort_by_name(std::vector<TensorInfo>& tensors) {
  std::sort(
      tensors.begin(), tensors.end(),
      [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(tensors.begin(), tensors.end(),
                         [](const TensorInfo& a, const TensorInfo& b) {
                           return a.name == b.name;
                         });
  if (twice == tensors.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("duplicate tensor name ", printable(twice->name)));
}

}  // namespace

absl::StatusOr<std::vector<TensorInfo>> read_header_json(
    absl::string_view text) {
  HeaderEvents events;
  if (absl::Status status = read_json(text, events); !status.ok()) {
    return status;
  }
  std::vector<TensorInfo> tensors = events.take_tensors();
  if (absl::Status status = sort_by_name(tensors); !status.ok()) return status;
  return tensors;
}

}  // namespace trnscout
