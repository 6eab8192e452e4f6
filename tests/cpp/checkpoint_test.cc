#include "trnscout/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "safetensors_bytes.h"
#include "status_matchers.h"
#include "temp_dir.h"

namespace trnscout {
namespace {

namespace fs = std::filesystem;
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

// `a` in the first shard, `b` in the second.
std::string two_shard_index() {
  return std::string(R"({"metadata":{"total_size":8},"weight_map":{"a":")") +
         kFirst + R"(","b":")" + kSecond + R"("}})";
}

TEST(Checkpoint, ReadsSingleFile) {
  const TempDir dir;
  const std::string bytes = u8_file("w");
  const fs::path path = dir.write(kSingle, bytes);
  const auto checkpoint = Checkpoint::open(dir.path());
  ASSERT_THAT(checkpoint, IsOk());
  struct stat about {};
  ASSERT_EQ(::stat(path.c_str(), &about), 0);
  const CheckpointShard shard{
      kSingle, path, static_cast<std::int64_t>(bytes.size()),
      about.st_mtim.tv_sec * 1'000'000'000 + about.st_mtim.tv_nsec};
  EXPECT_THAT(checkpoint->shards(), ElementsAre(shard));
  EXPECT_THAT(checkpoint->tensors(), SizeIs(1));
  EXPECT_THAT(checkpoint->warnings(), IsEmpty());
}

TEST(Checkpoint, ReadsShardsInOrderOfTheirNames) {
  const TempDir dir;
  dir.write(kIndex, two_shard_index());
  dir.write(kSecond, u8_file("b"));
  dir.write(kFirst, u8_file("a"));
  const auto checkpoint = Checkpoint::open(dir.path());
  ASSERT_THAT(checkpoint, IsOk());
  ASSERT_THAT(checkpoint->shards(), SizeIs(2));
  EXPECT_EQ(checkpoint->shards()[0].file_name, kFirst);
  EXPECT_EQ(checkpoint->shards()[1].path, dir.path() / kSecond);
  EXPECT_EQ(checkpoint->find("a")->shard, 0u);
  EXPECT_EQ(checkpoint->find("b")->shard, 1u);
  EXPECT_EQ(checkpoint->total_bytes(), 8);
  EXPECT_THAT(checkpoint->warnings(), IsEmpty());
}

TEST(Checkpoint, FindsTensorsByTheirWholeName) {
  const TempDir dir;
  dir.write(kSingle, safetensors_bytes("{" + u8_entry("model.b", 0, 4) + "," +
                                           u8_entry("model.a", 4, 6) + "}",
                                       6));
  const auto checkpoint = Checkpoint::open(dir.path());
  ASSERT_THAT(checkpoint, IsOk());
  ASSERT_NE(checkpoint->find("model.a"), nullptr);
  EXPECT_EQ(checkpoint->find("model.a")->bytes(), 2);
  EXPECT_EQ(checkpoint->find("model.b")->bytes(), 4);
  for (const char* absent : {"", "model", "model.aa", "model.c", "z"}) {
    EXPECT_EQ(checkpoint->find(absent), nullptr) << absent;
  }
}

TEST(Checkpoint, IsAValue) {
  const TempDir dir;
  dir.write(kSingle, u8_file("w"));
  const auto opened = Checkpoint::open(dir.path());
  ASSERT_THAT(opened, IsOk());
  Checkpoint copy = *opened;
  EXPECT_EQ(copy, *opened);
  const Checkpoint moved = std::move(copy);
  EXPECT_EQ(moved, *opened);
  EXPECT_NE(moved, Checkpoint());
  EXPECT_EQ(Checkpoint().find("w"), nullptr);
}

TEST(Checkpoint, TakesTheSingleFileBeforeTheIndex) {
  const TempDir dir;
  dir.write(kSingle, u8_file("w"));
  dir.write(kIndex, two_shard_index());
  const auto checkpoint = Checkpoint::open(dir.path());
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_NE(checkpoint->find("w"), nullptr);
  EXPECT_THAT(checkpoint->warnings(), ElementsAre(HasSubstr(kIndex)));
}

TEST(Checkpoint, RefusesDirectoryThatIsNotThere) {
  const TempDir dir;
  EXPECT_THAT(Checkpoint::open(dir.path() / "absent"),
              StatusIs(kNotFound, HasSubstr("/absent: cannot open")));
}

TEST(Checkpoint, RefusesFileInPlaceOfADirectory) {
  const TempDir dir;
  const fs::path path = dir.write(kSingle, u8_file("w"));
  EXPECT_THAT(Checkpoint::open(path),
              StatusIs(kInvalid, HasSubstr("is not a directory")));
}

TEST(Checkpoint, SaysWhatIsThereInPlaceOfWeights) {
  const TempDir dir;
  const std::string nothing =
      "no model.safetensors or model.safetensors.index.json in " +
      dir.path().string();
  EXPECT_THAT(Checkpoint::open(dir.path()), StatusIs(kNotFound, nothing));
  dir.write("pytorch_model.bin", "x");
  dir.write("model-q4.gguf", "x");
  EXPECT_THAT(
      Checkpoint::open(dir.path()),
      StatusIs(kNotFound, nothing + "; this format is not read: "
                                    "model-q4.gguf, pytorch_model.bin"));
}

TEST(Checkpoint, SaysThatNoIndexNamesTheShards) {
  const TempDir dir;
  dir.write(kFirst, u8_file("a"));
  EXPECT_THAT(
      Checkpoint::open(dir.path()),
      StatusIs(kNotFound, HasSubstr(std::string("no index names ") + kFirst)));
}

TEST(Checkpoint, NamesUnfinishedDownloadOfTheSingleFile) {
  const TempDir dir;
  dir.write("model.safetensors.part", "x");
  EXPECT_THAT(Checkpoint::open(dir.path()),
              StatusIs(kNotFound, HasSubstr("unfinished download: "
                                            "model.safetensors.part")));
}

TEST(Checkpoint, NamesUnfinishedDownloadOfTheHubClient) {
  const TempDir dir;
  dir.write(".cache/huggingface/download/b0.9f.incomplete", "x");
  EXPECT_THAT(Checkpoint::open(dir.path()),
              StatusIs(kNotFound, AllOf(HasSubstr("unfinished downloads in"),
                                        HasSubstr("b0.9f.incomplete"))));
}

TEST(Checkpoint, RefusesMissingShardsWithTheirTensors) {
  const TempDir dir;
  dir.write(kIndex, std::string(R"({"weight_map":{"a":")") + kFirst +
                        R"(","b":")" + kSecond + R"(","c":")" + kFirst +
                        R"("}})");
  dir.write(kSecond, u8_file("b"));
  dir.write(std::string(kFirst) + ".incomplete", "x");
  EXPECT_THAT(
      Checkpoint::open(dir.path()),
      StatusIs(kNotFound,
               AllOf(HasSubstr((dir.path() / kIndex).string()),
                     HasSubstr("1 of its 2 shards missing, with 2 tensors: "
                               "model-00001-of-00002.safetensors (2 tensors)"),
                     HasSubstr("unfinished download: model-00001-of-00002"
                               ".safetensors.incomplete"))));
}

