// SPDX-License-Identifier: Apache-2.0
//
// Tests the real program with faults during a capture: workers that are killed or stopped, Ctrl-C,
// files that cannot be written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/again_if_busy.h"
#include "tests/client/cli/capture_fixture.h"

namespace jobscope {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(CaptureTest, OneKilledWhileItRecords) {
  FakeWorker ok({});
  WorkerProcess victim({});
  const std::unique_ptr<Subprocess> capture =
      StartCapture(ok.address() + "," + victim.address(), {"--json", "--duration_ms=6000"});
  ASSERT_TRUE(victim.process().AwaitText("recording"));
  victim.process().Signal(SIGKILL);
  EXPECT_EQ(capture->Wait(), 3) << capture->err();
  const json manifest = json::parse(capture->out());
  EXPECT_EQ(manifest["workers"][0]["outcome"], "ok");
  EXPECT_EQ(manifest["workers"][1]["outcome"], "died");
  EXPECT_EQ(manifest["workers"][1]["phase"], "record");
  EXPECT_EQ(manifest["workers"][1]["attempts"], 1);
}

TEST_F(CaptureTest, OneStoppedWhileItRecordsIsReportedWithinTenSeconds) {
  FakeWorker ok({});
  for (const char* kind : {"native", "stock"}) {
    ExpectWithin(absl::Seconds(11), [&] {
      WorkerProcess victim({kind});
      const TemporaryDirectory logdir;
      const std::unique_ptr<Subprocess> capture =
          Start({"--service_addr=" + ok.address() + "," + victim.address(),
                 "--logdir=" + logdir.path(), "--session_id=r", "--json", "--duration_ms=5000"});
      EXPECT_TRUE(victim.process().AwaitText("recording"));
      victim.process().Stop();
      const absl::Time before = absl::Now();
      EXPECT_EQ(capture->Wait(), 3) << capture->err();
      const absl::Duration took = absl::Now() - before;
      const json manifest = json::parse(capture->out());
      EXPECT_EQ(manifest["workers"][0]["outcome"], "ok");
      EXPECT_EQ(manifest["workers"][1]["outcome"], "timeout");
      EXPECT_THAT(manifest["workers"][1]["reason"].get<std::string>(), HasSubstr("sign of life"));
      return took;
    });
  }
}

#ifdef FAULT_SHIM
TEST_F(CaptureTest, AClockThatIsSetBackDoesNotDelayAStockWorker) {
  for (const char* program : {CAPTURE_PROGRAM, PORTABLE_CAPTURE_PROGRAM}) {
    SCOPED_TRACE(program);
    const std::string clock = logdir_.Write("clock", std::string(sizeof(int64_t), '\0'));
    FakeWorker::Behavior stock;
    stock.native = false;
    FakeWorker worker(stock);
    Subprocess capture({program, "--service_addr=" + worker.address(), "--logdir=" + logdir_.path(),
                        "--protocol=tensorflow", "--delay_ms=2000", "--duration_ms=100"},
                       {"LD_PRELOAD=" FAULT_SHIM, "FAULT_CLOCK_FILE=" + clock});
    // Said when the instant is chosen, a second ahead: the request waits on a timer.
    ASSERT_TRUE(capture.AwaitText("recording 1 of 1 worker"));
    const int64_t hour_back_ns = -absl::ToInt64Nanoseconds(absl::Hours(1));
    std::fstream(clock, std::ios::in | std::ios::out | std::ios::binary)
        .write(reinterpret_cast<const char*>(&hour_back_ns), sizeof hour_back_ns);
    ASSERT_TRUE(worker.AwaitRequests(1));
    EXPECT_EQ(capture.Wait(), 0) << capture.err();
  }
}
#endif

TEST_F(CaptureTest, OneStoppedBeforeItIsAskedHoldsNobodyUp) {
  FakeWorker ok({});
  WorkerProcess victim({});
  victim.process().Stop();
  const json manifest =
      Capture(victim.address() + "," + ok.address(), 3, {"--connect_timeout_ms=10000"});
  EXPECT_EQ(manifest["workers"][0]["outcome"], "timeout");
  EXPECT_EQ(manifest["workers"][0]["phase"], "connect");
  EXPECT_EQ(manifest["workers"][1]["outcome"], "ok");
}

TEST_F(CaptureTest, ABigAnswerTakesNoMoreMemoryThanItsBytes) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer keeps freed memory back";
#endif
  constexpr size_t kMiB = 200;
  WorkerProcess worker({absl::StrCat("big=", kMiB)});
  const std::unique_ptr<Subprocess> capture =
      StartCapture(worker.address(), {"--duration_ms=10", "--json"});
  EXPECT_EQ(capture->Wait(), 0) << capture->err();
  EXPECT_GT(std::filesystem::file_size(run() + "/" + Stem(worker.address()) + ".xplane.pb"),
            kMiB << 20);
  RecordProperty("peak_mib", static_cast<int>(capture->peak_bytes() >> 20));
  // The program itself takes 20 to 30 MiB.
  EXPECT_LT(capture->peak_bytes(), ((kMiB * 12 / 10) << 20) + (32 << 20));
}

