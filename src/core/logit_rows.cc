#include "logit_rows.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace trnscout {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

void note(float value, std::int64_t position, std::size_t index,
          NonFinite& found) {
  const NonFiniteKind kind = std::isnan(value) ? NonFiniteKind::kNan
                             : value > 0 ? NonFiniteKind::kPositiveInfinity
                                         : NonFiniteKind::kNegativeInfinity;
  if (found.count() == 0) {
    found.position = position;
    found.index = static_cast<std::int64_t>(index);
    found.kind = kind;
  }
  found.nans += kind == NonFiniteKind::kNan;
  found.positive_infinities += kind == NonFiniteKind::kPositiveInfinity;
  found.negative_infinities += kind == NonFiniteKind::kNegativeInfinity;
}

// Minus infinity on both sides is a mask, unless the whole row is.
void note_row(absl::Span<const float> ours, absl::Span<const float> reference,
              std::int64_t position, NonFinite& in_ours,
              NonFinite& in_reference) {
  bool offers_token = false;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    offers_token |= ours[i] != kMasked || reference[i] != kMasked;
  }
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const bool masked = ours[i] == kMasked && reference[i] == kMasked;
    if (masked && offers_token) continue;
    if (!std::isfinite(ours[i])) note(ours[i], position, i, in_ours);
    if (!std::isfinite(reference[i])) {
      note(reference[i], position, i, in_reference);
    }
  }
}

}  // namespace

LogitRow::LogitRow(const LogitView& view) : view_(view) {}

absl::Span<const float> LogitRow::at(std::int64_t position) {
  const auto vocab = static_cast<std::size_t>(view_.vocab);
  if (view_.type == LogitType::kFloat32) {
    row_ = {static_cast<const float*>(view_.data) + position * view_.row_stride,
            vocab};
    return row_;
  }
  buffer_.resize(vocab);
  copy_logit_row(view_, position, buffer_.data());
  row_ = buffer_;
  return row_;
}

absl::Span<const float> LogitRow::keep(absl::Span<const std::int32_t> tokens) {
  buffer_.resize(static_cast<std::size_t>(view_.vocab));
  // Also in place: an entry never moves up.
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    buffer_[i] = row_[static_cast<std::size_t>(tokens[i])];
  }
  row_ = absl::MakeConstSpan(buffer_).first(tokens.size());
  return row_;
}

std::optional<NonFinite> find_unusable(const LogitView& ours,
                                       const LogitView& reference,
                                       std::int64_t from,
                                       absl::string_view module) {
  NonFinite in_ours;
  in_ours.module = absl::StrCat("ours, ", module);
  NonFinite in_reference;
  in_reference.module = absl::StrCat("reference, ", module);
  LogitRow our_row(ours);
  LogitRow reference_row(reference);
  for (std::int64_t at = from; at < ours.positions; ++at) {
    note_row(our_row.at(at), reference_row.at(at), at, in_ours, in_reference);
  }
  if (in_ours.count() == 0 && in_reference.count() == 0) return std::nullopt;
  if (in_reference.count() == 0) return in_ours;
  if (in_ours.count() == 0) return in_reference;
  // At the same place the reference is named: it cannot judge.
  const auto place = [](const NonFinite& found) {
    return std::tuple(found.position, found.index);
  };
  return place(in_ours) < place(in_reference) ? in_ours : in_reference;
}

}  // namespace trnscout
