// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/tracing/buffer_pool.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace jobscope::cuda {
namespace {

// The pool is the process's: each test leaves it as it found it.
class BufferPoolTest : public ::testing::Test {
 protected:
  static constexpr size_t kBuffers = 4;
  BufferPool& pool_ = BufferPool::Get();

  void SetUp() override {
    std::string error;
    ASSERT_TRUE(pool_.Prepare(kBuffers, 2, /*null_is_safe=*/true, &error)) << error;
    (void)pool_.TakeCounts();
    pool_.SetMode(BufferPool::Mode::kRecording);
  }
  void TearDown() override {
    pool_.SetMode(BufferPool::Mode::kIdle);
    while (const auto full = pool_.TakeFull()) pool_.Free(full->slot);
    pool_.StopKeeping();
    while (const auto kept = pool_.TakeKept()) pool_.Free(kept->slot);
    pool_.ReleaseMemory();
    EXPECT_EQ(pool_.LentWithRecords(), 0u);
  }
  static uint8_t* Request() {
    uint8_t* buffer = nullptr;
    size_t size = 0;
    size_t records = 1;
    BufferPool::Request(&buffer, &size, &records);
    EXPECT_EQ(records, 0u);
    EXPECT_EQ(size, buffer == nullptr ? 0 : BufferPool::kBufferBytes);
    // As CUPTI does; and a first record.
    if (buffer != nullptr) {
      std::memset(buffer, 0, BufferPool::kBufferBytes);
      buffer[0] = 10;
    }
    return buffer;
  }
  static void Complete(uint8_t* buffer, size_t valid) {
    BufferPool::Complete(nullptr, 0, buffer, BufferPool::kBufferBytes, valid);
  }
};

// The kernel fills what a program that locks its memory maps.
TEST(BufferPool, TakesMemoryForUsedBuffersOnly) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        rusage before = {};
        getrusage(RUSAGE_SELF, &before);
        if (mlockall(MCL_FUTURE) != 0) _exit(2);  // RLIMIT_MEMLOCK
        std::string error;
        const bool prepared = BufferPool::Get().Prepare(256, 2, /*null_is_safe=*/true, &error);
        rusage after = {};
        getrusage(RUSAGE_SELF, &after);
        _exit(prepared && after.ru_maxrss < before.ru_maxrss + 64 * 1024 ? 0 : 1);
      },
      [](int status) { return WIFEXITED(status) && WEXITSTATUS(status) != 1; }, "");
}

TEST_F(BufferPoolTest, BuffersComeBackInTheOrderOfCompletion) {
  uint8_t* const a = Request();
  uint8_t* const b = Request();
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 8, 0u);
  Complete(b, 100);
  Complete(a, 200);
  auto full = pool_.TakeFull();
  ASSERT_TRUE(full.has_value());
  EXPECT_EQ(full->data, b);
  EXPECT_EQ(full->bytes, 100u);
  pool_.Free(full->slot);
  full = pool_.TakeFull();
  ASSERT_TRUE(full.has_value());
  EXPECT_EQ(full->data, a);
  pool_.Free(full->slot);
  EXPECT_FALSE(pool_.TakeFull().has_value());
}

TEST_F(BufferPoolTest, WhatCuptiHoldsIsKnownByTheRecordsInItAndByItsAge) {
  uint8_t* const written = Request();
  uint8_t* const late = Request();
  uint8_t* const empty = Request();
  late[0] = 0;
  late[400] = 10;  // the first record is reserved, and the second one written
  empty[0] = 0;
  const uint64_t mark = pool_.Mark();
  uint8_t* const after = Request();
  EXPECT_EQ(pool_.LentWithRecords(mark), 2u);
  EXPECT_EQ(pool_.LentWithRecords(), 3u);
  Complete(written, 100);
  Complete(late, 100);
  EXPECT_EQ(pool_.LentWithRecords(mark), 0u);
  // Used again, it is younger than the mark.
  pool_.Free(pool_.TakeFull()->slot);
  EXPECT_EQ(Request(), written);
  EXPECT_EQ(pool_.LentWithRecords(mark), 0u);
  EXPECT_EQ(pool_.LentWithRecords(), 2u);
  for (uint8_t* const buffer : {written, empty, after}) Complete(buffer, 0);
}

