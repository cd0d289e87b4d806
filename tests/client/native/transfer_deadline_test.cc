// SPDX-License-Identifier: Apache-2.0
#include "client/native/transfer_deadline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/rpc/call_threads.h"
#include "client/rpc/strand.h"
#include "common/clock/monotonic.h"

namespace jobscope {
namespace {

constexpr absl::Duration kTimeout = absl::Milliseconds(50);
constexpr uint64_t kEnough = 64 << 10;  // bytes that extend the deadline

// Owns a deadline and its strand, as a capture does.
struct Capture {
  Strand strand;
  std::optional<TransferDeadline> deadline;
  std::atomic<uint64_t> expired_ns = 0;
  absl::Notification expired, expired_again;
};

class TransferDeadlineTest : public ::testing::Test {
 protected:
  ~TransferDeadlineTest() override {
    Post([capture = capture_] { capture->deadline.reset(); });
  }

  void Start(uint64_t planned_end_ns) {
    Post([this, capture = capture_, planned_end_ns] {
      capture->deadline.emplace(planned_end_ns, kTimeout, &threads_, &capture->strand, capture,
                                [capture = capture.get()] {
                                  capture->expired_ns = MonotonicNow();
                                  const bool again = capture->expired.HasBeenNotified();
                                  (again ? capture->expired_again : capture->expired).Notify();
                                });
    });
  }

  // The strand may run this later, on another thread.
  void Post(Strand::Job job) { capture_->strand.Post(std::move(job)); }

  void Receive(uint64_t bytes) {
    Post([capture = capture_, bytes] { capture->deadline->OnReceived(bytes); });
  }

  CallThreads threads_;
  const std::shared_ptr<Capture> capture_ = std::make_shared<Capture>();
};

TEST_F(TransferDeadlineTest, ExpiresATimeoutAfterThePlannedEnd) {
  const uint64_t end_ns = MonotonicNow() + DurationNs(kTimeout);
  Start(end_ns);
  capture_->expired.WaitForNotification();
  EXPECT_GE(capture_->expired_ns.load(), end_ns + DurationNs(kTimeout));
}

TEST_F(TransferDeadlineTest, BytesExtendItToAWholeTimeout) {
  const uint64_t begun_ns = MonotonicNow();
  Start(begun_ns);
  std::atomic<uint64_t> received_ns = begun_ns;
  for (uint64_t bytes = kEnough; MonotonicNow() < begun_ns + 4 * DurationNs(kTimeout);
       bytes += kEnough) {
    Post([capture = capture_, &received_ns, bytes] {
      if (capture->expired.HasBeenNotified()) return;  // this machine stood still
      received_ns = MonotonicNow();
      capture->deadline->OnReceived(bytes);
    });
    absl::SleepFor(absl::Milliseconds(1));
  }
  capture_->expired.WaitForNotification();
  EXPECT_GE(capture_->expired_ns.load(), received_ns.load() + DurationNs(kTimeout));
}

TEST_F(TransferDeadlineTest, FewerBytesDoNot) {
  Start(MonotonicNow());
  for (uint64_t bytes = 1; !capture_->expired.HasBeenNotified(); ++bytes) {
    ASSERT_LT(bytes, kEnough);
    Receive(bytes);
    absl::SleepFor(absl::Milliseconds(1));
  }
}

TEST_F(TransferDeadlineTest, APostponedOneGrantsAWholeTimeoutOnceBytesArrive) {
  Start(MonotonicNow());
  capture_->expired.WaitForNotification();
  const uint64_t received_ns = MonotonicNow();
  Post([capture = capture_] {
    capture->deadline->Postpone();
    capture->deadline->OnReceived(1);
  });
  ASSERT_TRUE(capture_->expired_again.WaitForNotificationWithTimeout(absl::Minutes(1)));
  EXPECT_GE(capture_->expired_ns.load(), received_ns + DurationNs(kTimeout));
}

TEST_F(TransferDeadlineTest, AnEarlyEndBringsItForward) {
  Start(MonotonicNow() + DurationNs(absl::Hours(24)));
  Post([capture = capture_] { capture->deadline->OnFinish(); });
  capture_->expired.WaitForNotification();
}

}  // namespace
}  // namespace jobscope
