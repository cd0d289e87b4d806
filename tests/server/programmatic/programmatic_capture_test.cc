// SPDX-License-Identifier: Apache-2.0
#include "server/programmatic/programmatic_capture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/clock/monotonic.h"
#include "jobscope/detail/ticks.h"
#include "tensorflow/xplane.pb.h"
#include "tests/again_if_busy.h"
#include "tests/hanging_files.h"
#include "tests/no_threads.h"
#include "tests/server/session/fake_collector.h"

namespace jobscope {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

// Threads that remove files, or have no name of their own yet, as one that was just created.
int RemovingOrUnnamed() {
  const std::string unnamed = Read("/proc/self/comm");
  int count = 0;
  std::error_code gone;
  std::filesystem::directory_iterator entry("/proc/self/task", gone);
  for (; entry != end(entry); entry.increment(gone)) {
    const std::string name = Read(entry->path() / "comm");
    count += name == "jobscope-remove\n" || name == unnamed ? 1 : 0;
  }
  return count;
}

// Waits for the end of the thread that an exit has started: it works on the files of its run, which
// may have the path of the next one. `before`: their number without it. The kernel's list can lack
// a thread while another one ends, so that one look is not enough.
void AwaitNoRemoval(int before) {
  const absl::Time limit = SteadyNow() + absl::Minutes(1);
  for (int looks = 0; looks < 3; std::this_thread::yield()) {
    looks = RemovingOrUnnamed() > before ? 0 : looks + 1;
    ASSERT_LT(SteadyNow(), limit);
  }
}

class ProgrammaticCaptureTest : public ::testing::Test {
 protected:
  // ThreadSanitizer starts a thread of its own with the first one.
  static void SetUpTestSuite() {
    std::thread([] {}).join();
  }
  ProgrammaticCaptureTest() {
    std::string pattern = ::testing::TempDir() + "programmatic.XXXXXX";
    logdir_ = mkdtemp(pattern.data());
    identity_.set_host("node 1");
    identity_.set_pid(42);
    fake_.set_watches_steps(true);
    sessions_ = std::make_unique<SessionManager>(SessionManager::Dependencies{
        .collectors = {&fake_}, .uses_tsc = true, .identity = [this] { return identity_; }});
    capture_ = std::make_unique<ProgrammaticCapture>(sessions_.get(), identity_);
  }
  ~ProgrammaticCaptureTest() override {
    AwaitNoRemoval(unnamed_threads_);
    std::filesystem::remove_all(logdir_);
  }

  // Also while a thread removes files and directories.
  bool HasPartialFile() const {
    std::error_code gone;
    std::filesystem::recursive_directory_iterator entry(logdir_, gone);
    for (; entry != end(entry); entry.increment(gone)) {
      if (entry->path().extension() == ".partial") return true;
    }
    return false;
  }

  ProgrammaticRequest Request() const {
    ProgrammaticRequest request;
    request.logdir = logdir_;
    request.capture.duration = absl::InfiniteDuration();
    request.capture.store_bytes = 4 << 20;
    return request;
  }

  FakeCollector fake_{"fake"};
  v1::Identity identity_;
  const int unnamed_threads_ = RemovingOrUnnamed();
  std::string logdir_;
  std::unique_ptr<SessionManager> sessions_;
  std::unique_ptr<ProgrammaticCapture> capture_;
};

TEST_F(ProgrammaticCaptureTest, WritesARunDirectoryThatSaysWhatIsInIt) {
  ASSERT_TRUE(capture_->Start(Request()).ok());
  EXPECT_TRUE(fake_.AwaitCalls("start", 1));
  const auto result = capture_->Stop();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->events, 1u);
  EXPECT_EQ(result->lost, 2u);
  EXPECT_THAT(result->run_directory, HasSubstr(logdir_ + "/plugins/profile/"));

  tensorflow::profiler::XSpace space;
  ASSERT_TRUE(space.ParseFromString(Read(result->run_directory + "/node_1_42.xplane.pb")));
  EXPECT_EQ(space.hostnames(0), "node_1_42") << "the stem of the file";
  const auto manifest = nlohmann::json::parse(Read(result->run_directory + "/capture.json"));
  EXPECT_EQ(manifest["workers"][0]["outcome"], "ok");
  EXPECT_EQ(manifest["events"], 1);
  EXPECT_EQ(manifest["lost"], 2);
}

