// SPDX-License-Identifier: Apache-2.0
//
// Tests a capture whose stream is lost while memory is short: no part of it stays.
#include <gtest/gtest.h>
#include <pthread.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/native/native_capture.h"
#include "server/native/native_captures.h"
#include "tests/failing_memory.h"
#include "tests/server/service_fixture.h"

namespace jobscope {
namespace {

const pthread_t g_test_thread = pthread_self();
bool IsTestThread() { return pthread_equal(pthread_self(), g_test_thread) != 0; }

// From the first allocation on; the parameter: how many fail.
class NativeCaptureMemory : public ServiceFixture, public ::testing::WithParamInterface<int> {
 protected:
  NativeCaptureMemory() {
    NativeCaptureLimits limits;
    limits.hold = limits.resume = absl::Hours(1);  // what ends is not ended by a timer
    captures_ = NativeCaptures::Make(
        sessions_, [] { return StepHistory(); }, limits);
  }

  void Arm() {
    SessionOptions options;
    options.session_id = "s";
    options.on_command = true;
    capture_ = *captures_->New(std::move(options));
    stream_ = capture_->Submit(/*stream=*/nullptr, absl::InfiniteFuture());
    ASSERT_TRUE(AwaitPhase(NativeCapture::Phase::kArmed));
  }
  void Start(absl::Duration duration) {
    Arm();
    StartCommand command;
    command.duration = duration;
    capture_->Start(std::move(command));
    ASSERT_TRUE(Eventually([this] { return capture_->Look(stream_).recording; }));
  }
  bool AwaitPhase(NativeCapture::Phase phase) {
    return Eventually([this, phase] { return capture_->Look(stream_).phase == phase; });
  }
  void DetachWithoutMemory() {
    FailAllocations(1, GetParam(), &IsTestThread);
    EXPECT_NO_THROW(capture_->Detach(stream_));
    EXPECT_LT(StopFailing(), GetParam()) << "no allocation failed";
  }

  std::shared_ptr<NativeCaptures> captures_;
  std::shared_ptr<NativeCapture> capture_;
  NativeCapture::StreamId stream_ = 0;
};

TEST_P(NativeCaptureMemory, AnArmedCaptureEnds) {
  Arm();
  DetachWithoutMemory();
  EXPECT_TRUE(AwaitIdle());
  EXPECT_TRUE(Eventually([this] { return captures_->size() == 0; }));
}

TEST_P(NativeCaptureMemory, ARecordingEndsAndIsHeld) {
  Start(absl::Hours(1));
  DetachWithoutMemory();
  EXPECT_TRUE(AwaitPhase(NativeCapture::Phase::kOver));
  EXPECT_TRUE(AwaitIdle());
  EXPECT_EQ(captures_->size(), 1u);
  EXPECT_TRUE(capture_->Evict("the test"));
}

TEST_P(NativeCaptureMemory, WhatIsOverIsNotHeld) {
  Start(absl::Milliseconds(1));
  ASSERT_TRUE(AwaitPhase(NativeCapture::Phase::kOver));
  DetachWithoutMemory();
  EXPECT_TRUE(AwaitIdle());
  EXPECT_EQ(captures_->size(), 0u);
}

// It would stay for ever: no session ends it.
TEST_P(NativeCaptureMemory, ACaptureThatCannotAskForItsSessionIsOver) {
  bool met = true;
  int over = 0;
  for (int at = 1; met; ++at) {
    ASSERT_LT(at, 1'000);
    SessionOptions options;
    options.peer = "a peer for whose name a std::string needs an allocation";
    options.on_command = true;
    capture_ = *captures_->New(std::move(options));
    FailAllocations(at, GetParam(), &IsTestThread);
    EXPECT_NO_THROW(stream_ = capture_->Submit(/*stream=*/nullptr, absl::InfiniteFuture()));
    met = StopFailing() < GetParam();
    ASSERT_TRUE(Eventually(
        [this] { return capture_->Look(stream_).phase != NativeCapture::Phase::kArming; }));
    const NativeCapture::Snapshot snapshot = capture_->Look(stream_);
    if (snapshot.phase == NativeCapture::Phase::kOver) {
      ++over;
      EXPECT_TRUE(absl::IsResourceExhausted(snapshot.result)) << snapshot.result;
    } else {
      capture_->Drop(absl::CancelledError("the test needs it no more"));
    }
    EXPECT_TRUE(AwaitIdle());
    EXPECT_TRUE(Eventually([this] { return captures_->size() == 0; }));
  }
  EXPECT_GT(over, 1);
}

// Its session ends without memory for any text.
TEST_P(NativeCaptureMemory, ADroppedCaptureIsForgotten) {
  Arm();
  FailAllocations(1, GetParam());
  capture_->Drop(absl::CancelledError("a reason for which a std::string needs an allocation"));
  EXPECT_TRUE(AwaitIdle());
  EXPECT_TRUE(Eventually([this] { return captures_->size() == 0; }));
  EXPECT_LT(StopFailing(), GetParam()) << "no allocation failed";
  EXPECT_TRUE(AwaitPhase(NativeCapture::Phase::kOver));
}

TEST_P(NativeCaptureMemory, WithoutMemoryForATextAHeldCaptureIsEvicted) {
  Start(absl::Milliseconds(1));
  ASSERT_TRUE(AwaitPhase(NativeCapture::Phase::kOver));
  capture_->Detach(stream_);
  ASSERT_TRUE(AwaitIdle());
  ASSERT_EQ(captures_->size(), 1u);
  const std::string by = "a session for whose name a std::string needs an allocation";
  FailAllocations(1, GetParam(), &IsTestThread);
  EXPECT_NO_THROW(EXPECT_TRUE(capture_->Evict(by)));
  EXPECT_LT(StopFailing(), GetParam()) << "no allocation failed";
  EXPECT_EQ(captures_->size(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Failures, NativeCaptureMemory, ::testing::Values(1, 1'000'000));

}  // namespace
}  // namespace jobscope
