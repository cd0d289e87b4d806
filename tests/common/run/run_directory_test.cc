// SPDX-License-Identifier: Apache-2.0
#include "common/run/run_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/files/file_sink.h"
#include "common/run/tfrecord.h"
#include "tests/temporary_directory.h"

namespace {

std::atomic<int> g_syncs{0};

}  // namespace

// Of this program, also of the library under test.
extern "C" int fsync(int fd) {
  ++g_syncs;
  return static_cast<int>(syscall(SYS_fsync, fd));
}

namespace jobscope {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

absl::StatusOr<RunDirectory> Create(const std::string& logdir, const std::string& run = "") {
  return RunDirectory::Create({logdir, run, 0});
}

TEST(RunDirectory, CapturesOfOneSecondDoNotCollide) {
  const TemporaryDirectory logdir;
  std::vector<std::thread> threads;
  std::vector<std::string> runs(16);
  for (size_t i = 0; i < runs.size(); ++i) {
    threads.emplace_back([&, i] { runs[i] = Create(logdir.path()).value().run(); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<std::string>(runs.begin(), runs.end()).size(), runs.size());
  for (const std::string& run : runs) {
    EXPECT_THAT(run, MatchesRegex("[0-9]{4}(_[0-9]{2}){5}(-[0-9]+)?"));
    EXPECT_THAT(List(logdir.path() + "/plugins/profile/" + run), IsEmpty());
  }
}

mode_t ModeOf(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
}

TEST(RunDirectory, TracesAreTheirOwnersUnlessOpened) {
  struct {
    mode_t umask, file_mode, file, directory;
  } const cases[] = {{0000, 0600, 0600, 0700},
                     {0022, 0600, 0600, 0700},
                     {0077, 0640, 0640, 0750},
                     {0077, 0644, 0644, 0755}};
  for (const auto& known : cases) {
    const TemporaryDirectory parent;
    const mode_t before = umask(known.umask);
    const auto run = RunDirectory::Create({parent.path() + "/logs", "r", 0, known.file_mode});
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_TRUE(run->CreateTrace("w").value()->Publish().ok());
    EXPECT_TRUE(run->CreateTrace("w", 2).value()->Publish().ok());
    EXPECT_TRUE(run->WriteManifest("{}").ok());
    EXPECT_TRUE(run->WriteMarker(absl::Now()).ok());
    EXPECT_EQ(umask(before), known.umask);
    size_t files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(parent.path())) {
      const bool is_file = entry.is_regular_file();
      files += is_file ? 1 : 0;
      EXPECT_EQ(ModeOf(entry.path()), is_file ? known.file : known.directory) << entry.path();
    }
    EXPECT_EQ(files, 4U);
  }
}

// A team shares a logdir by its group and its setgid bit.
TEST(RunDirectory, TheGroupOfTheLogdirIsPassedOn) {
  for (const mode_t file_mode : {0600, 0640, 0660}) {
    const TemporaryDirectory logdir;
    // Only root may give it to a group that is not its own.
    const gid_t group = geteuid() == 0 ? 12345 : getegid();
    ASSERT_EQ(chown(logdir.path().c_str(), geteuid(), group), 0);
    ASSERT_EQ(chmod(logdir.path().c_str(), 02775), 0);
    const auto run = RunDirectory::Create({logdir.path(), "r", 0, file_mode});
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_TRUE(run->CreateTrace("w").value()->Publish().ok());
    EXPECT_TRUE(run->CreateTrace("w", 2).value()->Publish().ok());
    EXPECT_TRUE(run->WriteManifest("{}").ok());
    size_t directories = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(logdir.path())) {
      struct stat info {};
      ASSERT_EQ(lstat(entry.path().c_str(), &info), 0);
      EXPECT_EQ(info.st_gid, group) << entry.path();
      if (!entry.is_directory()) continue;
      ++directories;
      EXPECT_NE(info.st_mode & S_ISGID, 0U) << entry.path();
    }
    EXPECT_EQ(directories, 4U);
  }
}

TEST(RunDirectory, WhatOthersMadeInASharedLogdirIsRefused) {
  const TemporaryDirectory logdir;
  ASSERT_EQ(chmod(logdir.path().c_str(), 01777), 0);
  const std::string plugins = logdir.path() + "/plugins";
  EXPECT_TRUE(Create(logdir.path(), "mine").ok());
  std::filesystem::remove_all(plugins);
  const TemporaryDirectory elsewhere;
  ASSERT_EQ(symlink(elsewhere.path().c_str(), plugins.c_str()), 0);
  EXPECT_THAT(std::string(Create(logdir.path(), "r").status().message()), HasSubstr("is a link"));
  EXPECT_THAT(List(elsewhere.path()), IsEmpty());
  ASSERT_EQ(unlink(plugins.c_str()), 0);
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a directory of another user";
  ASSERT_EQ(mkdir(plugins.c_str(), 0777), 0);
  ASSERT_EQ(chown(plugins.c_str(), 12345, 12345), 0);
  const absl::Status status = Create(logdir.path(), "r").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("belongs to user 12345"));
  EXPECT_THAT(List(plugins), IsEmpty());
  // Where nobody else can write, it is the owner's affair.
  ASSERT_EQ(chmod(logdir.path().c_str(), 0755), 0);
  EXPECT_TRUE(Create(logdir.path(), "r").ok());
}

