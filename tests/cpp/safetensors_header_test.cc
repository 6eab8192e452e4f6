#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "safetensors_bytes.h"
#include "status_matchers.h"
#include "temp_dir.h"
#include "trnscout/checkpoint.h"

namespace trnscout {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// Opens a directory whose model.safetensors has these bytes.
absl::StatusOr<Checkpoint> open_bytes(const std::string& bytes) {
  const TempDir dir;
  dir.write("model.safetensors", bytes);
  return Checkpoint::open(dir.path());
}

absl::StatusOr<Checkpoint> open_header(const std::string& header,
                                       std::size_t data_bytes) {
  return open_bytes(safetensors_bytes(header, data_bytes));
}

// A header with one tensor `w` whose fields are these JSON texts.
std::string one_tensor(const std::string& dtype, const std::string& shape,
                       const std::string& offsets) {
  return R"({"w":{"dtype":")" + dtype + R"(","shape":)" + shape +
         R"(,"data_offsets":)" + offsets + "}}";
}

TEST(SafetensorsHeader, GivesRangesFromTheStartOfTheFile) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},)"
      R"("b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})";
  const auto checkpoint = open_header(header, 16);
  ASSERT_THAT(checkpoint, IsOk());
  const auto data = static_cast<std::int64_t>(8 + header.size());
  const TensorInfo a{"a", "F32", {}, 0, data, data + 4};
  const TensorInfo b{"b", "BF16", {2, 3}, 0, data + 4, data + 16};
  EXPECT_THAT(checkpoint->tensors(), ElementsAre(a, b));
  EXPECT_EQ(b.bytes(), 12);
  EXPECT_EQ(checkpoint->total_bytes(), 16);
  EXPECT_EQ(checkpoint->shards().at(0).bytes, data + 16);
  EXPECT_THAT(checkpoint->warnings(), SizeIs(0));
}

TEST(SafetensorsHeader, KnowsEveryElementType) {
  // Bytes of eight elements.
  const std::vector<std::pair<std::string, int>> types = {
      {"BOOL", 8},        {"F4", 4},          {"F6_E2M3", 6}, {"F6_E3M2", 6},
      {"U8", 8},          {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8},
      {"F8_E8M0", 8},     {"F8_E4M3FNUZ", 8}, {"I16", 16},    {"U16", 16},
      {"F8_E5M2FNUZ", 8}, {"F16", 16},        {"BF16", 16},   {"I32", 32},
      {"U32", 32},        {"F32", 32},        {"C64", 64},    {"F64", 64},
      {"I64", 64},        {"U64", 64}};
  for (const auto& [dtype, bytes] : types) {
    SCOPED_TRACE(dtype);
    const std::string range = "[0," + std::to_string(bytes) + "]";
    const auto checkpoint = open_header(one_tensor(dtype, "[2,4]", range),
                                        static_cast<std::size_t>(bytes));
    ASSERT_THAT(checkpoint, IsOk());
    EXPECT_EQ(checkpoint->tensors().at(0).dtype, dtype);
    EXPECT_EQ(checkpoint->total_bytes(), bytes);
  }
}

TEST(SafetensorsHeader, RefusesUnknownDtypeAndNamesIt) {
  for (const char* dtype : {"F7", "C128", "f32", "", "BF16 "}) {
    SCOPED_TRACE(dtype);
    EXPECT_THAT(open_header(one_tensor(dtype, "[4]", "[0,4]"), 4),
                StatusIs(kInvalid, HasSubstr("tensor w: unknown dtype")));
  }
  EXPECT_THAT(
      open_header(one_tensor("F7", "[3]", "[18446744073709551615,3]"), 3),
      StatusIs(kInvalid, HasSubstr("18446744073709551615")));
}

