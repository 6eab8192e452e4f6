#include "trnscout/mapped_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "safetensors_bytes.h"
#include "status_matchers.h"
#include "temp_dir.h"

namespace trnscout {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kSingle[] = "model.safetensors";
constexpr auto kChanged = absl::StatusCode::kFailedPrecondition;

std::string bytes_of(const TensorView& view) {
  return {reinterpret_cast<const char*>(view.data),
          static_cast<std::size_t>(view.bytes())};
}

// A file whose F32 tensor w = {1.5, -2.25} lies behind three odd bytes and a
// header that is padded with so many blanks.
std::string odd_file(std::size_t blanks) {
  const std::vector<float> values = {1.5F, -2.25F};
  std::string data = "abc";
  data.append(reinterpret_cast<const char*>(values.data()), 8);
  const std::string header =
      "{" + u8_entry("odd", 0, 3) +
      R"(,"w":{"dtype":"F32","shape":[2],"data_offsets":[3,11]}})" +
      std::string(blanks, ' ');
  return header_length_bytes(header.size()) + header + data;
}

absl::StatusOr<MappedCheckpoint> map(const fs::path& dir) {
  auto checkpoint = Checkpoint::open(dir);
  if (!checkpoint.ok()) return checkpoint.status();
  return MappedCheckpoint::map(*std::move(checkpoint));
}

// A directory with one file whose headers were read.
class ChangedCheckpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = dir_.write(kSingle, u8_file("w"));
    auto checkpoint = Checkpoint::open(dir_.path());
    ASSERT_THAT(checkpoint, IsOk());
    checkpoint_ = *std::move(checkpoint);
  }

  TempDir dir_;
  fs::path path_;
  Checkpoint checkpoint_;
};

TEST(MappedCheckpoint, GivesTheBytesOfEveryTensor) {
  const TempDir dir;
  dir.write("model.safetensors.index.json",
            R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})");
  dir.write("1.safetensors",
            safetensors_bytes("{" + u8_entry("a", 0, 4) + "}", 0) + "wxyz");
  dir.write("2.safetensors",
            safetensors_bytes("{" + u8_entry("b", 0, 2) + "}", 0) + "12");
  const auto mapped = map(dir.path());
  ASSERT_THAT(mapped, IsOk());
  EXPECT_EQ(bytes_of(*mapped->view("a")), "wxyz");
  EXPECT_EQ(bytes_of(*mapped->view("b")), "12");
  ASSERT_THAT(mapped->views(), SizeIs(2));
  EXPECT_EQ(bytes_of(mapped->views()[1]), "12");
  EXPECT_EQ(mapped->views()[1].info, &mapped->checkpoint().tensors()[1]);
}

TEST(MappedCheckpoint, ReadsElementsThatAreNotAligned) {
  std::vector<bool> seen(8, false);
  for (std::size_t blanks = 0; blanks < 8; ++blanks) {
    SCOPED_TRACE(blanks);
    const TempDir dir;
    dir.write(kSingle, odd_file(blanks));
    const auto mapped = map(dir.path());
    ASSERT_THAT(mapped, IsOk());
    const TensorView view = *mapped->view("w");
    ASSERT_EQ(view.count<float>(), 2);
    EXPECT_EQ(view.element<float>(0), 1.5F);
    EXPECT_EQ(view.element<float>(1), -2.25F);
    std::vector<float> copy(2);
    view.copy(copy.data());
    EXPECT_EQ(copy, (std::vector<float>{1.5F, -2.25F}));
    const auto place = reinterpret_cast<std::uintptr_t>(view.data) % 8;
    EXPECT_EQ(view.aligned_to(4), place % 4 == 0);
    seen[place] = true;
  }
  EXPECT_EQ(seen, std::vector<bool>(8, true));
}

