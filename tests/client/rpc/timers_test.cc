// SPDX-License-Identifier: Apache-2.0
#include "client/rpc/timers.h"

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>

#include "absl/time/time.h"
#include "client/rpc/call_threads.h"

namespace jobscope {
namespace {

class TimersTest : public ::testing::Test {
 protected:
  // A function for a timer, and what becomes ready when it runs.
  struct Firing {
    std::shared_ptr<std::promise<void>> promise = std::make_shared<std::promise<void>>();
    std::future<void> fired = promise->get_future();
    std::function<void()> Function() {
      return [promise = promise] { promise->set_value(); };
    }
  };

  CallThreads threads_;
  Timers& timers_ = *threads_.timers();
};

TEST_F(TimersTest, OneThatIsDueEarlierNeedNotWaitForThoseStartedBefore) {
  Firing firing;
  const Timers::Id distant = timers_.Start(absl::Hours(1), [] { FAIL(); });
  timers_.Start(absl::Milliseconds(1), firing.Function());
  firing.fired.wait();
  timers_.Cancel(distant);
}

TEST_F(TimersTest, OneThatWasCancelledDoesNotKeepTheNextFromFiring) {
  Firing firing;
  const Timers::Id first = timers_.Start(absl::Milliseconds(20), [] { FAIL(); });
  timers_.Start(absl::Milliseconds(40), firing.Function());
  timers_.Cancel(first);
  firing.fired.wait();
}

TEST_F(TimersTest, AFunctionMayStartAndCancelTimers) {
  Firing firing;
  const Timers::Id other = timers_.Start(absl::Hours(1), [] { FAIL(); });
  timers_.Start(absl::ZeroDuration(), [this, other, &firing] {
    timers_.Cancel(other);
    timers_.Start(absl::ZeroDuration(), firing.Function());
  });
  firing.fired.wait();
}

TEST_F(TimersTest, CancelReleasesTheFunction) {
  const auto used = std::make_shared<int>();
  const Timers::Id id = timers_.Start(absl::Hours(1), [used] {});
  EXPECT_EQ(used.use_count(), 2);
  timers_.Cancel(id);
  EXPECT_EQ(used.use_count(), 1);
  timers_.Cancel(id);  // has no effect
}

TEST_F(TimersTest, LatenessIsNoted) {
  EXPECT_EQ(timers_.last_late_ns(), 0U);
  timers_.NoteLateness(1'000'000'000, 1'499'999'999);
  EXPECT_EQ(timers_.last_late_ns(), 0U);
  timers_.NoteLateness(1'000'000'000, 1'500'000'000);
  EXPECT_EQ(timers_.last_late_ns(), 1'500'000'000U);
  timers_.NoteLateness(0, 600'000'000);  // an older one
  EXPECT_EQ(timers_.last_late_ns(), 1'500'000'000U);
}

TEST(Timers, DoNotKeepTheirThreads) {
  const auto used = std::make_shared<int>();
  {
    CallThreads threads;
    threads.timers()->Start(absl::Hours(1), [used] {});
  }
  EXPECT_EQ(used.use_count(), 1);
}

}  // namespace
}  // namespace jobscope
