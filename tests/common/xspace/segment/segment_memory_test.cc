// SPDX-License-Identifier: Apache-2.0
//
// A segment while allocations fail.
#include <gtest/gtest.h>
#include <pthread.h>

#include <cstdint>
#include <new>
#include <string_view>

#include "common/xspace/segment/segment.h"
#include "tests/failing_memory.h"

namespace jobscope::xspace {
namespace {

class CountingSink : public ItemSink {
 public:
  [[nodiscard]] bool Append(ItemKind /*kind*/, std::string_view body) override {
    bytes += body.size();
    return true;
  }
  bool Full() const override { return false; }
  uint64_t bytes = 0;
};

TEST(SegmentMemory, AnEventIsAddedAsAWholeOrNotAtAll) {
  pthread_setname_np(pthread_self(), "jobscope-test");
  for (int at = 1; at < 60; ++at) {
    CountingSink sink;
    SegmentBuilder builder(&sink, 1, 1, 1);
    uint64_t added = 0;
    FailAllocations(at, /*failures=*/1);
    for (int64_t i = 0; i < 2000; ++i) {
      SegmentEvent event;
      event.start_ps = i % 2 == 0 ? 10 * i : 10 * i - 15;  // not in order
      event.duration_ps = 1;
      event.metadata_id = 1;
      try {
        builder.Add(event);
        ++added;
      } catch (const std::bad_alloc&) {
      }
    }
    StopFailing();
    builder.Flush();
    EXPECT_EQ(builder.appended_events(), added) << at;
    EXPECT_EQ(builder.refused_events(), 0U) << at;
    EXPECT_GT(sink.bytes, added) << at;
  }
}

}  // namespace
}  // namespace jobscope::xspace