TEST(MappedCheckpoint, GivesTensorsWithoutElementsAPlace) {
  const TempDir dir;
  dir.write(kSingle, safetensors_bytes("{" + u8_entry("z", 0, 0) + "}", 0));
  const auto mapped = map(dir.path());
  ASSERT_THAT(mapped, IsOk());
  EXPECT_NE(mapped->view("z")->data, nullptr);
  EXPECT_EQ(mapped->view("z")->bytes(), 0);
}

TEST(MappedCheckpoint, KeepsItsViewsWhenItIsMoved) {
  const TempDir dir;
  dir.write(kSingle, odd_file(0));
  auto mapped = map(dir.path());
  ASSERT_THAT(mapped, IsOk());
  const TensorView view = *mapped->view("odd");
  const MappedCheckpoint moved = *std::move(mapped);
  EXPECT_EQ(bytes_of(view), "abc");
  EXPECT_EQ(view.info->name, "odd");
  EXPECT_EQ(moved.view("odd")->data, view.data);
}

TEST(MappedCheckpoint, KeepsItsBytesWhenTheFileIsReplaced) {
  const TempDir dir;
  const fs::path path = dir.write(kSingle, odd_file(0));
  const auto mapped = map(dir.path());
  ASSERT_THAT(mapped, IsOk());
  fs::rename(dir.write("new", std::string(4, 'x')), path);
  EXPECT_EQ(bytes_of(*mapped->view("odd")), "abc");
  fs::remove(path);
  EXPECT_EQ(bytes_of(*mapped->view("odd")), "abc");
}

TEST(MappedCheckpoint, RefusesTensorThatIsNotThere) {
  const TempDir dir;
  dir.write(kSingle, u8_file("w"));
  const auto mapped = map(dir.path());
  ASSERT_THAT(mapped, IsOk());
  EXPECT_THAT(mapped->view("v"),
              StatusIs(absl::StatusCode::kNotFound,
                       "no tensor v among the 1 tensor of the checkpoint"));
}

TEST_F(ChangedCheckpoint, IsRefusedWhenAFileWasCut) {
  const auto size = fs::file_size(path_);
  fs::resize_file(path_, size - 1);
  EXPECT_THAT(MappedCheckpoint::map(checkpoint_),
              StatusIs(kChanged, AllOf(HasSubstr(path_.string()),
                                       HasSubstr(std::to_string(size - 1) +
                                                 " bytes, had " +
                                                 std::to_string(size)))));
}

TEST_F(ChangedCheckpoint, IsRefusedWhenAFileWasWrittenAgain) {
  dir_.write(kSingle, u8_file("v"));
  fs::last_write_time(path_,
                      fs::last_write_time(path_) + std::chrono::seconds(1));
  EXPECT_THAT(MappedCheckpoint::map(checkpoint_),
              StatusIs(kChanged, HasSubstr("was changed after its header")));
}

TEST_F(ChangedCheckpoint, IsRefusedWhenAFileIsGone) {
  fs::remove(path_);
  EXPECT_THAT(MappedCheckpoint::map(checkpoint_),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(path_.string())));
}

TEST_F(ChangedCheckpoint, IsRefusedWhenAFileBecameAFifo) {
  fs::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(MappedCheckpoint::map(checkpoint_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("a FIFO, not a regular file")));
}

TEST_F(ChangedCheckpoint, PassesOnWhatTheSystemSays) {
  fs::remove(path_);
  fs::create_symlink(kSingle, path_);
  EXPECT_THAT(MappedCheckpoint::map(checkpoint_),
              StatusIs(absl::ErrnoToStatusCode(ELOOP),
                       HasSubstr("Too many levels of symbolic links")));
}

TEST(MappedCheckpoint, RefusesCheckpointWithoutFiles) {
  const std::string file = u8_file("w");
  auto checkpoint = Checkpoint::from_headers(
      {{kSingle, static_cast<std::int64_t>(file.size()), file}});
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_THAT(MappedCheckpoint::map(*std::move(checkpoint)),
              StatusIs(kChanged, HasSubstr("model.safetensors: only its header "
                                           "is here")));
}

}  // namespace
}  // namespace trnscout
