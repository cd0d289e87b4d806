// SPDX-License-Identifier: Apache-2.0
//
// A CUDA collector on the fake libcupti, and its sessions.
#ifndef TESTS_COLLECTORS_CUDA_COLLECTOR_FIXTURE_H_
#define TESTS_COLLECTORS_CUDA_COLLECTOR_FIXTURE_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "collectors/cuda/cuda_collector.h"
#include "collectors/cuda/events/step_timeline.h"
#include "collectors/cuda/tracing/buffer_pool.h"
#include "collectors/cuda/tracing/left_kinds.h"
#include "tests/collectors/cuda/fake_gpu.h"
#include "tests/collectors/host/session_driver.h"

namespace jobscope {

inline constexpr bool kMonotonic = false;  // ticks are nanoseconds
inline constexpr const char* kAdd = "_Z6vecAddPKfS0_Pfi";
inline constexpr const char* kAddName = "vecAdd(float const*, float const*, float*, int)";

// The fake of the newest version that we know, or of another: a library's version is read once, so
// each version is a library of its own.
struct Fakes {
  std::map<uint32_t, std::string> paths = {{130001, FAKE_CUPTI}};
  std::map<uint32_t, std::unique_ptr<cuda::FakeGpu>> gpus;
  cuda::FakeGpu* current = nullptr;
};

inline Fakes& fakes() {
  static auto* const fakes = new Fakes;
  return *fakes;
}

inline cuda::FakeGpu& gpu() { return *fakes().current; }

// The path of the library. From now on gpu() is this one, as new.
inline std::string UseVersion(uint32_t version) {
  std::string& path = fakes().paths[version];
  if (path.empty()) {
    path = ::testing::TempDir() + "/libcupti-fake-" + std::to_string(version) + "-" +
           std::to_string(getpid()) + ".so";
    std::filesystem::copy_file(FAKE_CUPTI, path);
  }
  std::unique_ptr<cuda::FakeGpu>& gpu = fakes().gpus[version];
  if (gpu == nullptr) {
    gpu = std::make_unique<cuda::FakeGpu>(path, FAKE_CUDA);
    if (path != FAKE_CUPTI) std::filesystem::remove(path);
  }
  gpu->Reset(version);
  fakes().current = gpu.get();
  return path;
}

class CudaCollectorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.cupti_library = UseVersion(130001);
    (void)cuda::BufferPool::Get().TakeCounts();  // of earlier tests' buffers, which came back late
    // On a busy machine nothing hangs that only takes long; see ExpectHangAtEnd.
    options_.limits.begin = options_.limits.end = options_.limits.detach = absl::Seconds(10);
    options_.limits.stop = absl::Seconds(30);
    options_.limits.flush_hangs = absl::Seconds(10);
    options_.limits.work_in_flight = absl::Milliseconds(50);
    options_.limits.flush_every = absl::Milliseconds(1);
    options_.steps = [this] { return steps_; };
  }
  void TearDown() override {
    driver_.reset();
    gpu().Release();
    collector_.reset();
    ExpectUnsubscribed();
    LeaveGpu();
  }

  // A call of the fake libcupti, for Calls.
  static constexpr char kForcedWhileTraced[] =
      "cuptiActivityFlushAll:forced while kernels are traced";

  // The next capture is that of a new collector, with the options as they are now.
  void RenewCollector() {
    driver_.reset();
    collector_.reset();
  }
  void RenewCollector(uint32_t version) {
    RenewCollector();
    options_.cupti_library = UseVersion(version);
  }

  // The next CUPTI of this process is another one: this one may still trace kernels.
  static void LeaveGpu() {
    (void)gpu().FlushAll(1);
    cuda::LeftKinds::Get().SetKernelsStay(false);
  }

  // A call that has hung is undone on a thread that nobody waits for, once it returns: it would
  // take part in the next test.
  void ExpectUnsubscribed() {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (gpu().IsSubscribed() != 0 && absl::Now() < deadline) std::this_thread::yield();
    EXPECT_EQ(gpu().IsSubscribed(), 0);
  }

  // Of the next collector: gives up soon on calls that do not return at the begin, or at the end. A
  // call that returns must not be taken for one because its thread was not run.
  void ExpectHangAtBegin() { options_.limits.begin = absl::Seconds(1); }
  void ExpectHangAtEnd() {
    options_.limits.end = options_.limits.detach = absl::Milliseconds(600);
    options_.limits.stop = cuda::SessionLimits().stop;
  }

  CudaCollector& collector() {
    if (collector_ == nullptr) {
      collector_ = std::make_unique<CudaCollector>(kMonotonic, options_);
    }
    return *collector_;
  }
  SessionDriver& session() {
    if (driver_ == nullptr) driver_ = std::make_unique<SessionDriver>(&collector(), kMonotonic);
    return *driver_;
  }
  void Begin() {
    const absl::Status armed = session().Arm();
    ASSERT_TRUE(armed.ok()) << armed;
    ASSERT_TRUE(session().Start().ok());
  }
  // Ends the capture after all that the test has let happen: kernels end a little after now.
  void Finish() { session().StopAt(session().Now() + 1'000'000'000); }
  // Ends a capture of one kernel in which a call hangs: the kernel is there, and the reason.
  // Returns how long that took.
  absl::Duration FinishInAHang(const std::string& reason) {
    const absl::Time before = absl::Now();
    Finish();
    const absl::Duration took = absl::Now() - before;
    session().ExpectIdentity();
    EXPECT_EQ(session().Named(kAddName).size(), 1u);
    EXPECT_EQ(session().report().state, CollectorState::kDegraded);
    EXPECT_NE(session().report().reason.find(reason), std::string::npos)
        << session().report().reason;
    return took;
  }
  std::vector<std::string> LineNames(const std::string& plane_name) {
    std::vector<std::string> names;
    for (const auto& plane : session().space().planes()) {
      if (plane.name() != plane_name) continue;
      for (const auto& line : plane.lines()) names.push_back(line.name());
    }
    return names;
  }
  std::vector<std::string> PlaneNames() {
    std::vector<std::string> names;
    for (const auto& plane : session().space().planes()) names.push_back(plane.name());
    return names;
  }

  std::vector<cuda::StepSpan> steps_;
  CudaCollectorOptions options_;
  std::unique_ptr<CudaCollector> collector_;
  std::unique_ptr<SessionDriver> driver_;
};

}  // namespace jobscope

#endif  // TESTS_COLLECTORS_CUDA_COLLECTOR_FIXTURE_H_
