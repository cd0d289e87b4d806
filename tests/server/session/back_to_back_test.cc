// SPDX-License-Identifier: Apache-2.0
//
// One programmatic capture right after the other, in a process whose threads never stop to record:
// none may begin without its bits, whatever the end of the one before was just doing.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collectors/host/host_collector.h"
#include "collectors/host/recorder/reader_abi.h"
#include "jobscope/trace.h"
#include "server/programmatic/programmatic_capture.h"
#include "server/session/session_manager.h"
#include "tests/server/session/session_fixture.h"

namespace jobscope {
namespace {

// At least.
constexpr auto kTime = std::chrono::milliseconds(1500);
constexpr int kCaptures = 4;
constexpr uint32_t kLevels = JOBSCOPE_BIT_LEVEL1 | JOBSCOPE_BIT_LEVEL2;

const struct jobscope_trace_reader* Reader() { return jobscope_trace_reader(); }

class BackToBackTest : public ::testing::TestWithParam<bool> {
 protected:
  BackToBackTest() : host_(Reader()) {
    std::string pattern = ::testing::TempDir() + "back_to_back.XXXXXX";
    logdir_ = mkdtemp(pattern.data());
    // As while a server runs.
    if (GetParam()) host_.SetAlwaysOn(true);
    SessionManager::Dependencies dependencies;
    dependencies.collectors = {&host_};
    dependencies.uses_tsc = Reader()->uses_tsc != 0;
    sessions_ = std::make_unique<SessionManager>(std::move(dependencies));
    captures_ = std::make_unique<ProgrammaticCapture>(sessions_.get(), v1::Identity());
    for (int i = 0; i < 3; ++i) {
      threads_.emplace_back([this] {
        for (int64_t step = 0; !end_.load(); ++step) Train(step);
      });
    }
    // Threads that come and go, and whose rings are taken over.
    threads_.emplace_back([this] {
      while (!end_.load()) std::thread([] { Train(0); }).join();
    });
  }
  ~BackToBackTest() override {
    end_.store(true);
    for (std::thread& thread : threads_) thread.join();
    captures_.reset();
    sessions_->Shutdown(absl::Seconds(60));
    sessions_.reset();
    std::filesystem::remove_all(logdir_);
  }

  static void Train(int64_t number) {
    JOBSCOPE_STEP("train", number);
    for (int i = 0; i < 10; ++i) {
      JOBSCOPE_SCOPE("work");
    }
    // Not more than their rings hold between two drains: what is lost is no matter here.
    std::this_thread::yield();
  }

  HostCollector host_;
  std::unique_ptr<SessionManager> sessions_;
  std::unique_ptr<ProgrammaticCapture> captures_;
  std::string logdir_;
  std::atomic<bool> end_{false};
  std::vector<std::thread> threads_;
};

TEST_P(BackToBackTest, EachBeginsAndEndsWithItsBits) {
  const uint32_t before = Reader()->mask();
  const auto end = std::chrono::steady_clock::now() + kTime;
  int captures = 0;
  for (; std::chrono::steady_clock::now() < end || captures < kCaptures; ++captures) {
    ProgrammaticRequest request;
    request.logdir = logdir_;
    request.capture.duration = absl::InfiniteDuration();
    // Every other one ends by itself, by the step that a thread of the application ends.
    const uint64_t next = Reader()->step_count() + 5;
    if (captures % 2 == 1) {
      const auto first = static_cast<int64_t>(next);
      request.capture.steps = StepRange{first, first + 10, /*by_ordinal=*/true};
    }
    const bool by_steps = request.capture.steps.has_value();
    ASSERT_TRUE(captures_->Start(std::move(request)).ok());
    if (!by_steps) {
      // At once, unless the collector's thread waits for a processor.
      ASSERT_TRUE(Becomes([] { return (Reader()->mask() & kLevels) == kLevels; })) << captures;
      // This thread's own scope: bits that are on must be seen by all.
      JOBSCOPE_SCOPE("mine");
    } else {
      // Before its first step there is nothing in it. It ends by itself in the middle of the stop,
      // or shortly before.
      const uint64_t begun = next + 5;
      ASSERT_TRUE(Becomes([this, begun] {
        const auto busy = sessions_->busy();
        return Reader()->step_count() >= begun && (!busy.has_value() || busy->state() != "waiting");
      }));
    }
    const absl::StatusOr<ProgrammaticResult> result = captures_->Stop();
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_GT(result->events, 0U) << "capture " << captures;
    ASSERT_EQ(Reader()->mask(), before) << "capture " << captures;
  }
  RecordProperty("captures", captures);
}

INSTANTIATE_TEST_SUITE_P(Servers, BackToBackTest, ::testing::Bool());

}  // namespace
}  // namespace jobscope