TEST(Checkpoint, RefusesCutShardNamingBothSizes) {
  const TempDir dir;
  const std::string whole = u8_file("b");
  dir.write(kIndex, two_shard_index());
  dir.write(kFirst, u8_file("a"));
  dir.write(kSecond, whole.substr(0, whole.size() - 1));
  EXPECT_THAT(Checkpoint::open(dir.path()),
              StatusIs(kInvalid,
                       AllOf(HasSubstr((dir.path() / kSecond).string()),
                             HasSubstr("needs " + std::to_string(whole.size()) +
                                       " bytes by its header, has " +
                                       std::to_string(whole.size() - 1)))));
}

TEST(Checkpoint, RefusesTensorThatItsShardLacks) {
  const TempDir dir;
  dir.write(kIndex, two_shard_index());
  dir.write(kFirst, u8_file("a"));
  dir.write(kSecond, u8_file("other"));
  EXPECT_THAT(
      Checkpoint::open(dir.path()),
      StatusIs(kInvalid,
               HasSubstr("names 1 tensor that the shard's header lacks: b "
                         "in model-00002-of-00002.safetensors")));
}

TEST(Checkpoint, KeepsTensorThatTheIndexOmitsAndWarns) {
  const TempDir dir;
  dir.write(kIndex, two_shard_index());
  dir.write(kFirst, safetensors_bytes("{" + u8_entry("a", 0, 4) + "," +
                                          u8_entry("norm", 4, 8) + "}",
                                      8));
  dir.write(kSecond, u8_file("b"));
  const auto checkpoint = Checkpoint::open(dir.path());
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_NE(checkpoint->find("norm"), nullptr);
  EXPECT_EQ(checkpoint->total_bytes(), 12);
  EXPECT_THAT(
      checkpoint->warnings(),
      ElementsAre(HasSubstr("model-00001-of-00002.safetensors holds 1 tensor "
                            "that the index does not name: norm"),
                  HasSubstr("total_size of the index is 8 bytes, the headers "
                            "add up to 12")));
}

