// SPDX-License-Identifier: Apache-2.0
//
// The reader of CUPTI's buffers while allocations fail.
#include <gtest/gtest.h>
#include <pthread.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <string>

#include "absl/time/time.h"
#include "collectors/cuda/buffer_reader.h"
#include "tests/collectors/cuda/events/writer_rig.h"
#include "tests/collectors/cuda/record_builder.h"
#include "tests/failing_memory.h"

namespace jobscope::cuda {
namespace {

// Of a buffer with one record.
CuptiResult NextRecord(uint8_t* buffer, size_t /*valid*/, uint8_t** record) {
  if (*record != nullptr) return kCuptiMaxLimitReached;
  *record = buffer;
  return kCuptiSuccess;
}

// The pool belongs to the process: what it loses, later captures lack.
TEST(BufferReaderMemory, ABufferThatCouldNotBeReadIsUsedAgain) {
  pthread_setname_np(pthread_self(), "jobscope-test");
  BufferPool& pool = BufferPool::Get();
  std::string error;
  ASSERT_TRUE(pool.Prepare(/*buffers=*/1, /*ready=*/1, /*null_is_safe=*/true, &error)) << error;
  pool.SetMode(BufferPool::Mode::kRecording);

  CuptiApi api{};
  api.version = kCupti13_0_1;
  api.cuptiActivityGetNextRecord = &NextRecord;
  WriterRig rig(api);
  const auto no_clock = [] { return uint64_t{0}; };
  const ClockMap clock(no_clock, no_clock, 1e9);
  BufferReader reader(&rig.api, &clock, &rig.kernels, &rig.threads, &rig.held, &rig.account);

  Activity kernel;
  kernel.name = "a name that is too long for a string without memory of its own";
  kernel.start_ns = 1;
  kernel.end_ns = 2;
  const Bytes record = Encode(kernel, api.version);
  int failed = 0;
  for (int at = 1; at < 100; ++at) {
    uint8_t* buffer = nullptr;
    size_t size = 0;
    size_t most_records = 0;
    BufferPool::Request(&buffer, &size, &most_records);
    ASSERT_NE(buffer, nullptr) << at;
    std::memcpy(buffer, record.data(), record.size());
    BufferPool::Complete(nullptr, 0, buffer, size, record.size());
    bool threw = false;
    FailAllocations(at, /*failures=*/1);
    try {
      (void)reader.Read(absl::InfiniteDuration(), SIZE_MAX);
    } catch (const std::bad_alloc&) {
      threw = true;
    }
    StopFailing();
    if (!threw) break;
    ++failed;
  }
  EXPECT_GT(failed, 0);
  pool.SetMode(BufferPool::Mode::kIdle);
}

}  // namespace
}  // namespace jobscope::cuda
