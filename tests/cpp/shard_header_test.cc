#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "safetensors_bytes.h"
#include "status_matchers.h"
#include "temp_dir.h"
#include "trnscout/checkpoint.h"

// Checkpoint::from_headers and Checkpoint::shard_names.

namespace trnscout {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kNotFound = absl::StatusCode::kNotFound;
constexpr char kSingle[] = "model.safetensors";
constexpr char kIndex[] = "model.safetensors.index.json";
constexpr char kFirst[] = "model-00001-of-00002.safetensors";
constexpr char kSecond[] = "model-00002-of-00002.safetensors";
constexpr char kIndexText[] = R"({"metadata":{"total_size":8},"weight_map":{)"
                              R"("a":"model-00001-of-00002.safetensors",)"
                              R"("b":"model-00002-of-00002.safetensors"}})";

// What a range request of length and header brings of this file.
ShardHeader header_of(const std::string& name, const std::string& file) {
  std::size_t length = 0;
  for (std::size_t i = 8; i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(file[i]);
  }
  return {name, static_cast<std::int64_t>(file.size()),
          file.substr(0, 8 + length)};
}

absl::StatusOr<Checkpoint> from_first_bytes(const std::string& bytes,
                                            std::int64_t file_bytes) {
  return Checkpoint::from_headers({{kSingle, file_bytes, bytes}});
}

// Tensors, names, sizes and warnings agree; only paths differ.
void expect_same(const Checkpoint& remote, const Checkpoint& local) {
  EXPECT_EQ(remote.tensors(), local.tensors());
  EXPECT_EQ(remote.warnings(), local.warnings());
  ASSERT_EQ(remote.shards().size(), local.shards().size());
  for (std::size_t i = 0; i < local.shards().size(); ++i) {
    EXPECT_EQ(remote.shards()[i].file_name, local.shards()[i].file_name);
    EXPECT_EQ(remote.shards()[i].bytes, local.shards()[i].bytes);
    EXPECT_THAT(remote.shards()[i].path.native(), IsEmpty());
    EXPECT_EQ(remote.shards()[i].modified_ns, 0);
  }
}

TEST(ShardHeader, EqualsTheFileThatItsHeaderIsOf) {
  const TempDir dir;
  dir.write(kSingle, u8_file("w"));
  const auto remote =
      Checkpoint::from_headers({header_of(kSingle, u8_file("w"))});
  ASSERT_THAT(remote, IsOk());
  expect_same(*remote, *Checkpoint::open(dir.path()));
}

TEST(ShardHeader, EqualsTheShardsInAnyOrder) {
  const std::string first = safetensors_bytes(
      "{" + u8_entry("a", 0, 4) + "," + u8_entry("norm", 4, 9) + "}", 9);
  const TempDir dir;
  dir.write(kIndex, kIndexText);
  dir.write(kFirst, first);
  dir.write(kSecond, u8_file("b"));
  const auto remote = Checkpoint::from_headers(
      {header_of(kSecond, u8_file("b")), header_of(kFirst, first)}, kIndexText);
  ASSERT_THAT(remote, IsOk());
  EXPECT_THAT(remote->warnings(), SizeIs(2));
  expect_same(*remote, *Checkpoint::open(dir.path()));
}

TEST(ShardHeader, TakesMoreThanTheHeader) {
  const std::string file = u8_file("w");
  EXPECT_THAT(from_first_bytes(file, static_cast<std::int64_t>(file.size())),
              IsOk());
}

TEST(ShardHeader, RefusesHeaderThatIsCut) {
  const std::string file = u8_file("w");
  const auto file_bytes = static_cast<std::int64_t>(file.size());
  for (std::size_t given = 0; given + 4 < file.size(); ++given) {
    SCOPED_TRACE(given);
    EXPECT_THAT(
        from_first_bytes(file.substr(0, given), file_bytes),
        StatusIs(kInvalid,
                 AllOf(HasSubstr("model.safetensors: length and "
                                 "header take"),
                       HasSubstr("only the first " + std::to_string(given)))));
  }
}

TEST(ShardHeader, RefusesSizesThatDoNotFit) {
  const std::string file = u8_file("w");
  const auto file_bytes = static_cast<std::int64_t>(file.size());
  const std::string start = file.substr(0, file.size() - 4);
  EXPECT_THAT(from_first_bytes(start, file_bytes - 1),
              StatusIs(kInvalid, HasSubstr("it is cut")));
  EXPECT_THAT(from_first_bytes(start, file_bytes + 1),
              StatusIs(kInvalid, HasSubstr("belong to no tensor")));
  EXPECT_THAT(from_first_bytes(start, 5),
              StatusIs(kInvalid, HasSubstr("has 5 bytes, yet its first")));
  EXPECT_THAT(from_first_bytes(start, -1),
              StatusIs(kInvalid, HasSubstr("has -1 bytes, yet its first")));
  EXPECT_THAT(from_first_bytes("", 0),
              StatusIs(kInvalid, HasSubstr("has 0 bytes, a header's")));
}

TEST(ShardHeader, NamesOtherFormats) {
  EXPECT_THAT(
      from_first_bytes("version https://git-lfs.github.com/spec/v1\n", 130),
      StatusIs(kInvalid, HasSubstr("Git LFS pointer")));
  EXPECT_THAT(from_first_bytes(std::string("GGUF\3\0\0\0 ", 9), 1000),
              StatusIs(kInvalid, HasSubstr("a GGUF file")));
}

TEST(ShardHeader, RefusesDamagedHeader) {
  const std::string twice =
      "{" + u8_entry("w", 0, 4) + "," + u8_entry("w", 4, 8) + "}";
  EXPECT_THAT(Checkpoint::from_headers(
                  {header_of(kSingle, safetensors_bytes(twice, 8))}),
              StatusIs(kInvalid, HasSubstr("model.safetensors: header: "
                                           "duplicate tensor name w")));
}

TEST(ShardHeader, NamesShardsWithoutAHeader) {
  EXPECT_THAT(
      Checkpoint::from_headers({header_of(kFirst, u8_file("a"))}, kIndexText),
      StatusIs(kNotFound,
               AllOf(HasSubstr("1 of its 2 shards missing, with 1 tensor"),
                     HasSubstr(std::string(kSecond) + " (1 tensor)"))));
}

TEST(ShardHeader, RefusesHeadersOfNoShard) {
  const ShardHeader first = header_of(kFirst, u8_file("a"));
  const ShardHeader second = header_of(kSecond, u8_file("b"));
  EXPECT_THAT(
      Checkpoint::from_headers({first, second, header_of("x", u8_file("x"))},
                               kIndexText),
      StatusIs(kInvalid, HasSubstr("names no shard x, for which a header")));
  EXPECT_THAT(Checkpoint::from_headers({first, first, second}, kIndexText),
              StatusIs(kInvalid, HasSubstr("two headers are given for " +
                                           std::string(kFirst))));
}

TEST(ShardHeader, TakesOneHeaderWhereThereIsNoIndex) {
  EXPECT_THAT(
      Checkpoint::from_headers({}),
      StatusIs(kInvalid, HasSubstr("0 headers given without an index")));
  EXPECT_THAT(
      Checkpoint::from_headers(
          {header_of(kFirst, u8_file("a")), header_of(kSecond, u8_file("b"))}),
      StatusIs(kInvalid, HasSubstr("2 headers given without an index")));
}

TEST(ShardHeader, RefusesHeaderThatLacksWhatTheIndexPlaces) {
  EXPECT_THAT(
      Checkpoint::from_headers(
          {header_of(kFirst, u8_file("a")), header_of(kSecond, u8_file("c"))},
          kIndexText),
      StatusIs(kInvalid, HasSubstr("lacks: b in " + std::string(kSecond))));
}

TEST(ShardHeader, RefusesTensorInTwoShardsThatTheIndexOmits) {
  const auto both = [](const std::string& name) {
    return safetensors_bytes(
        "{" + u8_entry(name, 0, 4) + "," + u8_entry("norm", 4, 8) + "}", 8);
  };
  EXPECT_THAT(Checkpoint::from_headers(
                  {header_of(kFirst, both("a")), header_of(kSecond, both("b"))},
                  kIndexText),
              StatusIs(kInvalid, HasSubstr("names neither")));
}

TEST(ShardHeader, RefusesSizesWhoseSumWraps) {
  constexpr std::size_t kEach = std::size_t{1} << 59;
  std::vector<ShardHeader> headers;
  for (const auto& [file, name] : {std::pair(kFirst, "a"), {kSecond, "b"}}) {
    std::string text = "{" + u8_entry(name, 0, kEach);
    for (std::size_t i = 1; i < 8; ++i) {
      text +=
          "," + u8_entry(name + std::to_string(i), i * kEach, (i + 1) * kEach);
    }
    const std::string first_bytes = safetensors_bytes(text + "}", 0);
    headers.push_back(
        {file, static_cast<std::int64_t>(first_bytes.size() + 8 * kEach),
         first_bytes});
  }
  EXPECT_THAT(Checkpoint::from_headers(headers, kIndexText),
              StatusIs(kInvalid, HasSubstr("model-00002-of-00002.safetensors: "
                                           "the shards up to this one have "
                                           "2^63 bytes or more")));
}

TEST(ShardHeader, RefusesDamagedIndex) {
  EXPECT_THAT(
      Checkpoint::from_headers({}, "[]"),
      StatusIs(kInvalid,
               HasSubstr("model.safetensors.index.json: not an object")));
}

TEST(ShardNames, AreSortedAndChecked) {
  const auto names = Checkpoint::shard_names(kIndexText);
  ASSERT_THAT(names, IsOk());
  EXPECT_THAT(*names, ElementsAre(kFirst, kSecond));
}

TEST(ShardNames, AreRefusedWhereTheyLeadOutOrTheIndexIsDamaged) {
  for (const char* name :
       {"../x", "/etc/hostname", "a/../../x", "", "a\\\\b"}) {
    EXPECT_THAT(Checkpoint::shard_names(R"({"weight_map":{"w":")" +
                                        std::string(name) + R"("}})"),
                StatusIs(kInvalid, HasSubstr("weight_map: shard name")))
        << name;
  }
  EXPECT_THAT(Checkpoint::shard_names("{}"),
              StatusIs(kInvalid, HasSubstr("weight_map is missing")));
}

}  // namespace
}  // namespace trnscout
