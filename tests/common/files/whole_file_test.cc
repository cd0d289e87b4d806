// SPDX-License-Identifier: Apache-2.0
#include "common/files/whole_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/files/directory_lock.h"
#include "common/files/file_sink.h"
#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

bool fails_close = false;

}  // namespace
}  // namespace jobscope

// The linker directs the library's calls of close here (--wrap).
extern "C" {
int __real_close(int fd);
int __wrap_close(int fd) {
  const int result = __real_close(fd);
  if (!jobscope::fails_close) return result;
  errno = EDQUOT;
  return -1;
}
}

namespace jobscope {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(WholeFile, ReplacesWhatWasThere) {
  const TemporaryDirectory directory;
  directory.Write("page", "an older and longer page");
  ASSERT_TRUE(WriteWholeFile(directory.path() + "/page", "new").ok());
  EXPECT_EQ(ReadAll(directory.path() + "/page"), "new");
  EXPECT_THAT(List(directory.path()), ElementsAre("page"));
}

mode_t ModeOf(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 ? info.st_mode & 0777 : 0;
}

TEST(WholeFile, IsForItsOwnerUnlessOthersAreNamedWhateverTheUmask) {
  const TemporaryDirectory directory;
  const std::string page = directory.path() + "/page";
  const mode_t before = umask(0);
  const absl::Status status = WriteWholeFile(page, "x");
  const mode_t own = ModeOf(page);
  umask(077);
  const absl::Status again = WriteWholeFile(page, "y", 0640);
  umask(before);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(own, 0600u);
  EXPECT_TRUE(again.ok()) << again;
  EXPECT_EQ(ModeOf(page), 0640u);
}

TEST(WholeFile, DoesNotReplaceWhatIsNoFile) {
  const TemporaryDirectory directory;
  directory.Write("target", "kept");
  const std::string link = directory.path() + "/link";
  ASSERT_EQ(symlink("target", link.c_str()), 0);
  const std::string pipe = directory.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const absl::Status over_link = WriteWholeFile(link, "x");
  EXPECT_EQ(over_link.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(over_link.message()), HasSubstr(link + ": it is a symbolic link"));
  EXPECT_FALSE(WriteWholeFile(pipe, "x").ok());
  EXPECT_FALSE(WriteWholeFile(directory.path(), "x").ok());
  EXPECT_EQ(ReadAll(link), "kept");
  EXPECT_THAT(List(directory.path()), ElementsAre("link", "pipe", "target"));
}

// As two reports of one run at the same time.
TEST(WholeFile, AWriterLeavesTheTemporaryFileOfAnother) {
  const TemporaryDirectory directory;
  const std::string page = directory.path() + "/page";
  const std::unique_ptr<FileSink> other = FileSink::CreateShared(directory.path(), "page").value();
  ASSERT_TRUE(other->Write("the page of another", false).ok());
  const absl::Status status = WriteWholeFile(page, "whole");
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(ReadAll(page), "whole");
  ASSERT_TRUE(other->Publish().ok());
  EXPECT_EQ(ReadAll(page), "the page of another");
  EXPECT_THAT(List(directory.path()), ElementsAre("page"));
}

// As of `flock . jobscope report RUN`.
TEST(WholeFile, ALockOfTheDirectoryIsNoObstacle) {
  const TemporaryDirectory directory;
  const std::string page = directory.path() + "/page";
  const DirectoryLock lock(page, std::chrono::seconds(1));
  const absl::Status status = WriteWholeFile(page, "whole");
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(ReadAll(page), "whole");
}

TEST(WholeFile, ALongNameLeavesRoomForTheTemporaryOne) {
  const TemporaryDirectory directory;
  const std::string name(255, 'p');
  const absl::Status status = WriteWholeFile(directory.path() + "/" + name, "whole");
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(List(directory.path()), ElementsAre(name));
}

TEST(WholeFile, ANameWithoutFolderIsInTheWorkingDirectory) {
  const TemporaryDirectory directory;
  char before[4096];
  ASSERT_NE(getcwd(before, sizeof before), nullptr);
  ASSERT_EQ(chdir(directory.path().c_str()), 0);
  const absl::Status status = WriteWholeFile("page", "x");
  ASSERT_EQ(chdir(before), 0);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(ReadAll(directory.path() + "/page"), "x");
}

TEST(WholeFile, AnErrorSaysWhy) {
  const TemporaryDirectory directory;
  const absl::Status status = WriteWholeFile(directory.path() + "/nothing/page", "x");
  EXPECT_THAT(std::string(status.message()), HasSubstr("No such file or directory"));
}

// NFS reports a quota that is exceeded when the file is closed.
TEST(WholeFile, AFailedCloseLeavesTheOldFile) {
  const TemporaryDirectory directory;
  directory.Write("page", "old");
  fails_close = true;
  const absl::Status status = WriteWholeFile(directory.path() + "/page", "new");
  fails_close = false;
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot close " + directory.path()));
  EXPECT_EQ(ReadAll(directory.path() + "/page"), "old");
  EXPECT_THAT(List(directory.path()), ElementsAre("page"));
}

TEST(WholeFile, AFullDiskLeavesTheOldFile) {
  const TemporaryDirectory directory;
  if (mount("none", directory.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "no file system can be mounted here";
  }
  directory.Write("page", "old");
  const absl::Status status = WriteWholeFile(directory.path() + "/page", std::string(4 << 20, 'x'));
  const std::string left = ReadAll(directory.path() + "/page");
  const auto names = List(directory.path());
  umount(directory.path().c_str());
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(left, "old");
  EXPECT_THAT(names, ElementsAre("page"));
}

}  // namespace
}  // namespace jobscope
