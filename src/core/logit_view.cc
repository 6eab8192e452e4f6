#include "trnscout/logit_view.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "logit_row.h"

namespace trnscout {
namespace {

std::int64_t bytes_of(LogitType type) {
  return type == LogitType::kFloat32 ? 4 : 2;
}

const std::byte* row_start(const LogitView& view, std::int64_t position) {
  return static_cast<const std::byte*>(view.data) +
         position * view.row_stride * bytes_of(view.type);
}

NonFiniteKind kind_of(float value) {
  if (std::isnan(value)) return NonFiniteKind::kNan;
  return value > 0 ? NonFiniteKind::kPositiveInfinity
                   : NonFiniteKind::kNegativeInfinity;
}

bool has_finite(const float* row, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (std::isfinite(row[i])) return true;
  }
  return false;
}

// Counts what a row holds; notes the first in `found` where it is the first.
void count_row(const float* row, std::int64_t count, std::int64_t position,
               bool skip_negative_infinity, NonFinite& found) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (std::isfinite(row[i])) continue;
    const NonFiniteKind kind = kind_of(row[i]);
    if (kind == NonFiniteKind::kNegativeInfinity && skip_negative_infinity) {
      continue;
    }
    if (found.count() == 0) {
      found.position = position;
      found.index = i;
      found.kind = kind;
    }
    found.nans += kind == NonFiniteKind::kNan;
    found.positive_infinities += kind == NonFiniteKind::kPositiveInfinity;
    found.negative_infinities += kind == NonFiniteKind::kNegativeInfinity;
  }
}

}  // namespace

absl::string_view logit_type_name(LogitType type) {
  constexpr absl::string_view kNames[] = {"float32", "bfloat16", "float16"};
  return kNames[static_cast<std::size_t>(type)];
}

absl::string_view non_finite_kind_name(NonFiniteKind kind) {
  constexpr absl::string_view kNames[] = {"nan", "inf", "-inf"};
  return kNames[static_cast<std::size_t>(kind)];
}

absl::Status check_logit_view(const LogitView& view, absl::string_view name) {
  if (view.positions <= 0 || view.vocab <= 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: shape is [%d, %d], at least [1, 1] is needed",
                        name, view.positions, view.vocab));
  }
  // Token ids are 32 bits wide wherever the field keeps them.
  if (view.vocab > std::numeric_limits<std::int32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: vocabulary is %d, at most %d is allowed", name,
                        view.vocab, std::numeric_limits<std::int32_t>::max()));
  }
  if (view.data == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: there is no data", name));
  }
  const auto address = reinterpret_cast<std::uintptr_t>(view.data);
  const auto bytes = static_cast<std::uintptr_t>(bytes_of(view.type));
  if (address % bytes != 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: data is not aligned to the %d bytes of %s", name,
                        bytes, logit_type_name(view.type)));
  }
  return absl::OkStatus();
}

void copy_logit_row(const LogitView& view, std::int64_t position, float* out) {
  const std::byte* const row = row_start(view, position);
  if (view.type == LogitType::kFloat32) {
    std::memcpy(out, row, static_cast<std::size_t>(view.vocab) * sizeof(float));
    return;
  }
  const auto* const halves = reinterpret_cast<const std::uint16_t*>(row);
  const RowKernels& kernels = row_kernels();
  (view.type == LogitType::kBFloat16
       ? kernels.widen_bfloat16
       : kernels.widen_float16)(halves, view.vocab, out);
}

std::string non_finite_text(const NonFinite& found, std::int64_t values) {
  std::string out = absl::StrFormat(
      "%s: %s at position %d, index %d; ", found.module,
      non_finite_kind_name(found.kind), found.position, found.index);
  absl::StrAppendFormat(&out, "%d", found.count());
  if (values > 0) absl::StrAppendFormat(&out, " of %d", values);
  absl::StrAppend(&out, " not finite");
  return out;
}

absl::StatusOr<std::optional<NonFinite>> find_non_finite(
    const LogitView& view, absl::string_view module,
    NegativeInfinity negative_infinity) {
  if (absl::Status status = check_logit_view(view, module); !status.ok()) {
    return status;
  }
  std::vector<float> wide;
  if (view.type != LogitType::kFloat32) {
    wide.resize(static_cast<std::size_t>(view.vocab));
  }
  NonFinite found;
  found.module = std::string(module);
  for (std::int64_t position = 0; position < view.positions; ++position) {
    const auto* row = reinterpret_cast<const float*>(row_start(view, position));
    if (!wide.empty()) {
      copy_logit_row(view, position, wide.data());
      row = wide.data();
    }
    // A sum in double of floats cannot overflow, so it tells for all at once.
    if (std::isfinite(row_kernels().sum(row, view.vocab))) continue;
    const bool skip = negative_infinity == NegativeInfinity::kMasked &&
                      has_finite(row, view.vocab);
    count_row(row, view.vocab, position, skip, found);
  }
  if (found.count() == 0) return std::nullopt;
  return found;
}

}  // namespace trnscout