// The paths are relative to the run's directory, also those of parts beside it.
TEST_F(ProgrammaticCaptureTest, TheManifestNamesTheFilesOfAllParts) {
  for (const bool parts : {false, true}) {
    fake_.set_events(1000);
    ProgrammaticRequest request = Request();
    if (parts) request.part_limit_bytes = 6000;
    ASSERT_TRUE(capture_->Start(request).ok());
    const auto result = capture_->Stop();
    ASSERT_TRUE(result.ok()) << result.status();
    const std::filesystem::path run = result->run_directory;
    const auto manifest = nlohmann::json::parse(Read(run / "capture.json"));
    const auto& files = manifest["workers"][0]["files"];
    EXPECT_EQ(files.size() > 1, parts) << files;
    for (const auto& file : files) {
      const std::filesystem::path path = run / file["path"].get<std::string>();
      ASSERT_TRUE(std::filesystem::exists(path)) << path;
      EXPECT_EQ(std::filesystem::file_size(path), file["bytes"]) << path;
    }
  }
}

TEST_F(ProgrammaticCaptureTest, WhatAHungCollectorLostIsNotKnown) {
  fake_.HangIn("stop");
  ASSERT_TRUE(capture_->Start(Request()).ok());
  const auto result = capture_->Stop();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->lost.has_value());
  const auto manifest = nlohmann::json::parse(Read(result->run_directory + "/capture.json"));
  const auto& worker = manifest["workers"][0];
  EXPECT_EQ(worker["outcome"], "truncated");
  EXPECT_FALSE(worker.contains("lost")) << worker;
  EXPECT_FALSE(manifest.contains("lost")) << manifest;
  EXPECT_FALSE(worker["collectors"][0].contains("lost")) << worker;
  EXPECT_FALSE(worker["collectors"][0].contains("events")) << worker;
  EXPECT_THAT(worker["collectors"][0]["reason"], HasSubstr("losses are not known"));
  fake_.Release();
}

// Its deadline is MONOTONIC's, whatever the date is.
TEST_F(ProgrammaticCaptureTest, AnExitWaitsForTheFilesUntilItsDeadline) {
  ASSERT_TRUE(capture_->Start(Request()).ok());
  capture_->FinishBeforeExit(SteadyNow() + absl::Minutes(1));
  const auto result = capture_->Stop();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(std::filesystem::exists(result->run_directory));
}

// Whether the file was written by then or not.
TEST_F(ProgrammaticCaptureTest, AnExitThatWaitsNoLongerLeavesNoPartialFile) {
  EXPECT_TRUE(AgainIfBusy([this] {
    EXPECT_TRUE(capture_->Start(Request()).ok());
    ::testing::internal::CaptureStderr();
    capture_->FinishBeforeExit(SteadyNow());
    const bool removed = !HasPartialFile();  // before the session has ended by itself
    const auto result = capture_->Stop();
    const std::string log = ::testing::internal::GetCapturedStderr();
    AwaitNoRemoval(unnamed_threads_);
    EXPECT_FALSE(HasPartialFile());
    if (!result.ok()) {
      EXPECT_THAT(std::string(result.status().message()), HasSubstr("exited"));
      EXPECT_THAT(log, HasSubstr("was not written: the process exited"));
    }
    return removed;
  }));
}

TEST_F(ProgrammaticCaptureTest, AnExitThatGetsNoThreadWaitsForNoRemoval) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        g_files.Hang({".xplane.pb"});
        bool held = capture_->Start(Request()).ok();
        sessions_->Stop("programmatic-1", EndedBy::kRequest);
        held = g_files.Await(1) && held;
        AllowNoThreads();
        ExpectWithin(absl::Milliseconds(400), [this] {
          const absl::Time before = absl::Now();
          capture_->FinishBeforeExit(SteadyNow());
          return absl::Now() - before;
        });
        std::_Exit(held && !HasFailure() ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "was not written: the process exited");
}

// As on a network that is away: when the first file of a further part is created, when the last
// file is published, and when the exit removes an incomplete file.
TEST_F(ProgrammaticCaptureTest, AnExitWaitsForNoFileSystemThatHangs) {
  const std::vector<std::string> cases[] = {
      {".part2"}, {"/capture.json"}, {".xplane.pb", ".xplane.pb.partial"}};
  for (const std::vector<std::string>& hanging : cases) {
    SCOPED_TRACE(hanging[0]);
    fake_.set_events(1000);
    ProgrammaticRequest request = Request();
    if (hanging[0] == ".part2") request.part_limit_bytes = 6000;
    ASSERT_TRUE(capture_->Start(request).ok());
    g_files.Hang(hanging);
    auto stopped = std::async(std::launch::async, [this] { return capture_->Stop(); });
    EXPECT_TRUE(g_files.Await(1));
    auto exited =
        std::async(std::launch::async, [this] { capture_->FinishBeforeExit(SteadyNow()); });
    EXPECT_EQ(exited.wait_for(std::chrono::seconds(20)), std::future_status::ready);
    EXPECT_TRUE(g_files.Await(static_cast<int>(hanging.size())));
    g_files.Hang({});
    // The session thread continues if the process does.
    const auto result = stopped.get();
    EXPECT_EQ(result.ok(), hanging[0] == "/capture.json") << result.status();
    exited.wait();
    AwaitNoRemoval(unnamed_threads_);
    EXPECT_FALSE(HasPartialFile());
  }
}