TEST(SafetensorsHeader, RefusesElementsThatEndInsideAByte) {
  EXPECT_THAT(
      open_header(one_tensor("F4", "[3]", "[0,2]"), 2),
      StatusIs(kInvalid, HasSubstr("F4 [3] takes 12 bits, not a whole")));
  EXPECT_THAT(open_header(one_tensor("F6_E2M3", "[2]", "[0,2]"), 2),
              StatusIs(kInvalid, HasSubstr("takes 12 bits")));
  EXPECT_THAT(open_header(one_tensor("F6_E2M3", "[4]", "[0,3]"), 3), IsOk());
}

TEST(SafetensorsHeader, RefusesRangeOfAnotherSizeThanTheShape) {
  EXPECT_THAT(open_header(one_tensor("F64", "[4]", "[0,16]"), 16),
              StatusIs(kInvalid, HasSubstr("tensor w: F64 [4] takes 32 bytes, "
                                           "data_offsets [0, 16] hold 16")));
  EXPECT_THAT(
      open_header(one_tensor("F32", "[1000,1000]", "[0,4]"), 4),
      StatusIs(kInvalid, AllOf(HasSubstr("4000000"), HasSubstr("hold 4"))));
  EXPECT_THAT(open_header(one_tensor("F32", "[1]", "[0,0]"), 0),
              StatusIs(kInvalid, HasSubstr("takes 4 bytes")));
}

TEST(SafetensorsHeader, RefusesShapesThatOverflow) {
  for (const char* shape :
       {"[4294967296,4294967296]", "[9223372036854775807,4]",
        "[4294967296,4294967296,0]"}) {
    SCOPED_TRACE(shape);
    EXPECT_THAT(open_header(one_tensor("U8", shape, "[0,0]"), 0),
                StatusIs(kInvalid, HasSubstr("2^63 elements or more")));
  }
  EXPECT_THAT(
      open_header(one_tensor("F32", "[4611686018427387904]", "[0,0]"), 0),
      StatusIs(kInvalid, HasSubstr("2^63 bits or more")));
}

TEST(SafetensorsHeader, RefusesNumbersThatAreNotWhole) {
  for (const char* number : {"-1", "-0", "4.0", "4e0", "\"4\"", "null", "true",
                             "9223372036854775808", "18446744073709551616"}) {
    SCOPED_TRACE(number);
    const std::string list = "[" + std::string(number) + "]";
    const auto message = AllOf(HasSubstr("tensor w"), HasSubstr(number),
                               HasSubstr("not a whole"));
    EXPECT_THAT(open_header(one_tensor("U8", list, "[0,4]"), 4),
                StatusIs(kInvalid, message));
    const std::string range = "[0," + std::string(number) + "]";
    EXPECT_THAT(open_header(one_tensor("U8", "[4]", range), 4),
                StatusIs(kInvalid, message));
  }
}

TEST(SafetensorsHeader, RefusesOverlapHoleAndBackwardRange) {
  const auto header = [](const std::string& a, const std::string& b) {
    return "{" + a + "," + b + "}";
  };
  EXPECT_THAT(open_header(header(u8_entry("a", 0, 4), u8_entry("b", 0, 4)), 4),
              StatusIs(kInvalid, HasSubstr("data_offsets [0, 4] overlap")));
  EXPECT_THAT(
      open_header(header(u8_entry("a", 0, 4), u8_entry("b", 2, 6)), 6),
      StatusIs(kInvalid, HasSubstr("tensor b: data_offsets [2, 6] overlap: "
                                   "what comes before, tensor a, ends at 4")));
  EXPECT_THAT(
      open_header(header(u8_entry("a", 0, 4), u8_entry("b", 5, 9)), 9),
      StatusIs(kInvalid, HasSubstr("tensor b: data_offsets [5, 9] leave a "
                                   "hole: what comes before, tensor a, ends "
                                   "at 4")));
  EXPECT_THAT(open_header("{" + u8_entry("a", 1, 5) + "}", 5),
              StatusIs(kInvalid, HasSubstr("leave a hole")));
  EXPECT_THAT(open_header(one_tensor("U8", "[4]", "[4,0]"), 4),
              StatusIs(kInvalid, HasSubstr("[4, 0] end before they begin")));
}

