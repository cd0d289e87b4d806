// SPDX-License-Identifier: Apache-2.0
//
// Programmatic mode as a user has it: public headers, the two shared libraries, files on disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "jobscope/capture.h"
#include "jobscope/trace.h"
#include "tensorflow/xplane.pb.h"

namespace {

using tensorflow::profiler::XEvent;
using tensorflow::profiler::XPlane;
using tensorflow::profiler::XSpace;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryIsOurs = false;
#elif defined(__has_feature)
constexpr bool kMemoryIsOurs =
    !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer);
#else
constexpr bool kMemoryIsOurs = true;
#endif

class CaptureApiTest : public ::testing::Test {
 protected:
  CaptureApiTest() {
    std::string pattern = ::testing::TempDir() + "capture_api.XXXXXX";
    logdir_ = mkdtemp(pattern.data());
  }
  ~CaptureApiTest() override { std::filesystem::remove_all(logdir_); }

  static XSpace Load(const std::string& run_directory) {
    XSpace space;
    for (const auto& file : std::filesystem::directory_iterator(run_directory)) {
      if (file.path().extension() != ".pb") continue;
      std::ifstream stream(file.path(), std::ios::binary);
      EXPECT_TRUE(space.ParseFromIstream(&stream));
    }
    return space;
  }

  // Events of the host plane, by name.
  static std::map<std::string, std::vector<XEvent>> HostEvents(const XSpace& space) {
    std::map<std::string, std::vector<XEvent>> events;
    for (const XPlane& plane : space.planes()) {
      if (plane.name() != "/host:CPU") continue;
      for (const auto& line : plane.lines()) {
        for (const XEvent& event : line.events()) {
          events[plane.event_metadata().at(event.metadata_id()).name()].push_back(event);
        }
      }
    }
    return events;
  }

  // Bytes mapped by this process.
  static rlim_t AddressSpace() {
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
  }

  std::string logdir_;
};

TEST_F(CaptureApiTest, StartAndStop) {
  ASSERT_TRUE(jobscope::StartCapture(logdir_).ok());
  {
    JOBSCOPE_SCOPE("outer");
    for (int i = 0; i < 10; ++i) {
      JOBSCOPE_SCOPE("inner", "index", i);
    }
  }
  const jobscope::CaptureResult result = jobscope::StopCapture();
  ASSERT_TRUE(result.ok()) << result.error();
  EXPECT_EQ(result.lost(), 0u);
  EXPECT_GE(result.events(), 11u);
  const auto events = HostEvents(Load(result.run_directory()));
  ASSERT_EQ(events.count("outer"), 1u);
  ASSERT_EQ(events.at("inner").size(), 10u);
  const XEvent& outer = events.at("outer")[0];
  for (const XEvent& inner : events.at("inner")) {
    EXPECT_GE(inner.offset_ps(), outer.offset_ps());
    EXPECT_LE(inner.offset_ps() + inner.duration_ps(), outer.offset_ps() + outer.duration_ps());
  }
}

TEST_F(CaptureApiTest, AScopeObjectCapturesItsBlock) {
  std::string run_directory;
  {
    jobscope::ScopedCapture capture(logdir_);
    ASSERT_TRUE(capture.started().ok()) << capture.started().error();
    { JOBSCOPE_SCOPE("in the block"); }
    const jobscope::CaptureResult result = capture.Stop();
    ASSERT_TRUE(result.ok()) << result.error();
    run_directory = result.run_directory();
  }
  EXPECT_EQ(HostEvents(Load(run_directory)).count("in the block"), 1u);
  { JOBSCOPE_SCOPE("after it"); }
}

// It ends its own capture, once.
TEST_F(CaptureApiTest, AScopeObjectLeavesOtherCapturesAlone) {
  jobscope::ScopedCapture first(logdir_);
  ASSERT_TRUE(first.started().ok()) << first.started().error();
  {
    jobscope::ScopedCapture refused(logdir_);
    ASSERT_FALSE(refused.started().ok());
    EXPECT_EQ(refused.Stop().error(), refused.started().error());
  }
  const std::string run_directory = first.Stop().run_directory();
  EXPECT_NE(run_directory, "");

  ASSERT_TRUE(jobscope::StartCapture(logdir_).ok());
  const jobscope::CaptureResult again = first.Stop();
  EXPECT_TRUE(again.ok()) << again.error();
  EXPECT_EQ(again.run_directory(), run_directory);
  const jobscope::CaptureResult other = jobscope::StopCapture();
  EXPECT_TRUE(other.ok()) << other.error();
}

TEST_F(CaptureApiTest, StepsStartAndEndByThemselves) {
  ASSERT_TRUE(jobscope::CaptureSteps(logdir_, 100, 110).ok());
  for (int step = 90; step < 130; ++step) {
    JOBSCOPE_STEP("train", step);
    JOBSCOPE_SCOPE("work");
  }
  const jobscope::CaptureResult result = jobscope::StopCapture();
  ASSERT_TRUE(result.ok()) << result.error();
  const XSpace space = Load(result.run_directory());
  const auto events = HostEvents(space);
  std::vector<int64_t> numbers;
  for (const XPlane& plane : space.planes()) {
    if (plane.name() != "/host:CPU") continue;
    for (const auto& line : plane.lines()) {
      for (const XEvent& event : line.events()) {
        for (const auto& stat : event.stats()) {
          if (plane.stat_metadata().at(stat.metadata_id()).name() == "step_num") {
            numbers.push_back(stat.int64_value());
          }
        }
      }
    }
  }
  EXPECT_THAT(numbers,
              ::testing::ElementsAre(100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110));
  EXPECT_EQ(events.at("work").size(), 11u);
}