TEST_F(CaptureTest, AnAnswerOverTheLimitIsAClearFailure) {
  WorkerProcess worker({"big=4"});
  const json manifest = Capture(worker.address(), 4, {"--max_trace_mb=2"});
  EXPECT_EQ(manifest["workers"][0]["outcome"], "failed");
  EXPECT_EQ(manifest["workers"][0]["phase"], "transfer");
  EXPECT_THAT(manifest["workers"][0]["reason"].get<std::string>(), HasSubstr("too large"));
}

TEST_F(CaptureTest, CtrlCKeepsWhatThereIs) {
  FakeWorker::Behavior behavior;
  behavior.native = false;
  FakeWorker stock(behavior);
  FakeWorker native({});
  const std::unique_ptr<Subprocess> capture =
      StartCapture(native.address() + "," + stock.address(),
                   {"--duration_ms=60000", "--protocol=tensorflow", "--json"});
  ASSERT_TRUE(native.AwaitRequests(1));
  ASSERT_TRUE(stock.AwaitRequests(1));
  const absl::Time before = absl::Now();
  capture->Signal(SIGINT);
  EXPECT_EQ(capture->Wait(), 0) << capture->err();
  EXPECT_LT(absl::Now() - before, absl::Seconds(30));  // of 60
  const json manifest = json::parse(capture->out());
  for (const json& worker : manifest["workers"]) EXPECT_EQ(worker["outcome"], "truncated");
  EXPECT_THAT(native.stopped_sessions(), ElementsAre("r"));
  EXPECT_THAT(stock.stopped_sessions(), ElementsAre("r"));
  EXPECT_EQ(List(run()).size(), 3u);
}

TEST_F(CaptureTest, CtrlCTwiceGivesUp) {
  WorkerProcess hung({});
  const std::unique_ptr<Subprocess> capture = StartCapture(hung.address(), {"--duration_ms=60000"});
  ASSERT_TRUE(hung.process().AwaitText("recording"));
  hung.process().Stop();
  // Stopped: until then it could still answer.
  const std::string stat = absl::StrCat("/proc/", hung.process().pid(), "/stat");
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  for (std::string text; text.find(") T ") == std::string::npos;) {
    ASSERT_LT(absl::Now(), deadline) << text;
    std::getline(std::ifstream(stat), text);
  }
  capture->Signal(SIGINT);
  ASSERT_TRUE(capture->AwaitText("interrupted"));
  capture->Signal(SIGINT);
  EXPECT_EQ(capture->Wait(), 130) << capture->err();
  // Viewers would list it as a run.
  EXPECT_THAT(List(logdir_.path() + "/plugins/profile"), IsEmpty());
}

// systemd sends both when it stops a service; a closed terminal sends SIGHUP twice.
TEST_F(CaptureTest, TwoSignalsOfOneShutdownKeepWhatThereIs) {
  FakeWorker worker({});
  const auto before = signal(SIGHUP, SIG_DFL);  // ignored in tests that nohup starts
  const std::unique_ptr<Subprocess> capture =
      StartCapture(worker.address(), {"--duration_ms=60000", "--json"});
  signal(SIGHUP, before);
  ASSERT_TRUE(worker.AwaitRequests(1));
  // Stopped, it receives one right after the other, however busy the machine is.
  capture->Stop();
  for (const int signal : {SIGHUP, SIGTERM, SIGCONT}) capture->Signal(signal);
  ASSERT_EQ(capture->Wait(), 0) << capture->err();
  EXPECT_EQ(json::parse(capture->out())["workers"][0]["outcome"], "truncated");
}

TEST_F(CaptureTest, ASigtermThatIsRepeatedLaterGivesUp) {
  WorkerProcess hung({});
  const std::unique_ptr<Subprocess> capture = StartCapture(hung.address(), {"--duration_ms=60000"});
  ASSERT_TRUE(hung.process().AwaitText("recording"));
  hung.process().Stop();
  capture->Signal(SIGTERM);
  ASSERT_TRUE(capture->AwaitText("interrupted"));
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  while (!capture->AwaitText("\ninterrupted\n", absl::Milliseconds(100))) {
    ASSERT_LT(absl::Now(), deadline) << capture->err();
    capture->Signal(SIGTERM);
  }
  EXPECT_EQ(capture->Wait(), 130) << capture->err();
}