TEST(Checkpoint, KeepsTheCopyThatTheIndexPlaces) {
  const TempDir dir;
  dir.write(kIndex, two_shard_index());
  dir.write(kFirst, safetensors_bytes("{" + u8_entry("a", 0, 4) + "," +
                                          u8_entry("b", 4, 7) + "}",
                                      7));
  dir.write(kSecond, u8_file("b"));
  const auto checkpoint = Checkpoint::open(dir.path());
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_THAT(checkpoint->tensors(), SizeIs(2));
  EXPECT_EQ(checkpoint->find("b")->shard, 1u);
  EXPECT_EQ(checkpoint->total_bytes(), 8);
  EXPECT_THAT(checkpoint->warnings(),
              ElementsAre(HasSubstr("places elsewhere, left out: b")));
}

TEST(Checkpoint, RefusesTensorInTwoShardsThatTheIndexOmits) {
  const TempDir dir;
  dir.write(kIndex, two_shard_index());
  for (const auto& [file, tensor] : {std::pair(kFirst, "a"), {kSecond, "b"}}) {
    dir.write(file, safetensors_bytes("{" + u8_entry(tensor, 0, 4) + "," +
                                          u8_entry("norm", 4, 8) + "}",
                                      8));
  }
  EXPECT_THAT(Checkpoint::open(dir.path()),
              StatusIs(kInvalid, AllOf(HasSubstr("tensor norm is in"),
                                       HasSubstr("names neither"))));
}

TEST(Checkpoint, RefusesFilesThatAreNotRegular) {
  const TempDir dir;
  fs::create_directory(dir.path() / kSingle);
  EXPECT_THAT(Checkpoint::open(dir.path()),
              StatusIs(kInvalid, HasSubstr("a directory, not a regular file")));
  fs::remove(dir.path() / kSingle);
  ASSERT_EQ(::mkfifo((dir.path() / kSingle).c_str(), 0600), 0);
  EXPECT_THAT(Checkpoint::open(dir.path()),
              StatusIs(kInvalid, HasSubstr("a FIFO, not a regular file")));
}

TEST(Checkpoint, RefusesIndexThatIsNotRegular) {
  const TempDir dir;
  ASSERT_EQ(::mkfifo((dir.path() / kIndex).c_str(), 0600), 0);
  EXPECT_THAT(Checkpoint::open(dir.path()),
              StatusIs(kInvalid, HasSubstr("a FIFO, not a regular file")));
}

TEST(Checkpoint, RefusesLinkThatLeadsOut) {
  const TempDir outside;
  const fs::path target = outside.write("secret.safetensors", u8_file("w"));
  const TempDir dir;
  fs::create_symlink(target, dir.path() / kSingle);
  EXPECT_THAT(Checkpoint::open(dir.path()),
              StatusIs(kInvalid, AllOf(HasSubstr("leads out of the directory"),
                                       HasSubstr(target.string()))));
  // A directory whose name begins alike is outside too.
  const fs::path twin = dir.path().string() + "-twin";
  fs::create_directory(twin);
  fs::copy_file(target, twin / "w");
  fs::remove(dir.path() / kSingle);
  fs::create_symlink(twin / "w", dir.path() / kSingle);
  EXPECT_THAT(Checkpoint::open(dir.path()),
              StatusIs(kInvalid, HasSubstr("leads out of the directory")));
  fs::remove_all(twin);
}

TEST(Checkpoint, TakesLinkThatStaysInside) {
  const TempDir dir;
  dir.write("files/w", u8_file("w"));
  fs::create_symlink("files/w", dir.path() / kSingle);
  EXPECT_THAT(Checkpoint::open(dir.path()), IsOk());
}

