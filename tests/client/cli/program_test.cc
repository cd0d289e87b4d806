// SPDX-License-Identifier: Apache-2.0
//
// Tests the program in unusual surroundings: closed descriptors, output that nobody reads, signals
// before anything has begun.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/client/fake_worker.h"
#include "tests/subprocess.h"
#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ProgramTest : public ::testing::Test {
 protected:
  // Becomes the program, after `before` was done.
  static std::unique_ptr<Subprocess> Shell(const std::string& before,
                                           const std::string& arguments) {
    return std::make_unique<Subprocess>(std::vector<std::string>{
        "/bin/sh", "-c", absl::StrCat(before, "; exec ", CAPTURE_PROGRAM, " ", arguments)});
  }
  std::string CaptureOf(const FakeWorker& worker) const {
    return absl::StrCat("--session_id=r --service_addr=", worker.address(),
                        " --logdir=", logdir_.path());
  }

  TemporaryDirectory logdir_;
};

// The next file to be opened would get the number, and the table be written into it.
TEST_F(ProgramTest, StandardDescriptorsThatAreClosedAreNobodyElses) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "links the shared gRPC, which opens an eventfd before any code of the program";
#endif
  FakeWorker worker({});
  const std::unique_ptr<Subprocess> capture =
      Shell("exec 0<&- 1>&- 2>&-", CaptureOf(worker) + " --duration_ms=60000");
  ASSERT_TRUE(worker.AwaitRequests(1));
  for (const int fd : {0, 1, 2}) {
    EXPECT_EQ(
        std::filesystem::read_symlink(absl::StrCat("/proc/", capture->pid(), "/fd/", fd)).string(),
        "/dev/null");
  }
  capture->Signal(SIGINT);
  EXPECT_EQ(capture->Wait(), 0);
  const json manifest =
      json::parse(ReadAll(logdir_.path() + "/plugins/profile/r/capture.json"), nullptr, false);
  EXPECT_EQ(manifest["workers"][0]["outcome"], "truncated") << manifest;
}

TEST_F(ProgramTest, ALimitThatAllowsNoThreadsIsNamed) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "reserves more address space than the limit";
#endif
  // Of address space, because that on threads does not hold for root: enough for the program, but
  // not for the stacks.
  for (const char* verb : {"", "check", "stop"}) {
    const std::unique_ptr<Subprocess> capture =
        Shell("ulimit -s 1000000; ulimit -v 900000",
              absl::StrCat(verb, " --service_addr=127.0.0.1:1",
                           *verb == '\0' ? " --logdir=" + logdir_.path() : ""));
    EXPECT_EQ(capture->Wait(), 2);
    EXPECT_THAT(capture->err(), HasSubstr("raise the limit on threads (ulimit -u"));
  }
  EXPECT_THAT(List(logdir_.path()), IsEmpty());
}

TEST_F(ProgramTest, AResultThatCannotBePrintedIsNoSuccess) {
  FakeWorker worker({});
  const std::unique_ptr<Subprocess> capture =
      Shell("exec >/dev/full", CaptureOf(worker) + " --duration_ms=10 --json");
  EXPECT_EQ(capture->Wait(), 1);
  EXPECT_THAT(capture->err(), HasSubstr("standard output: No space left on device"));
  const json manifest =
      json::parse(ReadAll(logdir_.path() + "/plugins/profile/r/capture.json"), nullptr, false);
  EXPECT_EQ(manifest["exit_code"], 0);
  const std::unique_ptr<Subprocess> check =
      Shell("exec >/dev/full", "check --service_addr=" + worker.address());
  EXPECT_EQ(check->Wait(), 1);
  EXPECT_EQ(Shell("exec >/dev/full", "--help")->Wait(), 1);
}

TEST_F(ProgramTest, TooFewDescriptorsAreReportedBeforeAnybodyIsAsked) {
  const std::string many = "--service_addr=127.0.0.[1-30]:9 --session_id=r --logdir=";
  const std::unique_ptr<Subprocess> capture = Shell("ulimit -n 64", many + logdir_.path() + "/new");
  EXPECT_EQ(capture->Wait(), 2) << capture->err();
  EXPECT_THAT(capture->err(), HasSubstr("30 workers take up to 124 open files"));
  EXPECT_THAT(capture->err(), HasSubstr("ulimit -Hn 124"));
  EXPECT_FALSE(std::filesystem::exists(logdir_.path() + "/new"));
  const std::unique_ptr<Subprocess> check =
      Shell("ulimit -n 64", "check --service_addr=127.0.0.[1-30]:9");
  EXPECT_EQ(check->Wait(), 2) << check->err();
  EXPECT_THAT(check->err(), HasSubstr("up to 94 open files"));
  // The soft limit is nobody's last word.
  FakeWorker worker({});
  const std::unique_ptr<Subprocess> raised =
      Shell("ulimit -Sn 16", CaptureOf(worker) + " --duration_ms=10");
  EXPECT_EQ(raised->Wait(), 0) << raised->err();
}

