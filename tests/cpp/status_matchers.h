#pragma once

#include <gmock/gmock.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace trnscout {

inline const absl::Status& status_of(const absl::Status& status) {
  return status;
}

template <typename T>
const absl::Status& status_of(const absl::StatusOr<T>& result) {
  return result.status();
}

/// Matches a Status or StatusOr that is OK.
MATCHER(IsOk, negation ? "is not OK" : "is OK") {
  *result_listener << status_of(arg).ToString();
  return status_of(arg).ok();
}

/// Matches a Status or StatusOr with this code, whose message matches too.
MATCHER_P2(StatusIs, code, message,
           "has code " + absl::StatusCodeToString(code) +
               " and a message that " +
               ::testing::DescribeMatcher<std::string>(message, negation)) {
  const absl::Status& status = status_of(arg);
  *result_listener << status.ToString();
  return status.code() == code &&
         ::testing::Value(std::string(status.message()), message);
}

}  // namespace trnscout