TEST_F(BufferPoolTest, WhatWasDisregardedIsAwaitedAgainIfCuptiWritesToIt) {
  uint8_t* const missing = Request();
  const uint64_t mark = pool_.Mark();
  uint8_t* const after_mark = Request();
  EXPECT_EQ(pool_.LentWithRecords(mark), 1u);
  pool_.Disregard(mark);
  EXPECT_EQ(pool_.LentWithRecords(mark), 0u);
  EXPECT_EQ(pool_.LentWithRecords(), 1u);
  Complete(after_mark, 0);
  EXPECT_FALSE(pool_.HasLent());
  missing[BufferPool::kBufferBytes - 1] = 1;
  EXPECT_EQ(pool_.LentWithRecords(), 1u);
  // Returned it is read; lent again, it is awaited.
  Complete(missing, 200);
  const auto full = pool_.TakeFull();
  ASSERT_TRUE(full.has_value());
  EXPECT_EQ(full->data, missing);
  pool_.Free(full->slot);
  EXPECT_EQ(Request(), missing);
  EXPECT_EQ(pool_.LentWithRecords(), 1u);
  EXPECT_TRUE(pool_.HasLent());
  EXPECT_EQ(pool_.TakeCounts().late, 0u);
  Complete(missing, 0);
}

TEST_F(BufferPoolTest, OverTheCapNothingIsGivenWhereThatIsSafe) {
  std::vector<uint8_t*> taken;
  for (size_t i = 0; i < kBuffers; ++i) taken.push_back(Request());
  EXPECT_EQ(Request(), nullptr);
  EXPECT_EQ(pool_.LentWithRecords(), kBuffers);
  for (uint8_t* const buffer : taken) Complete(buffer, 0);
  EXPECT_EQ(pool_.TakeCounts().refused, 1u);
  EXPECT_FALSE(pool_.TakeFull().has_value());  // empty ones are free again at once
}

TEST_F(BufferPoolTest, OverTheCapOldVersionsGetDiscardBuffers) {
  std::string error;
  ASSERT_TRUE(pool_.Prepare(kBuffers, 0, /*null_is_safe=*/false, &error));
  std::vector<uint8_t*> taken;
  for (size_t i = 0; i < kBuffers + BufferPool::kDiscardBuffers; ++i) taken.push_back(Request());
  for (uint8_t* const buffer : taken) ASSERT_NE(buffer, nullptr);
  uint8_t* const shared = Request();
  ASSERT_NE(shared, nullptr);
  const BufferPool::Counts counts = pool_.TakeCounts();
  EXPECT_EQ(counts.discarded, BufferPool::kDiscardBuffers + 1);
  EXPECT_EQ(counts.shared, 1u);
  Complete(taken.back(), 64);
  const auto full = pool_.TakeFull();
  ASSERT_TRUE(full.has_value());
  EXPECT_TRUE(full->discard);
  pool_.Free(full->slot);
  Complete(shared, 64);  // the same one, back a second time
  taken.pop_back();
  for (uint8_t* const buffer : taken) Complete(buffer, 0);
}

TEST_F(BufferPoolTest, BeforeTheStartTheOldestRecordsMakeRoom) {
  pool_.SetMode(BufferPool::Mode::kArmed);
  for (size_t i = 0; i < 3 * kBuffers; ++i) {
    uint8_t* const buffer = Request();
    ASSERT_NE(buffer, nullptr) << i;
    Complete(buffer, i + 1);
  }
  EXPECT_EQ(pool_.TakeCounts().recycled, 2 * kBuffers);
  const auto oldest = pool_.TakeFull();
  ASSERT_TRUE(oldest.has_value());
  EXPECT_EQ(oldest->bytes, 2 * kBuffers + 1);
  pool_.Free(oldest->slot);
}

// Its records may own memory.
TEST_F(BufferPoolTest, WhatComesBackLateIsCountedAndKeptForAWhile) {
  uint8_t* const late = Request();
  uint8_t* const empty = Request();
  uint8_t* const later = Request();
  pool_.SetMode(BufferPool::Mode::kIdle);
  Complete(late, 10);
  Complete(empty, 0);
  EXPECT_FALSE(pool_.TakeFull().has_value());
  EXPECT_EQ(pool_.TakeCounts().late, 1u);
  const auto kept = pool_.TakeKept();
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(kept->data, late);
  EXPECT_EQ(kept->bytes, 10u);
  pool_.Free(kept->slot);
  pool_.StopKeeping();
  Complete(later, 10);
  EXPECT_FALSE(pool_.TakeKept().has_value());
  EXPECT_EQ(pool_.TakeCounts().late, 1u);
  pool_.SetMode(BufferPool::Mode::kArmed);
  for (size_t i = 0; i < kBuffers; ++i) EXPECT_NE(Request(), nullptr);  // all are free
  EXPECT_EQ(pool_.TakeCounts().recycled, 0u);
  for (uint8_t* const buffer : {late, empty, later}) Complete(buffer, 0);
  Complete(late + (kBuffers - 1) * BufferPool::kBufferBytes, 0);
}

// CUPTI got them from nobody's recording: kernels that stay traced would fill the pool.
TEST_F(BufferPoolTest, WhatCuptiGotAfterTheRecordingIsNotKept) {
  std::string error;
  ASSERT_TRUE(pool_.Prepare(kBuffers, 0, /*null_is_safe=*/false, &error));
  pool_.SetMode(BufferPool::Mode::kIdle);
  for (size_t i = 0; i < 2 * kBuffers; ++i) Complete(Request(), 10);
  EXPECT_FALSE(pool_.TakeKept().has_value());
  EXPECT_EQ(pool_.TakeCounts().discarded, 0u);
}