TEST(SafetensorsHeader, TakesTensorsInAnyOrder) {
  EXPECT_THAT(
      open_header("{" + u8_entry("b", 4, 8) + "," + u8_entry("a", 0, 4) + "}",
                  8),
      IsOk());
}

TEST(SafetensorsHeader, TakesEmptyTensorsBesideOthers) {
  const std::string a = u8_entry("a", 0, 4);
  const std::string b = u8_entry("b", 4, 8);
  const std::string z =
      R"("z":{"dtype":"F32","shape":[0],"data_offsets":[4,4]})";
  for (const std::string& header :
       {z + "," + a + "," + b, a + "," + z + "," + b, a + "," + b + "," + z}) {
    const auto checkpoint = open_header("{" + header + "}", 8);
    ASSERT_THAT(checkpoint, IsOk());
    EXPECT_EQ(checkpoint->find("z")->bytes(), 0);
    EXPECT_THAT(checkpoint->tensors(), SizeIs(3));
  }
}

TEST(SafetensorsHeader, RefusesCutFileNamingBothSizes) {
  const std::string whole = u8_file("w");
  EXPECT_THAT(open_bytes(whole), IsOk());
  for (std::size_t kept = whole.size() - 4; kept < whole.size(); ++kept) {
    const std::string sizes = "needs " + std::to_string(whole.size()) +
                              " bytes by its header, has " +
                              std::to_string(kept) + " bytes: it is cut";
    EXPECT_THAT(open_bytes(whole.substr(0, kept)),
                StatusIs(kInvalid, AllOf(HasSubstr("model.safetensors"),
                                         HasSubstr(sizes))));
  }
  for (std::size_t kept = 0; kept < whole.size() - 4; ++kept) {
    EXPECT_THAT(open_bytes(whole.substr(0, kept)),
                StatusIs(kInvalid, HasSubstr(std::to_string(kept) + " bytes")));
  }
}

TEST(SafetensorsHeader, RefusesTrailingBytes) {
  EXPECT_THAT(open_bytes(u8_file("w") + "x"),
              StatusIs(kInvalid, HasSubstr("belong to no tensor")));
  EXPECT_THAT(open_header("{}", 1),
              StatusIs(kInvalid, HasSubstr("needs 10 bytes by its header, has "
                                           "11 bytes")));
}

TEST(SafetensorsHeader, RefusesHeaderLengthPastTheLimit) {
  const TempDir dir;
  const auto path =
      dir.write("model.safetensors", header_length_bytes(100'000'001) + "{");
  // Sparse: long enough for the header, without the bytes.
  std::filesystem::resize_file(path, 100'000'100);
  EXPECT_THAT(
      Checkpoint::open(dir.path()),
      StatusIs(kInvalid, HasSubstr("header of 100000001 bytes is past the "
                                   "limit of 100000000")));
  EXPECT_THAT(open_bytes(std::string(8, '\xFF') + "{}"),
              StatusIs(kInvalid, HasSubstr("18446744073709551615")));
}

TEST(SafetensorsHeader, RefusesHeaderLengthPastTheFile) {
  EXPECT_THAT(open_bytes(header_length_bytes(100'000'000) + "{}"),
              StatusIs(kInvalid, HasSubstr("needs at least 100000008 bytes by "
                                           "its header's length, has 10")));
}

TEST(SafetensorsHeader, RefusesFileTooShortForALength) {
  EXPECT_THAT(open_bytes(""), StatusIs(kInvalid, HasSubstr("has 0 bytes")));
  EXPECT_THAT(open_bytes("1234567"),
              StatusIs(kInvalid, HasSubstr("has 7 bytes")));
}

TEST(SafetensorsHeader, NamesGitLfsPointerAndBothSizes) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\n"
      "oid sha256:" +
      std::string(64, 'a') + "\nsize 4976698672\n";
  EXPECT_THAT(
      open_bytes(pointer),
      StatusIs(kInvalid,
               AllOf(HasSubstr("Git LFS pointer, weights were not downloaded"),
                     HasSubstr(std::to_string(pointer.size()) + " bytes"),
                     HasSubstr("4976698672"))));
}

