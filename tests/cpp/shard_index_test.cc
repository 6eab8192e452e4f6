#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

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

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kNotFound = absl::StatusCode::kNotFound;
constexpr char kIndex[] = "model.safetensors.index.json";

// Opens a directory with this index and one shard, x.safetensors, that holds w.
absl::StatusOr<Checkpoint> open_index(const std::string& json) {
  const TempDir dir;
  dir.write(kIndex, json);
  dir.write("x.safetensors", u8_file("w"));
  return Checkpoint::open(dir.path());
}

std::string map_w_to(const std::string& shard) {
  return R"({"weight_map":{"w":")" + shard + R"("}})";
}

TEST(ShardIndex, IsReadWithUnknownKeysBesideTheMap) {
  const auto checkpoint = open_index(
      R"({"extra":[1,{"weight_map":3}],"metadata":{"total_size":4,"deep":{)"
      R"("total_size":9}},"weight_map":{"w":"x.safetensors"},"tail":null})");
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_THAT(checkpoint->warnings(), IsEmpty());
}

TEST(ShardIndex, NeedsNoMetadata) {
  const auto checkpoint = open_index(map_w_to("x.safetensors"));
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_THAT(checkpoint->warnings(), IsEmpty());
}

TEST(ShardIndex, RefusesTextThatIsNotJson) {
  const std::string good = map_w_to("x.safetensors");
  for (const std::string& json :
       {std::string(), good.substr(0, 20), good + "x",
        good + std::string(1, '\0'), "\xEF\xBB\xBF" + good, map_w_to("\xFF"),
        map_w_to("\\0.txt")}) {
    SCOPED_TRACE(json);
    EXPECT_THAT(
        open_index(json),
        StatusIs(kInvalid, AllOf(HasSubstr(kIndex), HasSubstr("not JSON: "))));
  }
}

TEST(ShardIndex, RefusesMapsOfAnotherForm) {
  const std::vector<std::pair<std::string, std::string>> indexes = {
      {"[]", "not an object"},
      {"3", "not an object"},
      {"{}", "weight_map is missing"},
      {R"({"metadata":{"weight_map":{}}})", "weight_map is missing"},
      {R"({"weight_map":{}})", "weight_map names no tensors"},
      {R"({"weight_map":null})", "weight_map is null, not an object"},
      {R"({"weight_map":["x"]})", "weight_map is an array, not an object"},
      {R"({"weight_map":{"w":1}})", "tensor w maps to 1, not to a file name"},
      {R"({"weight_map":{"w":null}})", "tensor w maps to null"},
      {R"({"weight_map":{"w":["x"]}})", "tensor w maps to an array"},
      {R"({"weight_map":{"w":{"x":"y"}}})", "tensor w maps to an object"},
      {R"({"weight_map":{},"weight_map":{"w":"x.safetensors"}})",
       "weight_map stands twice"}};
  for (const auto& [json, message] : indexes) {
    SCOPED_TRACE(json);
    EXPECT_THAT(open_index(json), StatusIs(kInvalid, HasSubstr(message)));
  }
}

TEST(ShardIndex, RefusesDuplicateTensorNames) {
  EXPECT_THAT(
      open_index(R"({"weight_map":{"w":"x.safetensors","w":"y.safetensors"}})"),
      StatusIs(kInvalid, HasSubstr("weight_map: duplicate tensor name w")));
  EXPECT_THAT(
      open_index(R"({"weight_map":{"w":"x.safetensors","w":"x.safetensors"}})"),
      StatusIs(kInvalid, HasSubstr("weight_map: duplicate tensor name w")));
}

TEST(ShardIndex, RefusesDeepNesting) {
  EXPECT_THAT(open_index(R"({"a":)" + std::string(1'000'000, '[')),
              StatusIs(kInvalid, HasSubstr("deeper than the limit of 64")));
}

TEST(ShardIndex, RefusesFilePastTheLimit) {
  const TempDir dir;
  const fs::path path = dir.write(kIndex, "{");
  // Sparse: the bytes are not there.
  fs::resize_file(path, 100'000'001);
  EXPECT_THAT(
      Checkpoint::open(dir.path()),
      StatusIs(kInvalid, HasSubstr("index of 100000001 bytes is past the limit "
                                   "of 100000000")));
}

// Names and links of C106.
TEST(ShardIndex, RefusesNamesThatLeaveTheDirectory) {
  const TempDir above;
  above.write("secret.safetensors", u8_file("w"));
  const fs::path dir = above.path() / "model";
  const std::vector<std::pair<std::string, std::string>> names = {
      {"../secret.safetensors", "leads out of the directory"},
      {"/etc/hostname", "is absolute"},
      {"a/../../secret.safetensors", "leads out of the directory"},
      {"..", "leads out of the directory"},
      {"x.safetensors\\u0000.txt", "holds NUL"},
      {"", "is empty"},
      {"..\\\\secret.safetensors", "holds a backslash"},
      {"./x.safetensors", "is not in its plain form"},
      {"a//x.safetensors", "is not in its plain form"},
      {"x.safetensors/", "is not in its plain form"}};
  for (const auto& [name, message] : names) {
    SCOPED_TRACE(name);
    above.write(std::string("model/") + kIndex, map_w_to(name));
    EXPECT_THAT(Checkpoint::open(dir),
                StatusIs(kInvalid, AllOf(HasSubstr("weight_map: shard name"),
                                         HasSubstr(message))));
  }
}

