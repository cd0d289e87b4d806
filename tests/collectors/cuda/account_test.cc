// SPDX-License-Identifier: Apache-2.0
//
// Tests the account of a session: attempted = in the trace + lost, by cause + outside the window.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "collectors/cuda/tracing/buffer_pool.h"
#include "tests/collectors/cuda/collector_fixture.h"

namespace {

// Details of overhead records: CUPTI allocates them, and their receiver frees them.
constexpr size_t kMaxDetails = 256;
std::array<std::atomic<void*>, kMaxDetails> details_in_use;
std::atomic<int> details_count{0};

void* NewDetails() {
  void* const details = std::malloc(8);
  for (std::atomic<void*>& place : details_in_use) {
    void* none = nullptr;
    if (place.compare_exchange_strong(none, details)) break;
  }
  ++details_count;
  return details;
}

}  // namespace

// The linker passes each free() of this program here.
extern "C" void __real_free(void* memory);   // NOLINT: the linker's name
extern "C" void __wrap_free(void* memory) {  // NOLINT: the linker's name
  if (memory != nullptr && details_count > 0) {
    for (std::atomic<void*>& place : details_in_use) {
      void* found = memory;
      if (place.compare_exchange_strong(found, nullptr)) --details_count;
    }
  }
  __real_free(memory);
}

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

using cuda::Activity;
using cuda::Bytes;
using cuda::FakeGpu;
using cuda::RealtimeNs;

class CudaAccountTest : public CudaCollectorTest {
 protected:
  static constexpr uint32_t kKindOverhead = 17;
  static Bytes Overhead() {
    Activity overhead;
    overhead.type = cuda::ActivityType::kOverhead;
    overhead.call = 6u << 16;
    overhead.start_ns = RealtimeNs();
    overhead.end_ns = overhead.start_ns + 1'000;
    overhead.details = NewDetails();
    return Encode(overhead, gpu().version());
  }
  static void DeliverOverhead() { EXPECT_TRUE(gpu().Deliver(Overhead())); }
  // CUPTI has no time for it, and gives it back as complete.
  static void EmitWithoutTime(Activity activity) {
    activity.start_ns = activity.end_ns = 0;
    EXPECT_TRUE(gpu().Deliver(Encode(activity, gpu().version())));
  }
};

// As a forced flush gives it.
TEST_F(CudaAccountTest, WorkThatHadNotBegunIsUnfinishedAndNotWithoutATime) {
  Begin();
  const uint32_t correlation = FakeGpu::NextCorrelation();
  gpu().Emit(FakeGpu::Call(cuda::kLaunchKernelCall, correlation, RealtimeNs()));
  Activity running = FakeGpu::Kernel(kAdd, correlation, 0, 0);
  running.start_ns = running.end_ns = 0;
  gpu().Emit(running);
  Finish();
  session().ExpectIdentity();
  EXPECT_EQ(session().Named("Launch vecAdd").size(), 1u);
  EXPECT_THAT(session().report().lost_by_cause, ElementsAre(Pair(LossCause::kGpuUnfinished, 1)));
}