TEST(RunDirectory, ALogdirThatSomebodyElseMadeInASharedPlaceIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a directory of another user";
  const TemporaryDirectory place;
  const std::string logdir = place.path() + "/logs";
  ASSERT_EQ(mkdir(logdir.c_str(), 0777), 0);
  ASSERT_EQ(chown(logdir.c_str(), 12345, 12345), 0);
  ASSERT_EQ(symlink(logdir.c_str(), (place.path() + "/link").c_str()), 0);
  ASSERT_EQ(chmod(place.path().c_str(), 01777), 0);
  for (const char* name : {"/logs", "/logs/", "/link", "/logs/../logs"}) {
    const absl::Status status = Create(place.path() + name, "r").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr("/logs belongs to user 12345")) << name;
  }
  EXPECT_THAT(List(logdir), IsEmpty());
  // A colleague's, in a place of the team.
  ASSERT_EQ(chmod(place.path().c_str(), 01770), 0);
  EXPECT_TRUE(Create(logdir, "r").ok());
}

TEST(RunDirectory, FurtherDirectoriesAreOursAsWell) {
  const TemporaryDirectory logdir;
  const TemporaryDirectory elsewhere;
  absl::StatusOr<RunDirectory> run = Create(logdir.path(), "r");
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ(chmod(logdir.path().c_str(), 01777), 0);
  const std::string failed = logdir.path() + "/failed_runs";
  ASSERT_EQ(symlink(elsewhere.path().c_str(), failed.c_str()), 0);
  EXPECT_THAT(std::string(run->SetAside().message()), HasSubstr("failed_runs is a link"));
  EXPECT_THAT(List(elsewhere.path()), IsEmpty());
  const std::string part = run->path() + ".part2";
  ASSERT_EQ(chmod(run->repository().c_str(), 01777), 0);
  ASSERT_EQ(symlink(elsewhere.path().c_str(), part.c_str()), 0);
  EXPECT_THAT(std::string(run->CreateTrace("w", 2).status().message()), HasSubstr("is a link"));
  EXPECT_THAT(List(elsewhere.path()), IsEmpty());
  ASSERT_EQ(unlink(failed.c_str()), 0);
  EXPECT_TRUE(run->SetAside().ok());
}

// Their traces would be taken for those of the new run.
TEST(RunDirectory, PartsThatAreLeftOfARunTakeItsName) {
  const TemporaryDirectory logdir;
  std::filesystem::create_directories(logdir.path() + "/plugins/profile/r.part2");
  const absl::Status status = Create(logdir.path(), "r").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr("or a part of it"));
  EXPECT_THAT(List(logdir.path() + "/plugins/profile"), ElementsAre("r.part2"));
}

