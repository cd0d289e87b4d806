// SPDX-License-Identifier: Apache-2.0
//
// A scope between a call and the look at its errno. A process of its own: it runs out of memory.
#include <errno.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <future>
#include <thread>

#include "jobscope/trace.h"
#include "tests/collectors/host/recorder/recorded.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define JOBSCOPE_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define JOBSCOPE_TEST_SANITIZED 1
#endif
#endif

namespace jobscope::recorder_test {
namespace {

TEST(Errno, StaysAsItIsWhereTheFirstRecordFindsNoMemory) {
#if defined(JOBSCOPE_TEST_SANITIZED)
  GTEST_SKIP() << "a sanitizer needs its address space";
#endif
  Recording recording(kAllBits);
  std::promise<void> limited;
  std::promise<int> seen;
  std::thread thread([&] {
    limited.get_future().wait();
    errno = EAGAIN;
    { JOBSCOPE_SCOPE("the first record of this thread, and the first name of the process"); }
    seen.set_value(errno);
  });
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit nothing_more = {4096, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &nothing_more), 0);
  limited.set_value();
  const int error = seen.get_future().get();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  thread.join();
  EXPECT_EQ(error, EAGAIN);
  jobscope_totals totals;
  jobscope_trace_reader()->totals(&totals);
  EXPECT_EQ(totals.no_ring_events, 1u) << "it was not the failure that is tested";
}

}  // namespace
}  // namespace jobscope::recorder_test