TEST_F(CaptureApiTest, TheKillSwitchWins) {
  ASSERT_EQ(setenv("JOBSCOPE_DISABLE", "1", 1), 0);
  const jobscope::CaptureResult started = jobscope::StartCapture(logdir_);
  const jobscope::CaptureResult by_steps = jobscope::CaptureSteps(logdir_, 100, 110);
  ASSERT_EQ(unsetenv("JOBSCOPE_DISABLE"), 0);
  for (const jobscope::CaptureResult& result : {started, by_steps}) {
    EXPECT_FALSE(result.ok());
    EXPECT_THAT(result.error(), HasSubstr("JOBSCOPE_DISABLE is set"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(logdir_));
}

// A capture that began can be ended, whatever the environment says by then.
TEST_F(CaptureApiTest, TheEnvironmentKeepsNoCaptureFromItsEnd) {
  for (const auto& [name, value] :
       {std::pair("JOBSCOPE_STORE_MB", "much"), std::pair("JOBSCOPE_DISABLE", "1")}) {
    ASSERT_TRUE(jobscope::StartCapture(logdir_).ok());
    ASSERT_EQ(setenv(name, value, 1), 0);
    const jobscope::CaptureResult result = jobscope::StopCapture();
    ASSERT_EQ(unsetenv(name), 0);
    EXPECT_TRUE(result.ok()) << result.error();
  }
}

// Likewise while memory is short; its files may then be missing.
TEST_F(CaptureApiTest, AShortageOfMemoryKeepsNoCaptureFromItsEnd) {
  if (!kMemoryIsOurs) GTEST_SKIP() << "a sanitizer ends the process when memory runs out";
  rlimit unlimited = {};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &unlimited), 0);
  ASSERT_TRUE(jobscope::StartCapture(logdir_).ok());
  rlimit limited = unlimited;
  limited.rlim_cur = AddressSpace() + (8 << 20);  // enough for the stop, too little to start
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limited), 0);
  (void)jobscope::StopCapture();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &unlimited), 0);
  const jobscope::CaptureResult next = jobscope::StartCapture(logdir_);
  EXPECT_TRUE(next.ok()) << next.error();
  EXPECT_TRUE(jobscope::StopCapture().ok());
}

TEST_F(CaptureApiTest, AWrongLogdirIsAnErrorThatNamesIt) {
  const jobscope::CaptureResult result = jobscope::StartCapture("/proc/nowhere");
  EXPECT_FALSE(result);
  EXPECT_THAT(result.error(), HasSubstr("/proc/nowhere"));
  EXPECT_FALSE(jobscope::StopCapture().ok()) << "nothing was started";
}

TEST_F(CaptureApiTest, OptionsOutOfRangeAreNamed) {
  jobscope::CaptureOptions options;
  options.host_tracer_level = 7;
  EXPECT_THAT(jobscope::StartCapture(logdir_, options).error(),
              HasSubstr("host_tracer_level = 7 is out of range: 0 to 3"));
  EXPECT_THAT(jobscope::CaptureSteps(logdir_, 10, 9).error(), HasSubstr("comes before"));
  jobscope::CaptureOptions before;
  before.lookback_ms = 1000;
  EXPECT_THAT(jobscope::CaptureSteps(logdir_, 9, 10, before).error(),
              HasSubstr("lookback_ms and a range of steps exclude each other"));
}

TEST_F(CaptureApiTest, APartLimitCutsTheTrace) {
  jobscope::CaptureOptions options;
  options.part_limit_bytes = 64 << 10;
  ASSERT_TRUE(jobscope::StartCapture(logdir_, options).ok());
  for (int i = 0; i < 20000; ++i) {
    JOBSCOPE_SCOPE("part");
  }
  const jobscope::CaptureResult result = jobscope::StopCapture();
  ASSERT_TRUE(result.ok()) << result.error();
  EXPECT_EQ(result.lost(), 0u);
  size_t events = 0;
  int parts = 0;
  for (const auto& run : std::filesystem::directory_iterator(logdir_ + "/plugins/profile")) {
    ++parts;
    const auto by_name = HostEvents(Load(run.path()));
    if (by_name.count("part") != 0) events += by_name.at("part").size();
  }
  EXPECT_GT(parts, 1);
  EXPECT_EQ(events, 20000u);
}

TEST_F(CaptureApiTest, AFullTraceNamesTheOptionThatLimitsIt) {
  jobscope::CaptureOptions options;
  options.max_trace_bytes = 1 << 20;
  ASSERT_TRUE(jobscope::StartCapture(logdir_, options).ok());
  for (int i = 0; i < 1'000'000; ++i) {
    JOBSCOPE_SCOPE("filler", "i", i);
  }
  const jobscope::CaptureResult result = jobscope::StopCapture();
  ASSERT_TRUE(result.ok()) << result.error();
  EXPECT_THAT(Load(result.run_directory()).warnings(),
              Contains(AllOf(HasSubstr("store of 1 MiB was full"), HasSubstr("max_trace_bytes"),
                             Not(HasSubstr("JOBSCOPE_STORE_MB")))));
}

TEST_F(CaptureApiTest, AForkedChildIsRefused) {
  ASSERT_TRUE(jobscope::StartCapture(logdir_).ok());
  ASSERT_TRUE(jobscope::StopCapture().ok());
  const pid_t child = fork();
  if (child == 0) _exit(jobscope::StartCapture(logdir_).ok() ? 1 : 0);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
