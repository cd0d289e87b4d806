// SPDX-License-Identifier: Apache-2.0
#include "client/native/stream_operations.h"

#include <grpcpp/support/slice.h>
#include <gtest/gtest.h>

#include <string>

namespace jobscope {
namespace {

TEST(ReadControlTest, ReadsOneMessageForEachTimeItIsWanted) {
  ReadControl reads;
  EXPECT_FALSE(reads.Next());
  reads.Want();
  EXPECT_TRUE(reads.Next());
  EXPECT_FALSE(reads.Next());
  reads.Want();
  EXPECT_FALSE(reads.Next()) << "one is in progress";
  EXPECT_TRUE(reads.OnRead());
  EXPECT_FALSE(reads.Next()) << "a message is being handled";
  reads.OnHandled();
  EXPECT_TRUE(reads.Next());
  EXPECT_TRUE(reads.OnRead());
  reads.OnHandled();
  EXPECT_FALSE(reads.Next());
}

TEST(ReadControlTest, DrainingReadsUntilTheStreamEnds) {
  ReadControl reads;
  reads.Want();
  ASSERT_TRUE(reads.Next());
  reads.Drain();
  EXPECT_FALSE(reads.Next());
  EXPECT_FALSE(reads.OnRead()) << "discarded";
  EXPECT_TRUE(reads.Next());
  EXPECT_FALSE(reads.OnRead());
  EXPECT_TRUE(reads.Next());
}

TEST(ReadControlTest, DrainingBeginsAfterTheMessageThatIsBeingHandled) {
  ReadControl reads;
  reads.Want();
  ASSERT_TRUE(reads.Next());
  ASSERT_TRUE(reads.OnRead());
  reads.Drain();
  EXPECT_FALSE(reads.Next());
  reads.Want();  // by the handler
  reads.OnHandled();
  EXPECT_TRUE(reads.Next());
  EXPECT_FALSE(reads.OnRead());
}

using Operation = WriteQueue::Operation;

grpc::ByteBuffer Message(size_t bytes) {
  const grpc::Slice slice(std::string(bytes, 'x'));
  return {&slice, 1};
}

TEST(WriteQueueTest, WritesInOrderAndThenCloses) {
  WriteQueue queue;
  grpc::ByteBuffer message;
  EXPECT_EQ(queue.Next(&message), Operation::kNone);
  queue.Add(Message(1));
  queue.Add(Message(2));
  queue.Close();
  queue.Add(Message(3));
  ASSERT_EQ(queue.Next(&message), Operation::kWrite);
  EXPECT_EQ(message.Length(), 1u);
  EXPECT_EQ(queue.Next(&message), Operation::kNone) << "one at a time";
  queue.OnDone(true);
  ASSERT_EQ(queue.Next(&message), Operation::kWrite);
  EXPECT_EQ(message.Length(), 2u);
  queue.OnDone(true);
  EXPECT_EQ(queue.Next(&message), Operation::kClose) << "the third came too late";
  queue.OnDone(true);
  EXPECT_EQ(queue.Next(&message), Operation::kNone);
}

TEST(WriteQueueTest, WritesNothingMoreToABrokenStream) {
  WriteQueue queue;
  grpc::ByteBuffer message;
  queue.Add(Message(1));
  queue.Add(Message(2));
  ASSERT_EQ(queue.Next(&message), Operation::kWrite);
  queue.OnDone(false);
  queue.Add(Message(3));
  queue.Close();
  EXPECT_EQ(queue.Next(&message), Operation::kNone);
}

}  // namespace
}  // namespace jobscope