TEST(RunDirectory, ALinkAndBackIsWhereTheLinkLeads) {
  const TemporaryDirectory logdir;
  std::filesystem::create_directories(logdir.path() + "/far/away");
  std::filesystem::create_directory_symlink(logdir.path() + "/far/away", logdir.path() + "/link");
  const absl::StatusOr<RunDirectory> run = Create(logdir.path() + "/link/../logs", "r");
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_TRUE(std::filesystem::exists(logdir.path() + "/far/logs/plugins/profile/r"));
  EXPECT_THAT(List(logdir.path()), ElementsAre("far", "link"));
}

TEST(RunDirectory, TheNameIsTheUsers) {
  const TemporaryDirectory logdir;
  const absl::StatusOr<RunDirectory> run = Create(logdir.path(), "before.fix-1");
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->path(), logdir.path() + "/plugins/profile/before.fix-1");
  const absl::Status again = Create(logdir.path(), "before.fix-1").status();
  EXPECT_EQ(again.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(again.message()), HasSubstr("before.fix-1"));
}

TEST(RunDirectory, NamesThatLeadElsewhereAreRefused) {
  for (const char* name : {"../x", "a/b", ".hidden", "-x", "a b", "a,b", "x.part2", "\xc3\xa4"}) {
    EXPECT_FALSE(CheckRunName(name).ok()) << name;
  }
  EXPECT_FALSE(CheckRunName("").ok());
  EXPECT_FALSE(CheckRunName(std::string(129, 'a')).ok());
  for (const char* name : {"a", "x.part", "part2", "x.part2a", "2026_01_01"}) {
    EXPECT_TRUE(CheckRunName(name).ok()) << name;
  }
}

TEST(RunDirectory, BadLogdirsAreRefusedByName) {
  const TemporaryDirectory directory;
  const std::string file = directory.Write("file", "");
  // Those that the system refuses, also to root.
  for (const std::string& logdir : {file, file + "/below", std::string("/proc/x")}) {
    const absl::Status status = Create(logdir).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << logdir;
    EXPECT_THAT(std::string(status.message()),
                MatchesRegex(absl::StrCat("logdir ", logdir,
                                          ": cannot create [^;]*; "
                                          "name a logdir that can be written")));
  }
  for (const std::string& logdir : {std::string(), std::string("gs://bucket/x"),
                                    directory.path() + "/" + std::string(300, 'a')}) {
    const absl::Status status = Create(logdir).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << logdir;
    EXPECT_THAT(std::string(status.message()), HasSubstr(logdir));
  }
}

TEST(RunDirectory, ADirectoryThatCannotBeWrittenIsRefused) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  const TemporaryDirectory logdir;
  chmod(logdir.path().c_str(), 0555);
  const absl::Status status = Create(logdir.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Permission"));
}

TEST(RunDirectory, TooLittleRoomIsFoundOutAtOnce) {
  const TemporaryDirectory logdir;
  const absl::Status status = RunDirectory::Create({logdir.path(), "", UINT64_MAX}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("make room"));
  EXPECT_THAT(List(logdir.path() + "/plugins/profile"), IsEmpty());
}

TEST(RunDirectory, ARelativeLogdirIsMadeAbsolute) {
  const TemporaryDirectory directory;
  const std::string before = std::filesystem::current_path();
  std::filesystem::current_path(directory.path());
  const absl::StatusOr<RunDirectory> run = Create("logs", "r");
  std::filesystem::current_path(before);
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->path(), directory.path() + "/logs/plugins/profile/r");
}

TEST(RunDirectory, ATraceAppearsWholeOrNotAtAll) {
  const TemporaryDirectory logdir;
  const RunDirectory run = Create(logdir.path(), "r").value();
  {
    const std::unique_ptr<FileSink> file = run.CreateTrace("w_1").value();
    ASSERT_TRUE(file->Write("half", false).ok());
    ASSERT_TRUE(file->Flush().ok());
    for (const std::string& name : List(run.path())) {
      EXPECT_FALSE(std::filesystem::path(name).extension() == ".pb") << name;
    }
  }
  EXPECT_THAT(List(run.path()), IsEmpty());
  const std::unique_ptr<FileSink> file = run.CreateTrace("w_1").value();
  ASSERT_TRUE(file->Write("whole", false).ok());
  ASSERT_TRUE(file->Publish().ok());
  EXPECT_THAT(List(run.path()), ElementsAre("w_1.xplane.pb"));
  EXPECT_EQ(ReadAll(run.path() + "/w_1.xplane.pb"), "whole");
}