// CLI11 would take the next argument as the value.
TEST_F(ProgramTest, AnEmptyValueIsAUsageErrorOfEveryVerb) {
  const std::string jobscope =
      (std::filesystem::path(CAPTURE_PROGRAM).parent_path() / "jobscope").string();
  for (const std::vector<std::string>& verb :
       std::vector<std::vector<std::string>>{{CAPTURE_PROGRAM},
                                             {jobscope, "check"},
                                             {jobscope, "stop"},
                                             {jobscope, "run"},
                                             {jobscope, "report", logdir_.path()},
                                             {jobscope, "diff", logdir_.path(), logdir_.path()}}) {
    std::vector<std::string> arguments = verb;
    arguments.insert(arguments.end(), {"--any=", "--quiet", "--", "true"});
    Subprocess process(arguments);
    EXPECT_EQ(process.Wait(), 2);
    EXPECT_THAT(process.err(), HasSubstr("--any= has no value")) << verb.back();
  }
}

// An older worker of ours, and a stock one.
TEST_F(ProgramTest, AWorkerWithoutCloseIsNotClosed) {
  for (const bool native : {true, false}) {
    FakeWorker::Behavior behavior;
    behavior.native = native;
    FakeWorker worker(behavior);
    const std::unique_ptr<Subprocess> stop =
        Shell("true", "stop --server --json --service_addr=" + worker.address());
    EXPECT_EQ(stop->Wait(), 4);
    const json manifest = json::parse(stop->out(), nullptr, false);
    EXPECT_EQ(manifest["workers"][0]["outcome"], "refused") << manifest;
    EXPECT_THAT(manifest["workers"][0]["reason"].get<std::string>(),
                HasSubstr("cannot be closed by its callers: it is a stock worker"));
  }
}

// A terminal that was stopped with Ctrl-S is such a one.
TEST_F(ProgramTest, AStandardErrorThatTakesNothingHoldsNobodyUp) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  const std::string full(4096, 'x');
  while (write(ends[1], full.data(), full.size()) > 0) {
  }
  FakeWorker worker({});
  const std::unique_ptr<Subprocess> capture =
      Shell(absl::StrCat("exec 2>/proc/", getpid(), "/fd/", ends[1]),
            CaptureOf(worker) + " --duration_ms=10 --json");
  EXPECT_TRUE(capture->AwaitText("\"exit_code\": 0", absl::Seconds(60)));
  close(ends[0]);  // where it hangs, it goes on now
  EXPECT_EQ(capture->Wait(), 0);
  close(ends[1]);
}

// nohup ignores SIGHUP. Linux delivers a blocked signal to a signalfd even if it is ignored.
TEST_F(ProgramTest, AHangupThatIsIgnoredStaysIgnored) {
  for (const bool ignored : {false, true}) {
    FakeWorker worker({});
    const auto before = signal(SIGHUP, ignored ? SIG_IGN : SIG_DFL);  // inherited
    const std::unique_ptr<Subprocess> capture = Shell(
        "true", absl::StrCat("--service_addr=", worker.address(), " --logdir=", logdir_.path(),
                             " --json --duration_ms=", ignored ? 2000 : 60'000));
    signal(SIGHUP, before);
    ASSERT_TRUE(worker.AwaitRequests(1));
    capture->Signal(SIGHUP);
    EXPECT_EQ(capture->Wait(), 0) << capture->err();
    const json manifest = json::parse(capture->out(), nullptr, false);
    EXPECT_EQ(manifest["workers"][0]["outcome"], ignored ? "ok" : "truncated") << manifest;
  }
}

// A list of workers that does not come stands for a name that does not resolve.
TEST_F(ProgramTest, CtrlCWorksBeforeAnybodyIsAsked) {
  const std::string fifo = logdir_.path() + "/list";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const char* verb : {"", "check ", "stop "}) {
    const std::unique_ptr<Subprocess> capture =
        Shell("true", absl::StrCat(verb, "--service_addr=@", fifo,
                                   *verb == '\0' ? " --logdir=" + logdir_.path() : ""));
    const absl::Time limit = absl::Now() + absl::Seconds(20);
    siginfo_t info{};
    while (info.si_pid == 0 && absl::Now() < limit) {
      capture->Signal(SIGINT);
      absl::SleepFor(absl::Milliseconds(5));
      waitid(P_PID, static_cast<id_t>(capture->pid()), &info, WEXITED | WNOHANG | WNOWAIT);
    }
    ASSERT_NE(info.si_pid, 0) << "it goes on";
    EXPECT_EQ(capture->Wait(), 130);
    EXPECT_THAT(capture->out(), IsEmpty());
  }
}

}  // namespace
}  // namespace jobscope