TEST_F(CudaAccountTest, WhatLiesOutsideOfTheWindowIsCountedAndWhatCrossesItsEdgesIsClipped) {
  ASSERT_TRUE(session().Arm().ok());
  const uint64_t before_ns = RealtimeNs();
  gpu().Emit(FakeGpu::Kernel("before", 0, before_ns - 10'000'000, 1'000));
  gpu().Emit(FakeGpu::Kernel("into", 0, before_ns - 5'000'000, 1'000'000'000));
  ASSERT_TRUE(session().Start().ok());
  const uint64_t end = session().Now() + 50'000'000;
  gpu().Emit(FakeGpu::Kernel("behind", 0, RealtimeNs() + 900'000'000, 1'000));
  session().StopAt(end);
  session().ExpectIdentity();
  EXPECT_EQ(session().report().outside, 2u);
  const ReadEvent clipped = session().One("into");
  EXPECT_EQ(clipped.start_ps, 0);
  EXPECT_EQ(clipped.end_ps(), session().map().ToPs(end));
  EXPECT_EQ(clipped.ints.at("truncated"), 1);
  EXPECT_LT(clipped.ints.at("true_start_ns"), 0);
  EXPECT_GT(clipped.ints.at("true_end_ns"), 0);
}

TEST_F(CudaAccountTest, EveryLossIsCountedByItsCause) {
  Begin();
  gpu().Launch(kAdd);
  EmitWithoutTime(FakeGpu::Kernel(kAdd, 0, 0, 0));
  Activity backwards = FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 0);
  backwards.end_ns -= 5'000;
  gpu().Emit(backwards);
  gpu().AddDropped(7);
  // Launched, and never seen again: more of them than the nine losses that do not tell whose they
  // are.
  for (int i = 0; i < 10; ++i) {
    gpu().Emit(FakeGpu::Call(cuda::kLaunchKernelCall, FakeGpu::NextCorrelation(), RealtimeNs()));
  }
  Finish();
  session().ExpectIdentity();
  const auto& lost = session().report().lost_by_cause;
  EXPECT_THAT(lost, Contains(Pair(LossCause::kGpuNoTimestamp, 1)));
  EXPECT_THAT(lost, Contains(Pair(LossCause::kInvalid, 1)));
  EXPECT_THAT(lost, Contains(Pair(LossCause::kCuptiDropped, 7)));
  EXPECT_THAT(lost, Contains(Pair(LossCause::kGpuUnfinished, 1)));
}

// CUPTI's pool on the device was used up: nothing has a time, and the first kernel of the capture
// has none either.
TEST_F(CudaAccountTest, KernelsOfWhichNoneHasATimeNameTheirLaunchesAllTheSame) {
  Begin();
  const uint32_t correlation = FakeGpu::NextCorrelation();
  EmitWithoutTime(FakeGpu::Kernel(kAdd, correlation, 0, 0));
  gpu().Emit(FakeGpu::Call(cuda::kLaunchKernelCall, correlation, RealtimeNs()));
  Finish();
  session().ExpectIdentity();
  EXPECT_EQ(session().Named("Launch vecAdd").size(), 1u);
  EXPECT_THAT(session().report().lost_by_cause, ElementsAre(Pair(LossCause::kGpuNoTimestamp, 1)));
}

// A record that came, and is lost, explains its own launch and no other one.
TEST_F(CudaAccountTest, ALostRecordIsOneLossAndHidesNoOther) {
  Begin();
  const auto launch = [](bool has_record, uint64_t start_ns, uint64_t end_ns) {
    const uint32_t correlation = FakeGpu::NextCorrelation();
    gpu().Emit(FakeGpu::Call(cuda::kLaunchKernelCall, correlation, RealtimeNs()));
    if (!has_record) return;
    Activity kernel = FakeGpu::Kernel(kAdd, correlation, start_ns, 0);
    kernel.end_ns = end_ns;
    EXPECT_TRUE(gpu().Deliver(Encode(kernel, 130001)));
  };
  for (int i = 0; i < 3; ++i) launch(true, 0, 0);
  const uint64_t now = RealtimeNs();
  for (int i = 0; i < 2; ++i) launch(true, now, now - 5'000'000);
  for (int i = 0; i < 4; ++i) launch(false, 0, 0);
  Finish();
  session().ExpectIdentity();
  EXPECT_THAT(session().report().lost_by_cause,
              ElementsAre(Pair(LossCause::kGpuNoTimestamp, 3), Pair(LossCause::kGpuUnfinished, 4),
                          Pair(LossCause::kInvalid, 2)));
}

// However late Stop comes, and whatever was written before it.
TEST_F(CudaAccountTest, WhatBeginsAfterThePlannedEndIsNotInTheTrace) {
  options_.limits.hold = absl::ZeroDuration();
  const uint64_t end = session().Now() + 1'000'000;
  session().set_planned_end(end);
  Begin();
  while (session().Now() < end + 1'000'000) std::this_thread::yield();
  gpu().Emit(FakeGpu::Kernel("behind", 0, RealtimeNs(), 1));
  (void)session().Drain();
  Finish();
  session().ExpectIdentity();
  EXPECT_THAT(session().Named("behind"), IsEmpty());
  EXPECT_EQ(session().report().outside, 1u);
}

// Start came late, and until then the pool was too small: what is missing is not in the window.
TEST_F(CudaAccountTest, ALateStartBeginsWhereRecordsWereKept) {
  ASSERT_TRUE(session().Arm().ok());
  const uint64_t begin = session().Now();
  const uint64_t begin_ns = RealtimeNs();
  const Bytes kernel = Encode(FakeGpu::Kernel(kAdd, 0, begin_ns, 1'000), 130001);
  const size_t pool = options_.buffer_bytes / cuda::BufferPool::kBufferBytes;
  for (size_t i = 0; i < pool + 10; ++i) EXPECT_TRUE(gpu().Deliver(kernel));
  ASSERT_TRUE(session().StartAt(begin).ok());
  (void)session().Drain();
  gpu().Emit(FakeGpu::Kernel("within", 0, RealtimeNs(), 1'000));
  Finish();
  session().ExpectIdentity();
  EXPECT_EQ(session().Named("within").size(), 1u);
  EXPECT_THAT(session().Named(kAddName), IsEmpty());
  EXPECT_GT(session().report().outside, 0u);
}

// What the profiler itself asks of the driver (a GPU's name, for NVML its UUID) is none of the
// program's calls.
TEST_F(CudaAccountTest, CallsOfOurOwnThreadsAreNotInTheTrace) {
  Begin();
  std::atomic<bool> read{false};
  std::atomic<bool> called{false};
  std::thread own([&] {
    ASSERT_EQ(pthread_setname_np(pthread_self(), "jobscope-nvml"), 0);
    Activity call =
        FakeGpu::Call(cuda::kDriverLaunchCall, FakeGpu::NextCorrelation(), RealtimeNs());
    call.is_driver = true;
    EXPECT_TRUE(gpu().Deliver(Encode(call, 130001)));
    called = true;
    while (!read) std::this_thread::yield();  // such threads live as long as the capture
  });
  while (!called) std::this_thread::yield();
  gpu().Launch(kAdd);
  (void)session().Drain();
  read = true;
  own.join();
  Finish();
  session().ExpectIdentity();
  EXPECT_EQ(session().report().attempted, 2u);
  EXPECT_THAT(session().Named("cuLaunchKernel"), IsEmpty());
  EXPECT_THAT(session().report().lost_by_cause, IsEmpty());
}

TEST_F(CudaAccountTest, LaunchedIsInTheTraceOrLost) {
  Begin();
  constexpr int kLaunches = 5'000;
  for (int i = 0; i < kLaunches; ++i) {
    const uint32_t correlation = FakeGpu::NextCorrelation();
    const uint64_t now_ns = RealtimeNs();
    gpu().Emit(FakeGpu::Call(cuda::kLaunchKernelCall, correlation, now_ns));
    Activity kernel = FakeGpu::Kernel(kAdd, correlation, now_ns + 100, 100);
    if (i % 10 == 3) kernel.start_ns = kernel.end_ns = 0;
    if (i % 10 == 7) continue;  // dropped by CUPTI
    gpu().Emit(kernel);
  }
  gpu().AddDropped(kLaunches / 10);
  Finish();
  session().ExpectIdentity();
  uint64_t lost = 0;
  for (const auto& [cause, count] : session().report().lost_by_cause) lost += count;
  EXPECT_EQ(session().Named(kAddName).size() + lost, size_t{kLaunches});
}

TEST_F(CudaAccountTest, TruncatedUnknownAndGarbledBuffersCostOnlyThemselves) {
  Begin();
  const uint64_t now_ns = RealtimeNs();
  const Bytes good = Encode(FakeGpu::Kernel(kAdd, 0, now_ns, 1'000), 130001);
  Bytes cut = cuda::Join({good, good});
  cut.resize(cut.size() - 8);
  EXPECT_TRUE(gpu().Deliver(cut));  // one whole record
  Bytes marker(56, 0);              // a kind that CUPTI knows and we do not use
  marker[0] = 12;
  EXPECT_TRUE(gpu().Deliver(cuda::Join({good, marker, good})));
  Bytes unknown(64, 0xee);  // a kind that nobody knows: the rest of the buffer is gone
  EXPECT_TRUE(gpu().Deliver(cuda::Join({good, unknown, good})));
  EXPECT_TRUE(gpu().Deliver({}));
  EXPECT_TRUE(gpu().Deliver({1, 2}));
  Finish();
  session().ExpectIdentity();
  EXPECT_EQ(session().Named(kAddName).size(), 4u);
  EXPECT_EQ(session().report().lost_by_cause.at(LossCause::kInvalid), 1u);
  EXPECT_THAT(session().report().warnings,
              AllOf(Contains(HasSubstr("kind 12")), Contains(HasSubstr("1 buffers could not be"))));
}

// XProf finds a launch's GPU by its place among the planes.
TEST_F(CudaAccountTest, ADamagedRecordMakesNoGpu) {
  Begin();
  gpu().Launch(kAdd);
  for (const uint32_t device : {1024u, 4711u, UINT32_MAX}) {
    gpu().Emit(FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000, /*stream=*/7, device));
  }
  Finish();
  session().ExpectIdentity();
  EXPECT_EQ(session().Named(kAddName).size(), 1u);
  EXPECT_THAT(session().report().lost_by_cause, ElementsAre(Pair(LossCause::kInvalid, 3)));
  EXPECT_THAT(PlaneNames(), Contains("/device:GPU:0"));
  EXPECT_THAT(PlaneNames(), Not(Contains(HasSubstr("GPU:1024"))));
}

TEST_F(CudaAccountTest, OverTheCapOfBuffersRecordsAreLostAndCounted) {
  Begin();
  std::vector<void*> taken;
  while (void* const buffer = gpu().Take()) taken.push_back(buffer);
  // The pool of the process is as large as its first user made it.
  EXPECT_GE(taken.size(), 4u);
  EXPECT_FALSE(gpu().Emit(FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000)));
  for (void* const buffer : taken) gpu().Return(buffer, nullptr, 0);
  Finish();
  session().ExpectIdentity();
  EXPECT_EQ(session().report().lost_by_cause.at(LossCause::kCuptiDropped), 1u);
  EXPECT_THAT(session().report().warnings, Contains(HasSubstr("JOBSCOPE_CUDA_BUFFER_MB")));
}

TEST_F(CudaAccountTest, BeforeVersion12_9RecordsOverTheCapAreCountedAsDiscarded) {
  options_.cupti_library = UseVersion(22);
  Begin();
  std::vector<void*> taken;
  const size_t cap = options_.buffer_bytes / cuda::BufferPool::kBufferBytes;
  for (size_t i = 0; i < cap; ++i) taken.push_back(gpu().Take());
  const Bytes kernel = Encode(FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000), 22);
  EXPECT_TRUE(gpu().Deliver(cuda::Join({kernel, kernel, kernel})));
  for (void* const buffer : taken) gpu().Return(buffer, nullptr, 0);
  Finish();
  session().ExpectIdentity();
  EXPECT_EQ(session().report().lost_by_cause.at(LossCause::kGpuPool), 3u);
  EXPECT_THAT(session().Named(kAddName), IsEmpty());
}

// A program that is armed for hours, and CUPTI's command buffer is full again and again.
TEST_F(CudaAccountTest, DetailsOfOverheadsInRecycledBuffersAreNotLeaked) {
  ASSERT_TRUE(session().Arm().ok());
  const auto overhead = [] {
    if (gpu().IsEnabled(kKindOverhead) != 0) DeliverOverhead();
  };
  const size_t pool = options_.buffer_bytes / cuda::BufferPool::kBufferBytes;
  for (size_t i = 0; i < pool + 10; ++i) overhead();
  ASSERT_TRUE(session().Start().ok());
  overhead();
  Finish();
  session().ExpectIdentity();
  EXPECT_EQ(session().Named("command buffer full").size(), 1u);
  EXPECT_EQ(details_count, 0);
}

TEST_F(CudaAccountTest, DetailsOfOverheadsInDiscardBuffersAreNotLeaked) {
  options_.cupti_library = UseVersion(22);
  Begin();
  std::vector<void*> taken;
  const size_t cap = options_.buffer_bytes / cuda::BufferPool::kBufferBytes;
  for (size_t i = 0; i < cap; ++i) taken.push_back(gpu().Take());
  DeliverOverhead();
  for (void* const buffer : taken) gpu().Return(buffer, nullptr, 0);
  Finish();
  session().ExpectIdentity();
  EXPECT_EQ(session().report().lost_by_cause.at(LossCause::kGpuPool), 1u);
  EXPECT_EQ(details_count, 0);
}

// With work of after the end, CUPTI withholds a buffer, until the pool takes it back.
TEST_F(CudaAccountTest, DetailsOfOverheadsInBuffersThatAreTakenBackAreNotLeaked) {
  Begin();
  gpu().Launch(kAdd);
  void* const held = gpu().Take();
  ASSERT_NE(held, nullptr);
  const Bytes record = Overhead();
  gpu().Hang("cuptiActivityFlushAll:forced");
  std::thread cupti([&] {
    EXPECT_EQ(gpu().AwaitHang(), 1);  // the capture has ended
    gpu().Return(held, record.data(), record.size());
    gpu().Release();
  });
  Finish();
  cupti.join();
  session().ExpectIdentity();
  EXPECT_THAT(session().report().lost_by_cause, IsEmpty());
  EXPECT_EQ(details_count, 0);
}

TEST_F(CudaAccountTest, DetailsOfOverheadsThatComeBackAfterAHangAreNotLeaked) {
  ExpectHangAtEnd();
  Begin();
  EXPECT_NE(gpu().LaunchPending(kAdd), 0u);  // CUPTI withholds the buffer
  const Bytes record = Overhead();
  EXPECT_NE(gpu().EmitBytes(record), 0u);
  gpu().Hang("cuptiActivityFlushAll");
  session().Stop();
  EXPECT_EQ(session().report().state, CollectorState::kDegraded);
  EXPECT_EQ(details_count, 1);
  gpu().Release();
  ExpectUnsubscribed();
  EXPECT_EQ(details_count, 0);
}

// Two threads of CUPTI write to the same one, and what one has returned the other may return again.
TEST_F(CudaAccountTest, DetailsOfOverheadsInASharedDiscardBufferAreNotFreed) {
  options_.cupti_library = UseVersion(22);
  Begin();
  const size_t all =
      options_.buffer_bytes / cuda::BufferPool::kBufferBytes + cuda::BufferPool::kDiscardBuffers;
  std::vector<void*> taken;
  for (size_t i = 0; i < all; ++i) taken.push_back(gpu().Take());
  void* const shared = gpu().Take();
  ASSERT_EQ(shared, taken.back());
  const Bytes record = Overhead();
  gpu().Return(shared, record.data(), record.size());
  for (void* const buffer : taken) gpu().Return(buffer, nullptr, 0);
  Finish();
  EXPECT_EQ(session().report().lost_by_cause.at(LossCause::kGpuPool), 1u);
  EXPECT_EQ(details_count, 1);
  for (std::atomic<void*>& details : details_in_use) std::free(details.load());
}

TEST_F(CudaAccountTest, BuffersThatComeBackAfterTheEndAreSaidInTheNextCapture) {
  Begin();
  void* const late = gpu().Take();
  ASSERT_NE(late, nullptr);
  Finish();
  const Bytes kernel = Encode(FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000), 130001);
  gpu().Return(late, kernel.data(), kernel.size());  // into memory that is still there
  driver_.reset();
  Begin();
  gpu().Launch(kAdd);
  Finish();
  session().ExpectIdentity();
  EXPECT_EQ(session().Named(kAddName).size(), 1u);
  EXPECT_THAT(session().report().warnings,
              Contains(HasSubstr("1 buffers came back after the end")));
}

TEST_F(CudaAccountTest, ABufferThatDoesNotComeBackIsSaidOnceAndNotWaitedForAgain) {
  Begin();
  const Bytes kernel = Encode(FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000), 130001);
  void* const held = gpu().Take();
  std::memcpy(held, kernel.data(), kernel.size());
  Finish();
  const auto missing = HasSubstr("1 buffers with records did not come back");
  EXPECT_EQ(session().report().state, CollectorState::kDegraded);
  EXPECT_THAT(session().report().reason, missing);
  EXPECT_THAT(session().report().warnings, Contains(missing));
  options_.limits.work_in_flight = absl::Seconds(20);  // on a busy machine, too
  RenewCollector();
  Begin();
  const uint64_t flushes = gpu().Calls("cuptiActivityFlushAll");
  Finish();
  // Two for the work of the window, one for the end: with work in flight there are more.
  EXPECT_EQ(gpu().Calls("cuptiActivityFlushAll"), flushes + 3);
  EXPECT_EQ(session().report().state, CollectorState::kOn) << session().report().reason;
  EXPECT_THAT(session().report().warnings, IsEmpty());
  gpu().Return(held, kernel.data(), kernel.size());
  driver_.reset();
  Begin();
  Finish();
  EXPECT_THAT(session().report().warnings, ElementsAre(HasSubstr("1 buffers came back after")));
}

// The program goes on while the capture ends.
TEST_F(CudaAccountTest, ABufferOfWorkAfterTheEndIsNotMissed) {
  Begin();
  gpu().Launch(kAdd);
  gpu().Hang("cuptiActivityFlushAll");
  std::thread ending([this] { Finish(); });
  EXPECT_EQ(gpu().AwaitHang(), 1);  // the window has ended
  const Bytes kernel = Encode(FakeGpu::Kernel(kAdd, 0, RealtimeNs(), 1'000), 130001);
  void* const held = gpu().Take();
  std::memcpy(held, kernel.data(), kernel.size());
  gpu().Release();
  ending.join();
  EXPECT_EQ(session().Named(kAddName).size(), 1u);
  EXPECT_EQ(session().report().state, CollectorState::kOn) << session().report().reason;
  EXPECT_THAT(session().report().warnings, IsEmpty());
  gpu().Return(held, kernel.data(), kernel.size());
}

TEST_F(CudaAccountTest, AFullStoreIsALossLikeOthers) {
  driver_ = std::make_unique<SessionDriver>(&collector(), kMonotonic, 1 << 20);
  Begin();
  constexpr int kLaunches = 40'000;
  for (int i = 0; i < kLaunches; ++i) gpu().Launch(kAdd, 100);
  Finish();
  session().ExpectIdentity();
  EXPECT_GT(session().report().lost_by_cause.at(LossCause::kStoreFull), 0u);
  EXPECT_EQ(session().report().attempted, 2u * kLaunches);
}

}  // namespace
}  // namespace jobscope