TEST(Checkpoint, TakesTheDirectoryItselfAsALink) {
  const TempDir dir;
  dir.write("real/model.safetensors", u8_file("w"));
  fs::create_directory_symlink("real", dir.path() / "link");
  const auto checkpoint = Checkpoint::open(dir.path() / "link");
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_EQ(checkpoint->shards()[0].path, dir.path() / "real" / kSingle);
}

TEST(Checkpoint, RefusesLinkToNothing) {
  const TempDir dir;
  fs::create_symlink("absent", dir.path() / kSingle);
  EXPECT_THAT(Checkpoint::open(dir.path()),
              StatusIs(kNotFound, HasSubstr("its link leads to nothing")));
}

TEST(Checkpoint, PassesOnWhatTheSystemSays) {
  const TempDir dir;
  fs::create_symlink(kSingle, dir.path() / kSingle);
  EXPECT_THAT(Checkpoint::open(dir.path()),
              StatusIs(absl::ErrnoToStatusCode(ELOOP),
                       HasSubstr("Too many levels of symbolic links")));
}

// A hub cache: REPO/snapshots/REVISION links to REPO/blobs.
class HubCache : public ::testing::Test {
 protected:
  HubCache() {
    fs::create_directories(snapshot_);
    dir_.write("repo/blobs/0a", u8_file("a"));
    dir_.write("repo/blobs/0b", u8_file("b"));
    dir_.write("repo/blobs/0c", two_shard_index());
    dir_.write("repo/secret", u8_file("b"));
    link("0c", kIndex);
    link("0a", kFirst);
  }

  void link(const std::string& blob, const std::string& name) const {
    fs::create_symlink("../../blobs/" + blob, snapshot_ / name);
  }

  TempDir dir_;
  fs::path snapshot_ = dir_.path() / "repo" / "snapshots" / "main";
};

TEST_F(HubCache, IsReadThroughItsLinks) {
  link("0b", kSecond);
  const auto checkpoint = Checkpoint::open(snapshot_);
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_THAT(checkpoint->tensors(), SizeIs(2));
  EXPECT_EQ(checkpoint->shards()[1].path, snapshot_ / kSecond);
}

TEST_F(HubCache, MayHaveSubdirectories) {
  dir_.write("repo/blobs/0d", R"({"weight_map":{"b":"sub/b.safetensors"}})");
  fs::remove(snapshot_ / kIndex);
  link("0d", kIndex);
  fs::create_directory(snapshot_ / "sub");
  fs::create_symlink("../../../blobs/0b", snapshot_ / "sub/b.safetensors");
  EXPECT_THAT(Checkpoint::open(snapshot_), IsOk());
}

TEST_F(HubCache, IsLeftByNoOtherLink) {
  for (const char* target :
       {"../../secret", "../other/x", "../../blobs/deep/x", "../../../repo2"}) {
    SCOPED_TRACE(target);
    dir_.write("repo/snapshots/other/x", u8_file("b"));
    dir_.write("repo/blobs/deep/x", u8_file("b"));
    dir_.write("repo2", u8_file("b"));
    fs::create_symlink(target, snapshot_ / kSecond);
    EXPECT_THAT(Checkpoint::open(snapshot_),
                StatusIs(kInvalid, HasSubstr("leads out of the directory")));
    fs::remove(snapshot_ / kSecond);
  }
}

TEST_F(HubCache, NamesBlobsThatAreIncomplete) {
  link("0e", kSecond);
  dir_.write("repo/blobs/0e.incomplete", "x");
  EXPECT_THAT(Checkpoint::open(snapshot_),
              StatusIs(kNotFound,
                       AllOf(HasSubstr("model-00002-of-00002.safetensors (1 "),
                             HasSubstr("0e.incomplete"))));
}

// The same links in any other directory lead out of it.
TEST(Checkpoint, TakesBlobLinksInAHubCacheOnly) {
  const TempDir dir;
  dir.write("repo/blobs/0a", u8_file("w"));
  fs::create_directories(dir.path() / "repo/models/main");
  fs::create_symlink("../../blobs/0a",
                     dir.path() / "repo/models/main" / kSingle);
  EXPECT_THAT(Checkpoint::open(dir.path() / "repo/models/main"),
              StatusIs(kInvalid, HasSubstr("leads out of the directory")));
}

}  // namespace
}  // namespace trnscout