TEST(RunDirectory, FurtherPartsLieBesideTheRun) {
  const TemporaryDirectory logdir;
  const RunDirectory run = Create(logdir.path(), "r").value();
  for (int part = 1; part <= 3; ++part) {
    ASSERT_TRUE(run.CreateTrace("a_1", part).value()->Publish().ok());
    ASSERT_TRUE(run.CreateTrace("b_1", part).value()->Publish().ok());
  }
  EXPECT_THAT(List(logdir.path() + "/plugins/profile"), ElementsAre("r", "r.part2", "r.part3"));
  EXPECT_THAT(List(run.path() + ".part3"), ElementsAre("a_1.xplane.pb", "b_1.xplane.pb"));
  EXPECT_FALSE(run.CreateTrace("a_1", 0).ok());
}

// Viewers would list them as runs, and they would take the run's name.
TEST(RunDirectory, PartsThatWereNotWrittenAreRemoved) {
  const TemporaryDirectory logdir;
  const RunDirectory run = Create(logdir.path(), "r").value();
  ASSERT_TRUE(run.CreateTrace("a").value()->Publish().ok());
  EXPECT_TRUE(run.CreateTrace("a", 2).ok());  // not published
  ASSERT_TRUE(run.CreateTrace("b", 3).value()->Publish().ok());
  run.RemoveIfEmpty();
  EXPECT_THAT(List(run.repository()), ElementsAre("r", "r.part3"));
  RunDirectory failed = Create(logdir.path(), "failed").value();
  EXPECT_TRUE(failed.CreateTrace("a", 2).ok());
  ASSERT_TRUE(failed.SetAside().ok());
  EXPECT_THAT(List(run.repository()), ElementsAre("r", "r.part3"));
}

TEST(RunDirectory, TheMarkerIsARecordThatTensorBoardReads) {
  const TemporaryDirectory logdir;
  const RunDirectory run = Create(logdir.path(), "r").value();
  ASSERT_TRUE(run.WriteMarker(absl::FromUnixSeconds(1'700'000'000)).ok());
  ASSERT_TRUE(run.WriteMarker(absl::FromUnixSeconds(1'800'000'000)).ok());
  const std::vector<std::string> names = List(logdir.path());
  ASSERT_EQ(names.size(), 2u);
  EXPECT_THAT(names[0], MatchesRegex("events\\.out\\.tfevents\\.1700000000\\..*\\.profile-empty"));
  const std::string record = ReadAll(logdir.path() + "/" + names[0]);
  uint64_t size = 0;
  ASSERT_GE(record.size(), 16u);
  std::memcpy(&size, record.data(), 8);
  EXPECT_EQ(size, record.size() - 16);
  EXPECT_THAT(record, HasSubstr("brain.Event:2"));
}

// Each sync is a wait for the disk: of an ordinary capture's last 7 ms, the marker's took one.
TEST(RunDirectory, TracesAndTheManifestAreSyncedAndTheMarkerIsNot) {
  const TemporaryDirectory logdir;
  const RunDirectory run = Create(logdir.path(), "r").value();
  const auto syncs = [](const absl::Status& status) {
    EXPECT_TRUE(status.ok()) << status;
    return g_syncs.exchange(0);
  };
  g_syncs = 0;
  EXPECT_EQ(syncs(run.CreateTrace("a").value()->Publish()), 2);
  EXPECT_EQ(syncs(run.CreateTrace("b").value()->Publish(FileSink::Name::kLater)), 1);
  EXPECT_EQ(syncs(run.WriteManifest("{}")), 2);
  EXPECT_EQ(syncs(run.WriteMarker(absl::Now())), 0);
}

TEST(TfRecord, ChecksumsAreThoseOfTheFormat) {
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);            // the check value of CRC-32C
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
}

}  // namespace
}  // namespace jobscope
