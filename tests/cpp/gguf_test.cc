#include "trnscout/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/casts.h"
#include "absl/status/status.h"
#include "gguf_bytes.h"
#include "status_matchers.h"
#include "temp_dir.h"

namespace trnscout {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;

// Types of values, as the format numbers them.
constexpr std::uint32_t kUint32 = 4;
constexpr std::uint32_t kBool = 7;
constexpr std::uint32_t kString = 8;
constexpr std::uint32_t kArray = 9;

// Types of tensors.
constexpr std::uint32_t kF32 = 0;
constexpr std::uint32_t kQ4_0 = 2;

absl::StatusOr<GgufFile> open_raw(const std::string& bytes) {
  const TempDir dir;
  return GgufFile::open(dir.write("w.gguf", bytes));
}

absl::StatusOr<GgufFile> open(const GgufBytes& parts) {
  return open_raw(parts.bytes());
}

absl::StatusOr<GgufFile> open_key(const std::string& entry) {
  return open({.key_count = 1, .body = entry});
}

absl::StatusOr<GgufFile> open_tensors(const std::vector<std::string>& entries,
                                      std::size_t data_bytes) {
  GgufBytes parts{.tensor_count = entries.size(), .data_bytes = data_bytes};
  for (const std::string& entry : entries) parts.body += entry;
  return open(parts);
}

// A tensor whose dimensions are these, in the file's order.
std::string shaped(const std::vector<std::uint64_t>& dimensions,
                   std::uint32_t type) {
  std::string out = gguf_text("w") + gguf_u32(dimensions.size());
  for (const std::uint64_t dimension : dimensions) out += gguf_u64(dimension);
  return out + gguf_u32(type) + gguf_u64(0);
}

TEST(GgufFile, ReadsTensorsFromTheStartOfTheFile) {
  const auto file = open_tensors(
      {gguf_tensor("b", 64, kQ4_0, 0), gguf_tensor("a", 3, kF32, 64)}, 96);
  ASSERT_THAT(file, IsOk());
  // 24 bytes of counts, 33 a tensor, padded to 96.
  const TensorInfo a{"a", "F32", {3}, 0, 96 + 64, 96 + 76};
  const TensorInfo b{"b", "Q4_0", {64}, 0, 96, 96 + 36};
  EXPECT_THAT(file->tensors(), ElementsAre(a, b));
  EXPECT_EQ(*file->find("b"), b);
  EXPECT_EQ(file->find("c"), nullptr);
  EXPECT_EQ(file->total_bytes(), 48);
  EXPECT_EQ(file->file_bytes(), 192);
  EXPECT_EQ(file->version(), 3u);
  EXPECT_EQ(file->alignment(), 32);
  EXPECT_THAT(file->warnings(), IsEmpty());
}

TEST(GgufFile, PutsTheInnermostDimensionLast) {
  const auto file = open_tensors({shaped({2, 3, 5}, kF32)}, 120);
  ASSERT_THAT(file, IsOk());
  EXPECT_THAT(file->tensors().at(0).shape, ElementsAre(5, 3, 2));
}

TEST(GgufFile, TakesScalarsAndTensorsWithoutElements) {
  EXPECT_THAT(open_tensors({shaped({}, kF32)}, 4), IsOk());
  const auto file = open_tensors(
      {gguf_tensor("b", 8, kF32, 0), gguf_tensor("a", 0, kF32, 0)}, 32);
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(file->total_bytes(), 32);
}

TEST(GgufFile, GivesEveryWidthOfScalarOneType) {
  const std::vector<std::pair<std::string, GgufValue>> values = {
      {gguf_u32(0) + gguf_number(0xFF, 1), std::uint64_t{255}},
      {gguf_u32(1) + gguf_number(0xFF, 1), std::int64_t{-1}},
      {gguf_u32(2) + gguf_number(0xFFFE, 2), std::uint64_t{65534}},
      {gguf_u32(3) + gguf_number(0xFFFE, 2), std::int64_t{-2}},
      {gguf_u32(4) + gguf_u32(7), std::uint64_t{7}},
      {gguf_u32(5) + gguf_u32(0x80000000), std::int64_t{-2147483648LL}},
      {gguf_u32(6) + gguf_u32(absl::bit_cast<std::uint32_t>(-1.5F)), -1.5},
      {gguf_u32(7) + gguf_number(1, 1), true},
      {gguf_u32(8) + gguf_text("caf\xC3\xA9"), std::string("caf\xC3\xA9")},
      {gguf_u32(10) + gguf_u64(~0ULL), ~std::uint64_t{0}},
      {gguf_u32(11) + gguf_u64(~0ULL), std::int64_t{-1}},
      {gguf_u32(12) + gguf_u64(absl::bit_cast<std::uint64_t>(2.25)), 2.25},
  };
  GgufBytes parts{.key_count = values.size()};
  for (std::size_t i = 0; i < values.size(); ++i) {
    parts.body += gguf_text("k" + std::to_string(i)) + values[i].first;
  }
  const auto file = open(parts);
  ASSERT_THAT(file, IsOk());
  EXPECT_THAT(file->metadata(), SizeIs(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const GgufValue* value = file->find_metadata("k" + std::to_string(i));
    ASSERT_NE(value, nullptr) << i;
    EXPECT_EQ(*value, values[i].second) << i;
  }
  EXPECT_EQ(file->find_metadata("absent"), nullptr);
}

TEST(GgufFile, SumsUpArrays) {
  const std::string texts =
      gguf_u32(kString) + gguf_u64(2) + gguf_text("one") + gguf_text("two");
  const std::string nested = gguf_u32(kArray) + gguf_u64(2) + texts + texts;
  const auto file = open({.key_count = 3,
                          .body = gguf_key("texts", kArray, texts) +
                                  gguf_key("nested", kArray, nested) +
                                  gguf_key("after", kBool, "\x01")});
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(*file->find_metadata("texts"), GgufValue(GgufArray{"STRING", 2}));
  EXPECT_EQ(*file->find_metadata("nested"), GgufValue(GgufArray{"ARRAY", 2}));
  EXPECT_EQ(*file->find_metadata("after"), GgufValue(true));
}

TEST(GgufFile, ReadsHeadersLongerThanItsWindow) {
  std::string texts = gguf_u32(kString) + gguf_u64(30'000);
  for (int i = 0; i < 30'000; ++i) texts += gguf_text(std::to_string(i));
  const std::string prompt(100'000, 'x');
  const auto file =
      open({.key_count = 3,
            .body = gguf_key("tokens", kArray, texts) +
                    gguf_key("prompt", kString, gguf_text(prompt)) +
                    gguf_key("last", kUint32, gguf_u32(9))});
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(*file->find_metadata("prompt"), GgufValue(prompt));
  EXPECT_EQ(*file->find_metadata("last"), GgufValue(std::uint64_t{9}));
}

TEST(GgufFile, TakesTheAlignmentFromItsKey) {
  GgufBytes parts{.tensor_count = 2,
                  .key_count = 1,
                  .body = gguf_key("general.alignment", kUint32, gguf_u32(64)) +
                          gguf_tensor("a", 1, kF32, 0) +
                          gguf_tensor("b", 1, kF32, 64),
                  .alignment = 64,
                  .data_bytes = 68};
  const auto file = open(parts);
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(file->alignment(), 64);
  EXPECT_EQ(file->find("a")->begin_bytes % 64, 0);
}

TEST(GgufFile, WarnsOfBytesThatBelongToNoTensor) {
  const auto file = open_tensors({gguf_tensor("w", 1, kF32, 0)}, 42);
  ASSERT_THAT(file, IsOk());
  EXPECT_THAT(file->warnings(),
              ElementsAre("the last 10 bytes belong to no tensor"));
}

TEST(GgufFile, RefusesWhatIsNotThere) {
  const TempDir dir;
  EXPECT_THAT(
      GgufFile::open(dir.path() / "absent.gguf"),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("absent.gguf: cannot")));
}

TEST(GgufFile, RefusesFilesThatAreNotRegular) {
  const TempDir dir;
  ASSERT_EQ(::mkfifo((dir.path() / "w").c_str(), 0600), 0);
  EXPECT_THAT(GgufFile::open(dir.path() / "w"),
              StatusIs(kInvalid, HasSubstr("a FIFO, not a regular file")));
}

TEST(GgufFile, PassesOnWhatTheSystemSays) {
  const TempDir dir;
  std::filesystem::create_symlink("w", dir.path() / "w");
  EXPECT_THAT(GgufFile::open(dir.path() / "w"),
              StatusIs(absl::ErrnoToStatusCode(ELOOP), HasSubstr("cannot")));
}

TEST(GgufFile, RefusesOtherFormats) {
  for (const auto& [bytes, message] :
       std::vector<std::pair<std::string, std::string>>{
           {"", "it begins with \"\""},
           {"GG", "it begins with GG"},
           {"version https://git-lfs.github.com/spec/v1", "Git LFS pointers"},
           {std::string("PK\x03\x04", 4) + "....", "begins with PK\\x03\\x04"},
       }) {
    SCOPED_TRACE(bytes);
    EXPECT_THAT(open_raw(bytes),
                StatusIs(kInvalid, AllOf(HasSubstr("not a GGUF file"),
                                         HasSubstr(message))));
  }
}

TEST(GgufFile, RefusesOtherVersionsAndByteOrders) {
  EXPECT_THAT(open({.version = 1}),
              StatusIs(kUnimplemented, HasSubstr("GGUF version 1; only")));
  EXPECT_THAT(open({.version = 4}),
              StatusIs(kUnimplemented, HasSubstr("GGUF version 4; only")));
  EXPECT_THAT(open({.version = 0x03000000}),
              StatusIs(kUnimplemented, HasSubstr("big-endian")));
  EXPECT_THAT(open({.version = 2}), IsOk());
}

TEST(GgufFile, RefusesEveryCutOfItsHeader) {
  const GgufBytes parts{
      .tensor_count = 1,
      .key_count = 2,
      .body = gguf_key("name", kString, gguf_text("tiny")) +
              gguf_key("list", kArray, gguf_u32(kBool) + gguf_u64(1) + "\1") +
              gguf_tensor("w", 1, kF32, 0),
      .data_bytes = 4};
  const std::string whole = parts.bytes();
  ASSERT_THAT(open_raw(whole), IsOk());
  for (std::size_t bytes = 4; bytes < whole.size(); ++bytes) {
    SCOPED_TRACE(bytes);
    EXPECT_THAT(open_raw(whole.substr(0, bytes)),
                StatusIs(kInvalid, ::testing::ContainsRegex(
                                       "is cut|does not fit|are left")));
  }
}

TEST(GgufFile, RefusesCountsPastTheFileOrTheLimit) {
  EXPECT_THAT(
      open({.tensor_count = 3}),
      StatusIs(kInvalid, HasSubstr("header names 3 tensors, which take at "
                                   "least 72 bytes; 8 are left")));
  EXPECT_THAT(open({.tensor_count = ~0ULL}),
              StatusIs(kInvalid, HasSubstr("past the limit of 1000000")));
  EXPECT_THAT(open({.key_count = 3}),
              StatusIs(kInvalid, HasSubstr("header names 3 metadata keys")));
  EXPECT_THAT(open({.key_count = 1ULL << 63}),
              StatusIs(kInvalid, HasSubstr("past the limit of 100000")));
}

TEST(GgufFile, RefusesTextsThatDoNotFit) {
  EXPECT_THAT(open_key(gguf_u64(~0ULL) + "key"),
              StatusIs(kInvalid, AllOf(HasSubstr("metadata key 1: header is"),
                                       HasSubstr("the file ends at"))));
  EXPECT_THAT(open_key(gguf_key("k", kString, gguf_u64(1ULL << 40) + "x")),
              StatusIs(kInvalid, HasSubstr("metadata key k: header is cut")));
  EXPECT_THAT(open_key(gguf_text(std::string(65'536, 'k')) + gguf_u32(0) + "x"),
              StatusIs(kInvalid, HasSubstr("past the limit of 65535")));
}

TEST(GgufFile, RefusesTextsThatAreNotUtf8) {
  for (const char* text : {"\xFF", "\xC0\x80", "\xED\xA0\x80", "\xE2\x82",
                           "\xF4\x90\x80\x80", "\x80", "\xE2\x28\xA1"}) {
    SCOPED_TRACE(text);
    EXPECT_THAT(open_key(gguf_key("k", kString, gguf_text(text))),
                StatusIs(kInvalid, HasSubstr("is not UTF-8")));
    EXPECT_THAT(open_key(gguf_key(text, kBool, "\1")),
                StatusIs(kInvalid, HasSubstr("is not UTF-8")));
    EXPECT_THAT(open_tensors({gguf_tensor(text, 1, kF32, 0)}, 4),
                StatusIs(kInvalid, HasSubstr("is not UTF-8")));
  }
}

TEST(GgufFile, RefusesDamagedMetadata) {
  const std::string one = gguf_key("k", kBool, "\1");
  EXPECT_THAT(open({.key_count = 2, .body = one + one}),
              StatusIs(kInvalid, HasSubstr("duplicate metadata key k")));
  EXPECT_THAT(open_key(gguf_key("", kBool, "\1")),
              StatusIs(kInvalid, HasSubstr("metadata key 1 is empty")));
  EXPECT_THAT(open_key(gguf_key("k", kBool, "\2")),
              StatusIs(kInvalid, HasSubstr("BOOL is 2, not 0 or 1")));
  EXPECT_THAT(open_key(gguf_key("k", 13, "....")),
              StatusIs(kInvalid, HasSubstr("metadata key k: unknown value "
                                           "type 13; the last known is 12")));
  EXPECT_THAT(open_key(gguf_key("k", kArray, gguf_u32(99) + gguf_u64(0))),
              StatusIs(kInvalid, HasSubstr("unknown value type 99")));
}

TEST(GgufFile, RefusesArraysThatDoNotFit) {
  const std::string huge = gguf_u64(1ULL << 62);
  for (const std::uint32_t type : {0U, 4U, 7U, 8U, 9U, 12U}) {
    EXPECT_THAT(open_key(gguf_key("k", kArray, gguf_u32(type) + huge)),
                StatusIs(kInvalid, HasSubstr("does not fit the")))
        << type;
  }
  std::string deep;
  for (int i = 0; i < 20; ++i) deep += gguf_u32(kArray) + gguf_u64(1);
  EXPECT_THAT(open_key(gguf_key("k", kArray, deep)),
              StatusIs(kInvalid, HasSubstr("deeper than the limit of 8")));
}

TEST(GgufFile, RefusesAlignmentsThatAreNone) {
  for (const std::uint64_t bad : {0ULL, 3ULL, 1ULL << 31}) {
    EXPECT_THAT(open_key(gguf_key("general.alignment", kUint32, gguf_u32(bad))),
                StatusIs(kInvalid, AllOf(HasSubstr("general.alignment is"),
                                         HasSubstr("not a power of two"))));
  }
  EXPECT_THAT(open_key(gguf_key("general.alignment", kString, gguf_text("8"))),
              StatusIs(kInvalid, HasSubstr("is no unsigned integer")));
}

TEST(GgufFile, RefusesShapesThatFitNoType) {
  const std::uint64_t big = 1ULL << 32;
  EXPECT_THAT(open_tensors({shaped({big, big}, kF32)}, 0),
              StatusIs(kInvalid, HasSubstr("has 2^63 elements or more")));
  EXPECT_THAT(open_tensors({shaped({1ULL << 62}, kF32)}, 0),
              StatusIs(kInvalid, HasSubstr("takes 2^63 bytes or more")));
  EXPECT_THAT(open_tensors({shaped({1ULL << 63}, kF32)}, 0),
              StatusIs(kInvalid, HasSubstr("is 2^63 or more")));
  EXPECT_THAT(open_tensors({shaped({33, 2}, kQ4_0)}, 64),
              StatusIs(kInvalid, HasSubstr("tensor w: Q4_0 [2, 33]: rows of 33 "
                                           "elements do not make whole blocks "
                                           "of 32")));
  EXPECT_THAT(open_tensors({shaped({}, kQ4_0)}, 64),
              StatusIs(kInvalid, HasSubstr("do not make whole blocks")));
  EXPECT_THAT(open_tensors({shaped({1, 1, 1, 1, 1}, kF32)}, 64),
              StatusIs(kInvalid, HasSubstr("5 dimensions are past the limit")));
}

TEST(GgufFile, NamesTensorsOfUnknownTypes) {
  for (const std::uint32_t type : {4U, 9U, 31U, 38U, 1000U}) {
    EXPECT_THAT(open_tensors({gguf_tensor("w", 32, type, 0)}, 128),
                StatusIs(kInvalid, HasSubstr("tensor w: unknown ggml type " +
                                             std::to_string(type))));
  }
}

TEST(GgufFile, RefusesTensorsInTheWrongPlace) {
  const std::string a = gguf_tensor("a", 8, kF32, 0);
  EXPECT_THAT(open_tensors({a, gguf_tensor("b", 8, kF32, 33)}, 96),
              StatusIs(kInvalid, HasSubstr("tensor b: offset 33 is no multiple "
                                           "of the alignment, 32")));
  EXPECT_THAT(open_tensors({a, gguf_tensor("b", 8, kF32, 64)}, 96),
              StatusIs(kInvalid, HasSubstr("offset 64 leaves a hole after what "
                                           "comes before, which ends at 32")));
  EXPECT_THAT(
      open_tensors(
          {gguf_tensor("a", 9, kF32, 0), gguf_tensor("b", 8, kF32, 32)}, 96),
      StatusIs(kInvalid, HasSubstr("offset 32 overlaps what comes "
                                   "before, which ends at 64")));
  EXPECT_THAT(open_tensors({gguf_tensor("a", 8, kF32, ~0ULL)}, 32),
              StatusIs(kInvalid, HasSubstr("leads past the end of any file")));
  EXPECT_THAT(open_tensors({gguf_tensor("a", 8, kF32, (1ULL << 63) - 32)}, 32),
              StatusIs(kInvalid, HasSubstr("leads past the end of any file")));
}

TEST(GgufFile, RefusesTensorsPastTheEnd) {
  EXPECT_THAT(open_tensors({gguf_tensor("w", 8, kF32, 0)}, 31),
              StatusIs(kInvalid, HasSubstr("tensor w: ends 32 bytes behind the "
                                           "header's end at 64, the file has "
                                           "95 bytes: it is cut")));
}

TEST(GgufFile, RefusesTensorNamedTwice) {
  const std::string w = gguf_tensor("w", 8, kF32, 0);
  EXPECT_THAT(open_tensors({w, w}, 64),
              StatusIs(kInvalid, HasSubstr("duplicate tensor name w")));
}

TEST(GgufFile, RefusesHeaderPastTheLimit) {
  const TempDir dir;
  const std::string begin =
      GgufBytes{.key_count = 1,
                .body = gguf_key("k", kString, gguf_u64(200'000'000))}
          .bytes();
  const auto path = dir.write("w.gguf", begin);
  std::filesystem::resize_file(path, 300'000'000);  // sparse
  EXPECT_THAT(GgufFile::open(path),
              StatusIs(kInvalid, HasSubstr("past the limit of 100000000")));
}

}  // namespace
}  // namespace trnscout
