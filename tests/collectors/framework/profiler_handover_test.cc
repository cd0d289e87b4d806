// SPDX-License-Identifier: Apache-2.0
#include "collectors/framework/profiler_handover.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "tests/closed_input.h"

namespace jobscope::framework {
namespace {

using python::Value;

class ProfilerHandoverTest : public ::testing::Test {
 protected:
  // As Python does, with its arguments.
  void Call(const std::string& function, std::vector<Value> arguments = {}) {
    for (const auto& [name, native] : handover_->Functions()) {
      if (name == function) native(arguments);
    }
  }
  void HandOver(const std::string& bytes) {
    const size_t memory = turn_++ % ProfilerHandover::kMemories;
    const int fd = handover_->memory_fds()[memory];
    ASSERT_EQ(ftruncate(fd, 0), 0);
    ASSERT_EQ(pwrite(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    Call("hand_over", {int64_t(memory), static_cast<int64_t>(bytes.size())});
  }
  off_t BytesKept() const {
    off_t bytes = 0;
    for (const int fd : handover_->memory_fds()) bytes += lseek(fd, 0, SEEK_END);
    return bytes;
  }
  bool IsQuiet() const {
    struct pollfd quiet = {handover_->quiet_fd(), POLLIN, 0};
    return poll(&quiet, 1, 0) == 1;
  }

  const std::shared_ptr<ProfilerHandover> handover_ = ProfilerHandover::Make();
  size_t turn_ = 0;
};

TEST_F(ProfilerHandoverTest, WhatIsHandedOverIsClaimedOnce) {
  EXPECT_FALSE(handover_->Claim(absl::ZeroDuration()).has_value());
  const std::string large(size_t{5} << 20, 'x');
  for (const std::string& bytes : {std::string("an XSpace"), large, std::string()}) {
    HandOver(bytes);
    EXPECT_TRUE(handover_->complete());
    {
      const auto claimed = handover_->Claim(absl::ZeroDuration());
      ASSERT_TRUE(claimed.has_value());
      ASSERT_TRUE(claimed->ok());
      EXPECT_TRUE((*claimed)->bytes() == bytes);
      EXPECT_FALSE(handover_->Claim(absl::ZeroDuration()).has_value());
    }
    EXPECT_EQ(BytesKept(), 0);
  }
}

// It is read where it was written, while the next one comes: for one that is being merged there is
// no second copy.
TEST_F(ProfilerHandoverTest, WhatWasClaimedStaysWhileTheNextIsWritten) {
  const std::string first(size_t{1} << 20, 'a');
  HandOver(first);
  auto claimed = handover_->Claim(absl::ZeroDuration());
  ASSERT_TRUE(claimed.has_value() && claimed->ok());
  HandOver("second");
  EXPECT_TRUE((*claimed)->bytes() == first);
  EXPECT_EQ(BytesKept(), off_t(first.size() + 6));
  claimed.reset();
  EXPECT_EQ(BytesKept(), 6);
  EXPECT_EQ((*handover_->Claim(absl::ZeroDuration()))->bytes(), "second");
}

TEST_F(ProfilerHandoverTest, AnInterruptionIsOfItsSession) {
  EXPECT_EQ(handover_->interruption(), "");
  Call("interrupt", {std::string("the program began its own trace")});
  EXPECT_EQ(handover_->interruption(), "the program began its own trace");
  handover_->Reset();
  EXPECT_EQ(handover_->interruption(), "");
}

TEST_F(ProfilerHandoverTest, AReasonInTheXSpacesPlace) {
  std::vector<Value> reason;
  reason.emplace_back(std::string("taken"));
  Call("refuse", reason);
  EXPECT_EQ(handover_->Claim(absl::ZeroDuration())->status().message(), "taken");
  Call("refuse");
  EXPECT_FALSE(handover_->Claim(absl::ZeroDuration())->ok());
}

// A size that nobody has written is no XSpace.
TEST_F(ProfilerHandoverTest, MoreThanThereIsCannotBeRead) {
  Call("hand_over", {int64_t{0}, int64_t{100}});
  EXPECT_FALSE(handover_->Claim(absl::ZeroDuration())->ok());
}

TEST_F(ProfilerHandoverTest, ClaimWaitsForTheExitHook) {
  std::thread hook([this] { HandOver("late"); });
  const auto claimed = handover_->Claim(absl::Seconds(20));
  hook.join();
  ASSERT_TRUE(claimed.has_value());
  EXPECT_EQ((*claimed)->bytes(), "late");
}

TEST_F(ProfilerHandoverTest, NoCallBeginsDuringShutdownAndTheHookAwaitsTheLast) {
  {
    const ProfilerHandover::Call call(handover_.get());
    EXPECT_TRUE(static_cast<bool>(call));
    Call("note_shutdown");
    EXPECT_TRUE(handover_->shutting_down());
    EXPECT_FALSE(static_cast<bool>(ProfilerHandover::Call(handover_.get())));
    EXPECT_FALSE(IsQuiet());
  }
  EXPECT_TRUE(IsQuiet());
}

TEST_F(ProfilerHandoverTest, WhatWasHandedOverIsWaitedForUntilItIsInTheTrace) {
  EXPECT_FALSE(IsQuiet());
  Call("note_shutdown");
  EXPECT_TRUE(IsQuiet());
  HandOver("bytes");
  EXPECT_FALSE(IsQuiet());
  (void)handover_->Claim(absl::ZeroDuration());
  EXPECT_FALSE(IsQuiet());
  handover_->Done();
  EXPECT_TRUE(IsQuiet());
}

TEST_F(ProfilerHandoverTest, AClosedStandardDescriptorStaysClosed) {
  const ClosedInput input;
  const auto handover = ProfilerHandover::Make();
  EXPECT_FALSE(input.taken());
}

TEST_F(ProfilerHandoverTest, ANewSessionDropsWhatIsLeft) {
  HandOver("old");
  handover_->Reset();
  EXPECT_EQ(BytesKept(), 0);
  EXPECT_FALSE(handover_->complete());
  EXPECT_FALSE(handover_->Claim(absl::ZeroDuration()).has_value());
}

}  // namespace
}  // namespace jobscope::framework