TEST(SafetensorsHeader, NamesOtherFormats) {
  const std::vector<std::pair<std::string, std::string>> files = {
      {std::string("PK\x03\x04\x00\x00\x08\x08", 8), "ZIP"},
      {"PK\x03\x04", "ZIP"},
      {std::string("GGUF\x03\x00\x00\x00", 8), "GGUF"},
      {std::string("\x80\x02\x8a\x0al\xfc\x9c\x46", 8), "pickle"},
      {"\x89HDF\r\n\x1a\n", "HDF5"},
      {"<!DOCTYPE html>", "HTML"},
      {"<html><head>", "HTML"}};
  for (const auto& [bytes, name] : files) {
    EXPECT_THAT(open_bytes(bytes + std::string(64, 'x')),
                StatusIs(kInvalid,
                         AllOf(HasSubstr(name), HasSubstr("not safetensors"))));
  }
}

// These bytes are also a length that a real file may have.
TEST(SafetensorsHeader, TakesLengthThatLooksLikeAPickle) {
  std::string header = "{" + u8_entry("w", 0, 4) + "}";
  header.resize(0x0280, ' ');
  EXPECT_THAT(open_header(header, 4), IsOk());
}

TEST(SafetensorsHeader, RefusesHeaderThatIsNotJson) {
  const std::string entry = u8_entry("w", 0, 4);
  for (const std::string& header :
       {"{" + entry, "{" + entry + ",}", "{" + entry + "}x",
        "{" + entry + "}" + std::string(1, '\0'), std::string("{'w':1}"),
        "{" + u8_entry("\xFF", 0, 4) + "}",
        "{" + u8_entry("\\ud800", 0, 4) + "}", "{\"w" + std::string(1, '\x01'),
        std::string(200'000, '{')}) {
    SCOPED_TRACE(header.substr(0, 80));
    EXPECT_THAT(open_header(header, 4),
                StatusIs(kInvalid, HasSubstr("header: not JSON: ")));
  }
}

TEST(SafetensorsHeader, KeepsMessagesShortAndPlain) {
  const auto checkpoint =
      open_header("{" + u8_entry(std::string(100'000, '\n'), 0, 4) + "}", 4);
  ASSERT_THAT(checkpoint, StatusIs(kInvalid, HasSubstr("not JSON")));
  EXPECT_LT(checkpoint.status().message().size(), 600u);
  const auto twice = open_header("{" + u8_entry("\\u00e9\\n", 0, 4) + "," +
                                     u8_entry("\\u00e9\\n", 4, 8) + "}",
                                 8);
  EXPECT_THAT(twice, StatusIs(kInvalid, HasSubstr("name \\xc3\\xa9\\x0a")));
}

TEST(SafetensorsHeader, RefusesHeaderThatIsNotAnObject) {
  for (const char* header : {"[]", "1", " {}", "\xEF\xBB\xBF{}", ""}) {
    SCOPED_TRACE(header);
    EXPECT_THAT(open_header(header, 0),
                StatusIs(kInvalid, HasSubstr("does not begin with {")));
  }
}

TEST(SafetensorsHeader, RefusesDuplicateTensorNames) {
  const auto duplicate =
      StatusIs(kInvalid, HasSubstr("duplicate tensor name a"));
  EXPECT_THAT(
      open_header("{" + u8_entry("a", 0, 1) + "," + u8_entry("a", 1, 2) + "}",
                  2),
      duplicate);
  EXPECT_THAT(
      open_header("{" + u8_entry("a", 0, 1) + "," + u8_entry("a", 0, 1) + "}",
                  1),
      duplicate);
}

TEST(SafetensorsHeader, RefusesEntriesOfAnotherForm) {
  const std::string good = R"("dtype":"U8","shape":[1],"data_offsets":[0,1])";
  const std::vector<std::pair<std::string, std::string>> entries = {
      {"null", "tensor w is null, not an object"},
      {R"(["U8",[1],[0,1]])", "tensor w is an array, not an object"},
      {R"({"shape":[1],"data_offsets":[0,1]})", "dtype is missing"},
      {R"({"dtype":"U8","data_offsets":[0,1]})", "shape is missing"},
      {R"({"dtype":"U8","shape":[1]})", "data_offsets is missing"},
      {"{" + good + R"(,"scale":1})", "unknown key scale"},
      {"{" + good + R"(,"dtype":"U8"})", "dtype stands twice"},
      {R"({"dtype":8})", "dtype is 8, not a string"},
      {R"({"dtype":["U8"]})", "dtype is an array, not a string"},
      {R"({"dtype":{"U8":null}})", "an object"},
      {R"({"shape":1})", "shape is 1, not an array"},
      {R"({"shape":"[1]"})", "shape is \"[1]\", not an array"},
      {R"({"shape":[[1]]})", "shape holds an array"},
      {R"({"data_offsets":{"0":1}})", "data_offsets is an object, not an arr"},
      {R"({"dtype":"U8","shape":[1],"data_offsets":[0]})",
       "holds 1 number, not 2"},
      {R"({"dtype":"U8","shape":[1],"data_offsets":[0,1,2]})",
       "holds 3 numbers, not 2"}};
  for (const auto& [entry, message] : entries) {
    SCOPED_TRACE(entry);
    EXPECT_THAT(
        open_header(R"({"w":)" + entry + "}", 1),
        StatusIs(kInvalid, AllOf(HasSubstr("tensor w"), HasSubstr(message))));
  }
}

TEST(SafetensorsHeader, TakesMetadataInEveryValidForm) {
  const std::string w = u8_entry("w", 0, 4);
  for (const char* metadata :
       {"", R"("__metadata__":null,)", R"("__metadata__":{},)",
        R"("__metadata__":{"format":"pt"},)"}) {
    SCOPED_TRACE(metadata);
    const auto checkpoint = open_header("{" + (metadata + w) + "}", 4);
    ASSERT_THAT(checkpoint, IsOk());
    EXPECT_THAT(checkpoint->tensors(), SizeIs(1));
  }
  for (const char* header :
       {R"({"__metadata__":{"format":"pt"}})", "{}      "}) {
    const auto checkpoint = open_header(header, 0);
    ASSERT_THAT(checkpoint, IsOk());
    EXPECT_THAT(checkpoint->tensors(), SizeIs(0));
    EXPECT_EQ(checkpoint->total_bytes(), 0);
  }
}

TEST(SafetensorsHeader, RefusesMetadataOfAnotherForm) {
  const std::vector<std::pair<std::string, std::string>> forms = {
      {R"({"total":1})", "__metadata__: key total holds 1, not a string"},
      {R"({"total":null})", "key total holds null"},
      {R"({"total":{}})", "key total holds an object"},
      {R"({"total":["1"]})", "key total holds an array"},
      {R"({"a":"1","a":"1"})", "__metadata__: duplicate key a"},
      {"[]", "__metadata__ is an array, not an object"},
      {"1", "__metadata__ is 1, not an object"},
      {R"({},"__metadata__":{})", "__metadata__ stands twice"}};
  for (const auto& [metadata, message] : forms) {
    SCOPED_TRACE(metadata);
    EXPECT_THAT(open_header(R"({"__metadata__":)" + metadata + "}", 0),
                StatusIs(kInvalid, HasSubstr(message)));
  }
}

TEST(SafetensorsHeader, NamesTheFileInEachRefusal) {
  const TempDir dir;
  const auto path = dir.write("model.safetensors", "x");
  EXPECT_THAT(Checkpoint::open(dir.path()),
              StatusIs(kInvalid, HasSubstr(path.string())));
}

}  // namespace
}  // namespace trnscout