TEST(ShardIndex, TakesShardInASubdirectory) {
  const TempDir dir;
  dir.write(kIndex, map_w_to("sub/ok.safetensors"));
  dir.write("sub/ok.safetensors", u8_file("w"));
  const auto checkpoint = Checkpoint::open(dir.path());
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_EQ(checkpoint->shards().at(0).file_name, "sub/ok.safetensors");
}

TEST(ShardIndex, RefusesShardsThatAreNotRegularFiles) {
  const TempDir dir;
  dir.write(kIndex, map_w_to("shard"));
  fs::create_directory(dir.path() / "shard");
  EXPECT_THAT(Checkpoint::open(dir.path()),
              StatusIs(kInvalid, HasSubstr("shard: a directory, not")));
  fs::remove(dir.path() / "shard");
  ASSERT_EQ(::mkfifo((dir.path() / "shard").c_str(), 0600), 0);
  EXPECT_THAT(Checkpoint::open(dir.path()),
              StatusIs(kInvalid, HasSubstr("shard: a FIFO, not")));
  fs::remove(dir.path() / "shard");
  fs::create_symlink("/dev/zero", dir.path() / "shard");
  EXPECT_THAT(Checkpoint::open(dir.path()),
              StatusIs(kInvalid, HasSubstr("leads out of the directory")));
}

TEST(ShardIndex, RefusesLinksThatLeaveTheDirectory) {
  const TempDir outside;
  outside.write("secret.safetensors", u8_file("w"));
  const TempDir dir;
  dir.write(kIndex, map_w_to("sub/secret.safetensors"));
  fs::create_directory_symlink(outside.path(), dir.path() / "sub");
  EXPECT_THAT(Checkpoint::open(dir.path()),
              StatusIs(kInvalid, HasSubstr("leads out of the directory")));
}

TEST(ShardIndex, RefusesNameThatTheSystemCannotHold) {
  EXPECT_THAT(open_index(map_w_to(std::string(300, 'a'))),
              StatusIs(kInvalid, HasSubstr("File name too long")));
}

TEST(ShardIndex, RefusesPartOfANumberedFamily) {
  EXPECT_THAT(
      open_index(map_w_to("model-00001-of-00002.safetensors")),
      StatusIs(kInvalid, HasSubstr("names 1 of the 2 shards model-*-of-2; "
                                   "absent: 2")));
  EXPECT_THAT(open_index(map_w_to("m.safetensors-00007-of-000163.safetensors")),
              StatusIs(kInvalid, HasSubstr("absent: 1, 2, 3, 4, ...")));
  EXPECT_THAT(
      open_index(map_w_to("m-1-of-9223372036854775807.safetensors")),
      StatusIs(kInvalid, HasSubstr("names 1 of the 9223372036854775807")));
  EXPECT_THAT(open_index(R"({"weight_map":{"a":"m-00001-of-00002.safetensors",)"
                         R"("b":"m-00003-of-00002.safetensors"}})"),
              StatusIs(kInvalid, HasSubstr("names 1 of the 2")));
}

TEST(ShardIndex, TakesWholeFamilyCountedFromZero) {
  const TempDir dir;
  dir.write(kIndex, R"({"weight_map":{"a":"m-00000-of-00002.safetensors",)"
                    R"("b":"m-00001-of-00002.safetensors"}})");
  dir.write("m-00000-of-00002.safetensors", u8_file("a"));
  dir.write("m-00001-of-00002.safetensors", u8_file("b"));
  EXPECT_THAT(Checkpoint::open(dir.path()), IsOk());
}

TEST(ShardIndex, TakesNamesThatAreNoFamily) {
  for (const char* name :
       {"x-of-2.safetensors", "-of-.safetensors", "x-1-of-y.safetensors",
        "x-1-of-99999999999999999999.safetensors", "x1of2"}) {
    EXPECT_THAT(open_index(map_w_to(name)),
                StatusIs(kNotFound, HasSubstr("1 of its 1 shard missing")))
        << name;
  }
}

TEST(ShardIndex, WarnsOfTotalSizeThatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> sizes = {
      {"5", "is 5 bytes, the headers add up to 4"},
      {"18446744073709551615", "is 18446744073709551615 bytes"},
      {"4.0", "is 4.0, not a whole number"},
      {"-4", "is -4, not a whole number"},
      {"\"4\"", "is \"4\", not a whole number"},
      {"null", "is null, not a whole number"}};
  for (const auto& [size, message] : sizes) {
    SCOPED_TRACE(size);
    const auto checkpoint =
        open_index(R"({"metadata":{"total_size":)" + size +
                   R"(},"weight_map":{"w":"x.safetensors"}})");
    ASSERT_THAT(checkpoint, IsOk());
    EXPECT_EQ(checkpoint->total_bytes(), 4);
    EXPECT_THAT(checkpoint->warnings(), ElementsAre(HasSubstr(message)));
  }
}

}  // namespace
}  // namespace trnscout
