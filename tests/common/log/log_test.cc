// SPDX-License-Identifier: Apache-2.0
#include "common/log/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "common/log/audit_line.h"
#include "common/process/proc_files.h"
#include "tests/full_stderr.h"

namespace jobscope {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

bool Sleeps(pid_t thread) {
  std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text;
  return std::getline(stat, text) && StateInStat(text) == 'S';
}

class LogTest : public testing::Test {
 protected:
  void SetUp() override { before_ = GetLogLevel(); }
  void TearDown() override { SetLogLevel(before_); }

 private:
  LogLevel before_ = LogLevel::kWarning;
};

TEST_F(LogTest, WritesOneLineWithLevelAndMessage) {
  SetLogLevel(LogLevel::kInfo);
  CaptureStderr();
  Log(LogLevel::kInfo, "first\nsecond {} %s");
  const std::string out = GetCapturedStderr();
  EXPECT_THAT(out, HasSubstr("info: "));
  EXPECT_THAT(out, EndsWith("first second {} %s\n"));
}

// Session ids, names and texts of callers are quoted in messages. "\xc2\x9b" and "\xe2\x80\xa8" are
// a control sequence introducer of eight bits and a line separator, in UTF-8.
TEST_F(LogTest, TextsOfCallersControlNoTerminal) {
  SetLogLevel(LogLevel::kWarning);
  const std::string hostile =
      "a\x1b[2K\v"
      "b\a\xc2\x9b"
      "c\xe2\x80\xa8"
      "d\xff"
      "e\xc3\xa9";
  const std::string harmless = "a [2K b  c d?e\xc3\xa9\n";
  CaptureStderr();
  Log(LogLevel::kWarning, hostile);
  LogAudit(hostile);
  const std::string out = GetCapturedStderr();
  EXPECT_THAT(out, HasSubstr("warning: " + harmless));
  EXPECT_THAT(out, EndsWith("audit: " + harmless));
}

TEST_F(LogTest, IsSilentBelowItsLevel) {
  SetLogLevel(LogLevel::kWarning);
  CaptureStderr();
  Log(LogLevel::kDebug, "debug");
  Log(LogLevel::kInfo, "info");
  EXPECT_EQ(GetCapturedStderr(), "");
  SetLogLevel(LogLevel::kOff);
  CaptureStderr();
  Log(LogLevel::kError, "error");
  Log(LogLevel::kOff, "off");
  EXPECT_EQ(GetCapturedStderr(), "");
}

TEST_F(LogTest, KeepsLevels) {
  for (const LogLevel level :
       {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError, LogLevel::kOff}) {
    SetLogLevel(level);
    EXPECT_EQ(GetLogLevel(), level);
  }
}

// In processes of their own: a process reads the variable once.
TEST(LogLevelTest, OfTheEnvironmentInAnyCase) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const struct {
    const char* text;
    LogLevel level;
  } cases[] = {{"off", LogLevel::kOff},     {"OFF", LogLevel::kOff},
               {"debug", LogLevel::kDebug}, {"DEBUG", LogLevel::kDebug},
               {"Info", LogLevel::kInfo},   {"ERROR", LogLevel::kError},
               {"", LogLevel::kWarning},    {"loud", LogLevel::kWarning}};
  for (const auto& each : cases) {
    setenv("JOBSCOPE_LOG_LEVEL", each.text, 1);
    EXPECT_EXIT(_exit(10 + static_cast<int>(GetLogLevel())),
                testing::ExitedWithCode(10 + static_cast<int>(each.level)), "")
        << each.text;
  }
  unsetenv("JOBSCOPE_LOG_LEVEL");
}

// "train.py 2>&1 | head": the job lives on, and so must it with our lines.
TEST_F(LogTest, AReaderThatHasGoneEndsNoProcess) {
  EXPECT_EXIT(
      {
        SetLogLevel(LogLevel::kWarning);
        int ends[2];
        if (pipe(ends) != 0) _exit(1);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        signal(SIGPIPE, SIG_DFL);
        Log(LogLevel::kWarning, "nobody reads this");
        sigset_t pending;
        sigpending(&pending);
        _exit(sigismember(&pending, SIGPIPE) == 0 ? 42 : 2);
      },
      testing::ExitedWithCode(42), "");
}

// Also behind a stopped terminal: the threads that log answer callers.
TEST_F(LogTest, AFullPipeDropsLinesAndCountsThem) {
  SetLogLevel(LogLevel::kWarning);
  FullStderr full;
  auto logged = std::async(std::launch::async, [] {
    Log(LogLevel::kWarning, "first");
    Log(LogLevel::kWarning, "second");
  });
  EXPECT_EQ(logged.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_THAT(full.Read(), EndsWith("xxx"));
  logged.wait();
  Log(LogLevel::kWarning, "third");
  EXPECT_THAT(full.Read(),
              EndsWith("warning: third [2 earlier lines dropped: nobody read stderr]\n"));
  Log(LogLevel::kWarning, "fourth");
  EXPECT_THAT(full.Read(), EndsWith("warning: fourth\n"));
}

// The C library reads the time zone with a lock held, which a child inherits locked. Here the
// zone's file is a FIFO, which would block the thread that logs with that lock held.
TEST_F(LogTest, ALineDoesNotBlockTheDatesOfAForkedChild) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const std::string fifo = testing::TempDir() + "zone_" + std::to_string(getpid());
        if (mkfifo(fifo.c_str(), 0600) != 0) _exit(2);
        setenv("TZ", (":" + fifo).c_str(), 1);
        std::atomic<bool> logged{false};
        std::atomic<pid_t> tid{0};
        std::thread([&] {
          tid = gettid();
          Log(LogLevel::kError, "a line");
          logged = true;
        }).detach();
        while (!logged && (tid == 0 || !Sleeps(tid))) std::this_thread::yield();
        const pid_t child = fork();
        if (child == 0) {
          setenv("TZ", "UTC0", 1);
          alarm(20);
          const time_t now = 0;
          tm date = {};
          _exit(localtime_r(&now, &date) == nullptr ? 1 : 0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        unlink(fifo.c_str());
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(LogTest, LinesOfManyThreadsStayWhole) {
  SetLogLevel(LogLevel::kWarning);
  CaptureStderr();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 50; ++i) Log(LogLevel::kWarning, std::string(100, 'x'));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string out = GetCapturedStderr();
  size_t lines = 0;
  for (size_t at = 0; at < out.size(); ++lines) {
    const size_t end = out.find('\n', at);
    ASSERT_NE(end, std::string::npos);
    EXPECT_THAT(out.substr(at, end - at), EndsWith("warning: " + std::string(100, 'x')));
    at = end + 1;
  }
  EXPECT_EQ(lines, 200u);
}

}  // namespace
}  // namespace jobscope