TEST_F(BufferPoolTest, StrangePointersAreCounted) {
  uint8_t strange = 0;
  Complete(&strange, 10);
  uint8_t* const own = Request();
  Complete(own + 8, 10);
  Complete(nullptr, 10);
  EXPECT_EQ(pool_.TakeCounts().foreign, 2u);
  Complete(own, 0);
}

TEST_F(BufferPoolTest, TheMemoryOfFreeBuffersGoesBack) {
  uint8_t* const lent = Request();
  uint8_t* const free = Request();
  std::memset(lent, 7, BufferPool::kBufferBytes);
  std::memset(free, 7, BufferPool::kBufferBytes);
  Complete(free, 0);
  pool_.ReleaseMemory();
  unsigned char present = 1;
  ASSERT_EQ(mincore(free, 4096, &present), 0);
  EXPECT_EQ(present & 1, 0);
  EXPECT_EQ(lent[BufferPool::kBufferBytes - 1], 7);  // CUPTI may still write there
  Complete(lent, 0);
}

// CUPTI's own code may look into one as a child exits; it works there no more than CUDA does.
TEST_F(BufferPoolTest, AForkedChildMayTouchThem) {
  uint8_t* const buffer = Request();
  std::memset(buffer, 7, BufferPool::kBufferBytes);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const volatile uint8_t* const seen = buffer;
    _exit(seen[0] == 0 && seen[BufferPool::kBufferBytes - 1] == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(buffer[0], 7);
  Complete(buffer, 0);
}

// CUPTI that was taken out of the process gives back nothing of what it held. A thread of it that
// is slow to end may still write there, so what it held is used again only when a further CUPTI has
// come and gone.
TEST_F(BufferPoolTest, WhatAFinalizedCuptiHeldIsUsedAgainLater) {
  std::string error;
  uint8_t* const slow = Request();
  for (size_t i = 1; i < kBuffers; ++i) ASSERT_NE(Request(), nullptr);
  pool_.Forsake();
  ASSERT_TRUE(pool_.Prepare(kBuffers, 0, true, &error));
  EXPECT_EQ(pool_.LentWithRecords(), 0u);
  Complete(slow, 100);  // late: thrown away, and free
  EXPECT_FALSE(pool_.TakeFull().has_value());
  EXPECT_EQ(pool_.TakeCounts().late, 1u);
  ASSERT_TRUE(pool_.Prepare(kBuffers, 0, true, &error));
  EXPECT_EQ(Request(), slow);
  EXPECT_EQ(Request(), nullptr);
  Complete(slow, 0);
  pool_.Forsake();
  ASSERT_TRUE(pool_.Prepare(kBuffers, 0, true, &error));
  std::vector<uint8_t*> again;
  for (size_t i = 0; i < kBuffers; ++i) again.push_back(Request());
  for (uint8_t* const buffer : again) EXPECT_NE(buffer, nullptr);
  for (uint8_t* const buffer : again) Complete(buffer, 0);
}

// Whenever they come back: read by the session, or counted as late.
TEST_F(BufferPoolTest, BuffersReturnedWhileTheyAreWrittenOffAreReadOrLate) {
  for (int i = 0; i < 2'000; ++i) {
    pool_.SetMode(BufferPool::Mode::kRecording);
    uint8_t* const buffer = Request();
    ASSERT_NE(buffer, nullptr);
    std::thread cupti([buffer] { Complete(buffer, 8); });
    pool_.SetMode(BufferPool::Mode::kIdle);
    (void)pool_.WriteOff();
    uint64_t read = 0;
    while (const auto full = pool_.TakeFull()) {
      ++read;
      pool_.Free(full->slot);
    }
    cupti.join();
    EXPECT_FALSE(pool_.TakeFull().has_value());
    if (const auto kept = pool_.TakeKept()) pool_.Free(kept->slot);
    EXPECT_EQ(read + pool_.TakeCounts().late, 1u);
  }
}

TEST_F(BufferPoolTest, ThreadsNeverShareABuffer) {
  std::atomic<int> clashes{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20'000; ++i) {
        uint8_t* const buffer = Request();
        if (buffer == nullptr) continue;
        *reinterpret_cast<volatile int*>(buffer) = t;
        if (*reinterpret_cast<volatile int*>(buffer) != t) ++clashes;
        Complete(buffer, i % 2 == 0 ? 8 : 0);
      }
    });
  }
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done) {
      while (const auto full = pool_.TakeFull()) pool_.Free(full->slot);
    }
  });
  for (std::thread& thread : threads) thread.join();
  done = true;
  reader.join();
  EXPECT_EQ(clashes, 0);
}

}  // namespace
}  // namespace jobscope::cuda
