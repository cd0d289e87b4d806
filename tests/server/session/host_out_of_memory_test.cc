// SPDX-License-Identifier: Apache-2.0
//
// Allocations that fail while events of the real recorder are read: the capture fails or lacks
// events, and the process goes on.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <future>
#include <iterator>
#include <string>
#include <thread>
#include <utility>

#include "collectors/host/host_collector.h"
#include "jobscope/trace.h"
#include "tests/failing_memory.h"
#include "tests/server/session/session_fixture.h"

namespace jobscope {
namespace {

// Records what the collector keeps in tables that grow: threads, strings, pairs of records.
class Program {
 public:
  Program() : thread_([this] { Run(); }) {}
  ~Program() {
    stop_.store(true);
    thread_.join();
  }

 private:
  void Run() {
    for (int round = 0; !stop_.load(); ++round) {
      std::thread([round] {
        for (int i = 0; i < 20; ++i) {
          const std::string text = "string " + std::to_string(round * 20 + i);
          JOBSCOPE_SCOPE("work", "text", text);
          (void)AsyncBegin("never ended");
        }
      }).join();
    }
  }

  std::atomic<bool> stop_{false};
  std::thread thread_;
};

ptrdiff_t CountDescriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

TEST(HostOutOfMemory, NoAllocationThatFailsEndsTheProcess) {
  HostCollector host(::jobscope_trace_reader());
  SessionManager::Dependencies dependencies;
  dependencies.collectors = {&host};
  dependencies.uses_tsc = ::jobscope_trace_reader()->uses_tsc != 0;
  SessionManager manager(std::move(dependencies));
  const Program program;
  const auto capture = [&manager] {
    std::promise<absl::Status> done;
    SessionOptions options;
    options.duration = absl::Milliseconds(20);
    options.store_bytes = 4 << 20;
    SessionCallbacks callbacks;
    callbacks.done = [&done](SessionResult result) {
      result.slot.reset();
      done.set_value(result.status);
    };
    manager.Submit(std::move(options), WhenBusy::kWait, absl::InfiniteFuture(),
                   std::move(callbacks));
    return done.get_future().get();
  };
  EXPECT_TRUE(capture().ok());
  const ptrdiff_t descriptors = CountDescriptors();
  int failed = 0;  // allocations
  for (int at = 1; at < 20'000; at += 1 + at / 8) {
    FailAllocations(at, /*failures=*/1);
    const absl::Status status = capture();
    failed += StopFailing() < 1 ? 1 : 0;
    EXPECT_TRUE(status.ok() || absl::IsResourceExhausted(status)) << status;
  }
  EXPECT_GT(failed, 20);
  EXPECT_TRUE(capture().ok());
  EXPECT_EQ(CountDescriptors(), descriptors);
}

}  // namespace
}  // namespace jobscope
