#include "trnscout/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "status_matchers.h"

namespace trnscout {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A record's text with the columns that must be there, and `more`.
std::string record_text(const std::string& more) {
  return absl::StrCat(R"({"verdict": "FAIL", "depth": "virtual", "model": "m")",
                      more.empty() ? "" : ", ", more, "}");
}

auto refused_with(const std::string& words) {
  return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(words));
}

TEST(RunRecord, KeepsEveryKindOfValueThroughJson) {
  RunRecord record;
  record.verdict = Verdict::kFail;
  record.depth = Depth::kVirtual;
  record.error_class = ErrorClass::kTokenMismatch;
  record.error = "\xE2\x80\xAE </script> \"quoted\"";
  record.model = "x/<img src=x>";
  record.token_ids = {{1, 2147483647}};
  record.reference_token_ids = std::vector<std::int32_t>();
  record.device_peak_bytes = std::numeric_limits<std::int64_t>::max();
  record.device_peak_bytes_by_category = {{{"tensors", 7}}};
  record.times_s = JsonObject{R"({"load":0.25,"further_tokens":[0.1]})"};
  record.versions = {{"torch", "2.13.0"}};
  record.warnings = {"one", "two"};
  record.compiled = false;
  record.logit_kl = 0.1;
  const auto text = to_json(record);
  ASSERT_THAT(text, IsOk());
  const auto again = run_record_from_json(*text);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(*again, record);
  EXPECT_THAT(*text, AllOf(HasSubstr(R"("fallbacks":null)"),
                           HasSubstr(R"("reference_token_ids":[])"),
                           HasSubstr(R"("error_class":"token_mismatch")")));
}

TEST(RunRecord, ReadsWhatPythonWrote) {
  std::ifstream file(TRNSCOUT_TEST_DATA "/run_record.json");
  const std::string text((std::istreambuf_iterator<char>(file)),
                         std::istreambuf_iterator<char>());
  const auto record = run_record_from_json(text);
  ASSERT_THAT(record, IsOk());
  EXPECT_EQ(record->error_class, ErrorClass::kCrash);
  EXPECT_EQ(record->error, "w\xE2\x80\xAE\"");
  EXPECT_EQ(record->first_mismatch, 0);
  EXPECT_EQ(record->token_p99_s, 1e-9);
  const auto written = to_json(*record);
  ASSERT_THAT(written, IsOk());
  EXPECT_EQ(nlohmann::json::parse(*written), nlohmann::json::parse(text));
}

TEST(RunRecord, LeavesWithoutValueWhatTheTextDoesNotHave) {
  const auto record = run_record_from_json(record_text(R"("error": null)"));
  ASSERT_THAT(record, IsOk());
  EXPECT_FALSE(record->error.has_value());
  EXPECT_FALSE(record->token_ids.has_value());
  EXPECT_EQ(record->cores, 1);
  EXPECT_EQ(record->origin, Origin::kTrnscout);
}

TEST(RunRecord, RefusesWhatItsColumnsCannotHold) {
  const struct {
    const char* more;
    const char* words;
  } cases[] = {
      {R"("modle": 1)", "column modle is unknown; schema 1"},
      {R"("text": 3)", "column text is 3, must be a string"},
      {R"("cores": 1.5)", "column cores is 1.5, must be a whole number from"},
      {R"("cores": 9223372036854775808)", "to 9223372036854775807"},
      {R"("token_ids": [2147483648])",
       "column token_ids is 2147483648, must be a whole number from "
       "-2147483648 to 2147483647"},
      {R"("token_ids": 1)", "column token_ids is 1, must be a list"},
      {R"("compiled": "no")", "must be true or false"},
      {R"("run_s": [])", "column run_s is [...], must be a number"},
      {R"("times_s": 1)", "column times_s is 1, must be an object"},
      {R"("versions": [1])", "column versions is [...], must be an object"},
      {R"("error_class": "tired")", "must be one of out_of_device_memory,"},
  };
  for (const auto& [more, words] : cases) {
    EXPECT_THAT(run_record_from_json(record_text(more)), refused_with(words));
  }
}

TEST(RunRecord, RefusesATextThatIsNoRecord) {
  EXPECT_THAT(run_record_from_json("[]"),
              refused_with("record: no JSON object"));
  EXPECT_THAT(run_record_from_json("{"), refused_with("record: not JSON"));
  EXPECT_THAT(run_record_from_json(R"({"verdict": "FAIL", "depth": "plan"})"),
              refused_with("column model is null, must have a value"));
  const std::string deep =
      absl::StrCat(R"("times_s": {"a": )", std::string(100'000, '['),
                   std::string(100'000, ']'), "}");
  EXPECT_THAT(run_record_from_json(record_text(deep)),
              refused_with("nested deeper than 64"));
}

TEST(RunRecord, GivesPassToHardwareOnly) {
  EXPECT_THAT(run_record_from_json(
                  R"({"verdict": "PASS", "depth": "virtual", "model": "m"})"),
              refused_with("PASS needs depth hardware, depth is virtual"));
  EXPECT_THAT(run_record_from_json(
                  R"({"verdict": "PASS", "depth": "hardware", "model": "m"})"),
              IsOk());
}

TEST(RunRecord, RefusesToWriteWhatJsonCannotHold) {
  RunRecord record;
  record.logit_kl = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(to_json(record), refused_with("column logit_kl is nan, must be"));
  record.logit_kl.reset();
  record.text = "\xFF";
  EXPECT_THAT(to_json(record), refused_with("a string is not UTF-8"));
  record.text.reset();
  record.times_s = JsonObject{"[]"};
  EXPECT_THAT(to_json(record),
              refused_with("column times_s is no JSON object"));
}

}  // namespace
}  // namespace trnscout
