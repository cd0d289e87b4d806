// SPDX-License-Identifier: Apache-2.0
#include "server/native/stream_attachment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace jobscope {
namespace {

using ::testing::HasSubstr;

TEST(StreamAttachmentTest, TheNewestReplacesTheOneBefore) {
  StreamAttachment streams(std::make_shared<StreamWaker>());
  EXPECT_FALSE(streams.any());
  const StreamAttachment::Id first = streams.Attach(nullptr);
  EXPECT_TRUE(streams.Has(first));
  const StreamAttachment::Id second = streams.Attach(nullptr);
  EXPECT_FALSE(streams.Has(first));
  EXPECT_TRUE(streams.Has(second));
  streams.SetStatusOfOthers(absl::AbortedError("replaced"));
  EXPECT_EQ(streams.StatusOf(first), absl::AbortedError("replaced"));
  EXPECT_TRUE(streams.StatusOf(second).ok());
}

TEST(StreamAttachmentTest, IdsAreNotUsedAgain) {
  StreamAttachment streams(std::make_shared<StreamWaker>());
  const StreamAttachment::Id lost = streams.Attach(nullptr);
  streams.Detach();
  EXPECT_FALSE(streams.any());
  EXPECT_FALSE(streams.Has(lost));
  streams.Attach(nullptr);
  EXPECT_TRUE(streams.any());
  EXPECT_FALSE(streams.Has(lost));
}

TEST(StreamAttachmentTest, WithoutAReasonOthersEndBecauseTheCaptureIsGone) {
  StreamAttachment streams(std::make_shared<StreamWaker>());
  const StreamAttachment::Id stream = streams.Attach(nullptr);
  streams.Detach();
  EXPECT_TRUE(absl::IsAborted(streams.StatusOf(stream)));
  EXPECT_THAT(std::string(streams.StatusOf(stream).message()), HasSubstr("gone"));
}

TEST(StreamAttachmentTest, AnEvictedStreamLearnsIt) {
  StreamAttachment streams(std::make_shared<StreamWaker>());
  const StreamAttachment::Id stream = streams.Attach(nullptr);
  streams.Evict(absl::AbortedError("evicted"));
  EXPECT_FALSE(streams.any());
  EXPECT_EQ(streams.StatusOf(stream), absl::AbortedError("evicted"));
}

// 0 stands for "no stream": it is never attached, not even while none is.
TEST(StreamAttachmentTest, NoStreamIsNeverAttached) {
  StreamAttachment streams(std::make_shared<StreamWaker>());
  EXPECT_FALSE(streams.Has(0));
  EXPECT_FALSE(streams.StatusOf(0).ok());
}

}  // namespace
}  // namespace jobscope