// The signal comes while the run's directory is being prepared, or soon afterwards.
TEST_F(CaptureTest, CtrlCBeforeAnybodyIsAskedLeavesNoRun) {
  for (int i = 0; i < 5; ++i) {
    const std::unique_ptr<Subprocess> capture = StartCapture("127.0.0.1:9");
    const absl::Time deadline = absl::Now() + absl::Minutes(1);
    while (!std::filesystem::exists(run())) ASSERT_LT(absl::Now(), deadline) << capture->err();
    capture->Signal(SIGINT);
    EXPECT_EQ(capture->Wait(), 4) << capture->err();
    ASSERT_THAT(List(logdir_.path() + "/plugins/profile"), IsEmpty());
  }
}

TEST_F(CaptureTest, APartThatWasNotWrittenIsNoRun) {
  FakeWorker::Behavior behavior;
  behavior.on_recording = [this] { std::filesystem::create_directory(run() + ".part2"); };
  FakeWorker worker(behavior);
  Capture(worker.address(), 0);
  EXPECT_THAT(List(logdir_.path() + "/plugins/profile"), ElementsAre("r"));
}

TEST_F(CaptureTest, AManifestThatCannotBeWrittenIsNoSuccess) {
  FakeWorker::Behavior behavior;
  behavior.on_recording = [this] {
    std::filesystem::create_directories(run() + "/capture.json/in_the_way");
  };
  FakeWorker worker(behavior);
  const std::unique_ptr<Subprocess> capture =
      StartCapture(worker.address(), {"--json", "--duration_ms=10"});
  EXPECT_EQ(capture->Wait(), 1) << capture->err();
  EXPECT_THAT(capture->err(), HasSubstr("their manifest is missing"));
  const json manifest = json::parse(capture->out(), nullptr, false);
  EXPECT_EQ(manifest["exit_code"], 1);
  EXPECT_EQ(manifest["workers"][0]["outcome"], "ok");
}

TEST_F(CaptureTest, AReportThatCannotBeWrittenIsNoSuccess) {
  FakeWorker::Behavior behavior;
  std::string page;
  behavior.on_recording = [&page] { std::filesystem::create_directories(page); };
  FakeWorker worker(behavior);
  for (const bool is_json : {false, true}) {
    const TemporaryDirectory logdir;
    page = logdir.path() + "/plugins/profile/r/report.html";
    std::vector<std::string> arguments = {"--service_addr=" + worker.address(),
                                          "--logdir=" + logdir.path(), "--session_id=r",
                                          "--duration_ms=10", "--report"};
    if (is_json) arguments.push_back("--json");
    const std::unique_ptr<Subprocess> capture = Start(arguments);
    EXPECT_EQ(capture->Wait(), 1) << capture->err();
    EXPECT_THAT(capture->err(), HasSubstr("capture: the report is missing: "));
    EXPECT_THAT(capture->err(), HasSubstr(page + ": it is a directory"));
    EXPECT_THAT(capture->out(), Not(HasSubstr("REPORT")));
    EXPECT_EQ(json::accept(capture->out()), is_json) << capture->out();
  }
}

TEST_F(CaptureTest, NothingIsAskedWhenTheLogdirWillNotDo) {
  FakeWorker worker({});
  const std::string file = logdir_.Write("file", "");
  const std::unique_ptr<Subprocess> capture =
      Start({"--service_addr=" + worker.address(), "--logdir=" + file + "/x"});
  EXPECT_EQ(capture->Wait(), 2) << capture->err();
  EXPECT_THAT(capture->err(), HasSubstr("logdir " + file));
  EXPECT_THAT(capture->err(), HasSubstr("; name a logdir that can be written\n"));
  EXPECT_THAT(capture->out(), IsEmpty());
  EXPECT_THAT(worker.requests(), IsEmpty());
}

TEST_F(CaptureTest, ARunThatIsThereIsNotTouched) {
  FakeWorker worker({});
  std::filesystem::create_directories(run());
  const std::unique_ptr<Subprocess> capture = StartCapture(worker.address());
  EXPECT_EQ(capture->Wait(), 2) << capture->err();
  EXPECT_THAT(capture->err(), HasSubstr("choose another name"));
  EXPECT_THAT(worker.requests(), IsEmpty());
}

}  // namespace
}  // namespace jobscope
