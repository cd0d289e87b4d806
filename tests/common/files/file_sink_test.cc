// SPDX-License-Identifier: Apache-2.0
#include "common/files/file_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/closed_input.h"
#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(FileSink, BytesComeInOrder) {
  const TemporaryDirectory directory;
  std::minstd_rand random(7);
  // Stable bytes live until the end.
  std::vector<std::unique_ptr<std::string>> blocks;
  std::string expected;
  const std::unique_ptr<FileSink> file = FileSink::Create(directory.path(), "x").value();
  for (int i = 0; i < 3000; ++i) {
    const size_t size = i % 7 == 0 ? random() % 300'000 : random() % 9'000;
    blocks.push_back(std::make_unique<std::string>(size, static_cast<char>('a' + i % 26)));
    expected += *blocks.back();
    if (i % 2 == 0) {
      ASSERT_TRUE(file->Write(*blocks.back(), true).ok());
    } else {
      std::string passing = *blocks.back();
      ASSERT_TRUE(file->Write(passing, false).ok());
      std::fill(passing.begin(), passing.end(), '!');
    }
  }
  EXPECT_EQ(file->bytes(), expected.size());
  ASSERT_TRUE(file->Publish().ok());
  EXPECT_TRUE(ReadAll(directory.path() + "/x") == expected);
}

TEST(FileSink, AFileSizeLimitIsAnErrorAndNoSignal) {
  const TemporaryDirectory directory;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{1 << 20, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  absl::Status status;
  {
    const std::unique_ptr<FileSink> file = FileSink::Create(directory.path(), "x").value();
    const std::string block(1 << 20, 'x');
    for (int i = 0; i < 4 && status.ok(); ++i) status = file->Write(block, true);
    if (status.ok()) status = file->Flush();
    EXPECT_FALSE(file->Publish().ok());
  }
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("ulimit -f"));
  EXPECT_THAT(List(directory.path()), IsEmpty());
  // Nothing is left pending that would end the process later.
  sigset_t pending;
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGXFSZ), 0);
}

TEST(FileSink, AFullDiskLeavesNothingBehind) {
  const TemporaryDirectory directory;
  if (mount("none", directory.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "no file system can be mounted here";
  }
  absl::Status status;
  {
    const std::unique_ptr<FileSink> file = FileSink::Create(directory.path(), "x").value();
    const std::string block(4 << 20, 'x');
    status = file->Write(block, true);
    if (status.ok()) status = file->Publish();
  }
  EXPECT_THAT(List(directory.path()), IsEmpty());
  umount(directory.path().c_str());
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("make room"));
}

// Otherwise what a job prints would be in its trace.
TEST(FileSink, AClosedStandardDescriptorStaysClosed) {
  const TemporaryDirectory directory;
  const ClosedInput input;
  const std::unique_ptr<FileSink> file = FileSink::Create(directory.path(), "x").value();
  EXPECT_FALSE(input.taken());
  ASSERT_TRUE(file->Write("trace", false).ok());
  ASSERT_TRUE(file->Publish().ok());
  EXPECT_EQ(ReadAll(directory.path() + "/x"), "trace");
}

TEST(FileSink, AMissingDirectoryAndAnotherSinkAreNamed) {
  const TemporaryDirectory directory;
  const absl::Status missing = FileSink::Create(directory.path() + "/gone", "x").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(missing.message()),
              HasSubstr("No such file or directory; its directory does not exist"));

  const std::unique_ptr<FileSink> file = FileSink::Create(directory.path(), "x").value();
  EXPECT_EQ(FileSink::Create(directory.path(), "x").status().code(),
            absl::StatusCode::kAlreadyExists);
}

TEST(FileSink, AReadOnlyDiskIsNamedWithARemedy) {
  const TemporaryDirectory directory;
  if (mount("none", directory.path().c_str(), "tmpfs", MS_RDONLY, "size=1m") != 0) {
    GTEST_SKIP() << "no file system can be mounted here";
  }
  const absl::Status status = FileSink::Create(directory.path(), "x").status();
  umount(directory.path().c_str());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Read-only file system; write elsewhere"));
}

}  // namespace
}  // namespace jobscope