// Viewers would list it.
TEST_F(ProgrammaticCaptureTest, ATraceThatCannotBeWrittenLeavesNoRun) {
  ASSERT_TRUE(capture_->Start(Request()).ok());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  const auto result = capture_->Stop();
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("cannot write"));
  EXPECT_TRUE(std::filesystem::is_empty(logdir_ + "/plugins/profile"));
}

// Without a call that could return the error.
TEST_F(ProgrammaticCaptureTest, AStepWindowThatCannotBeWrittenIsLogged) {
  ProgrammaticRequest request = Request();
  request.capture.steps = StepRange{1, 2};
  ASSERT_TRUE(capture_->Start(request).ok());
  std::filesystem::remove_all(logdir_);
  ::testing::internal::CaptureStderr();
  const uint64_t now = detail::ReadTicks(true);
  fake_.OpenStepWindowAt(now, now + 1000);
  capture_->FinishBeforeExit(SteadyNow() + absl::Minutes(1));
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("the capture of this process was not written: cannot create"));
  EXPECT_THAT(log, HasSubstr(logdir_));
}

TEST_F(ProgrammaticCaptureTest, ASecondCaptureIsRefusedAndTheFirstGoesOn) {
  ASSERT_TRUE(capture_->Start(Request()).ok());
  EXPECT_EQ(capture_->Start(Request()).code(), absl::StatusCode::kAlreadyExists);
  ProgrammaticCapture other(sessions_.get(), identity_);
  const absl::Status refused = other.Start(Request());
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists) << "somebody else's session";
  EXPECT_TRUE(capture_->Stop().ok());
  EXPECT_TRUE(capture_->Start(Request()).ok());
  EXPECT_TRUE(capture_->Stop().ok());
}

TEST_F(ProgrammaticCaptureTest, StepsThatNobodyWatchesAreRefused) {
  fake_.FailIn("arm", absl::FailedPreconditionError("its library is missing"));
  ProgrammaticRequest request = Request();
  request.capture.steps = StepRange{1, 2};
  const absl::Status status = capture_->Start(request);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("fake: its library is missing"));
  EXPECT_TRUE(std::filesystem::is_empty(logdir_ + "/plugins/profile"));
  EXPECT_TRUE(capture_->Start(Request()).ok());
  EXPECT_TRUE(capture_->Stop().ok());
}

TEST_F(ProgrammaticCaptureTest, TheNextCaptureCanBeginAtOnce) {
  for (int i = 0; i < 100; ++i) {
    const absl::Status started = capture_->Start(Request());
    ASSERT_TRUE(started.ok()) << i << ": " << started;
    ASSERT_TRUE(capture_->Stop().ok());
  }
}

TEST_F(ProgrammaticCaptureTest, ABadLogdirIsFoundBeforeAnythingIsRecorded) {
  ProgrammaticRequest request = Request();
  request.logdir = "/proc/nowhere";
  const absl::Status status = capture_->Start(request);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("/proc/nowhere"));
  EXPECT_TRUE(fake_.calls().empty());
  // For a program that looks at the result of Stop only.
  const absl::Status stopped = capture_->Stop().status();
  EXPECT_EQ(stopped.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(stopped.message()),
              HasSubstr("no capture was started: logdir /proc/nowhere"));
  EXPECT_THAT(std::string(capture_->Stop().status().message()), Not(HasSubstr("/proc/nowhere")));
}

TEST_F(ProgrammaticCaptureTest, AStepWindowIsOnDiskWithoutAFurtherCall) {
  const uint64_t now = detail::ReadTicks(true);
  fake_.OpenStepWindowAt(now, now + 1000);
  ProgrammaticRequest request = Request();
  request.capture.steps = StepRange{1, 2};
  ASSERT_TRUE(capture_->Start(request).ok());
  const std::filesystem::path profiles = logdir_ + "/plugins/profile";
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  bool written = false;
  while (!written && absl::Now() < deadline) {
    for (const auto& run : std::filesystem::directory_iterator(profiles)) {
      written |= std::filesystem::exists(run.path() / "capture.json");
    }
    std::this_thread::yield();
  }
  EXPECT_TRUE(written);
  EXPECT_TRUE(capture_->Stop().ok());
}

TEST_F(ProgrammaticCaptureTest, AStepWindowThatNeverOpenedIsEndedByStop) {
  ProgrammaticRequest request = Request();
  request.capture.steps = StepRange{1, 2};
  ASSERT_TRUE(capture_->Start(request).ok());
  const auto result = capture_->Stop();
  ASSERT_TRUE(result.ok()) << result.status();
  const auto manifest = nlohmann::json::parse(Read(result->run_directory + "/capture.json"));
  EXPECT_EQ(manifest["workers"][0]["outcome"], "truncated");
}

}  // namespace
}  // namespace jobscope
