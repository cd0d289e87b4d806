// SPDX-License-Identifier: Apache-2.0
//
// Reads stacks without the GIL, from the data of an interpreter that does not run: the structs of
// CPython 3.9, made by the test.
#include "collectors/python/stacks/stacks.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace jobscope::python {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// The structs of CPython 3.9, in words of 64 bits.
using Words = std::array<uint64_t, 40>;
Words g_interpreter;

uint64_t AddressOf(const Words& words) { return reinterpret_cast<uintptr_t>(words.data()); }

class StacksTest : public ::testing::Test {
 protected:
  StacksTest() {
    api_.minor = 9;
    trace_.RequestCodeExtraIndex = [](void (*)(void*)) -> intptr_t { return -1; };
    trace_.InterpreterState_Main = [] { return reinterpret_cast<Object*>(g_interpreter.data()); };
    trace_.code_type = reinterpret_cast<const Object*>(&code_type_);
    trace_.text_type = reinterpret_cast<const Object*>(&text_type_);
    text_[1] = reinterpret_cast<uintptr_t>(&text_type_);
    text_[2] = 1;                             // its length
    text_[4] = (1 << 2) | (1 << 5) | 1 << 6;  // one byte a character, compact, ASCII
    text_[6] = 'f';
    code_[1] = reinterpret_cast<uintptr_t>(&code_type_);
    code_[13] = code_[14] = AddressOf(text_);
    frame_[4] = AddressOf(code_);
    g_interpreter = {};
    g_interpreter[1] = AddressOf(threads_[0]);
    for (size_t i = 0; i < threads_.size(); ++i) {
      threads_[i][1] = i + 1 < threads_.size() ? AddressOf(threads_[i + 1]) : 0;
      threads_[i][2] = AddressOf(g_interpreter);
      descriptors_[i][0] = 70 + i;                   // the OS id
      threads_[i][22] = AddressOf(descriptors_[i]);  // ident
      threads_[i][32] = 7 + i;                       // unique
      Run(i, AddressOf(frame_));
    }
    codes_ = std::make_unique<CodeTable>(api_, trace_);
    reader_ = std::make_unique<StackReader>(api_, trace_, codes_.get());
  }

  // The thread's innermost frame is at `frame`; 0: it runs no function.
  void Run(size_t thread, uint64_t frame) { threads_[thread][3] = frame; }
  uint64_t IdentOf(size_t thread) const { return AddressOf(descriptors_[thread]); }
  StackRound Read() { return reader_->ReadWithoutGil(absl::InfiniteDuration()); }

  int code_type_ = 0;
  int text_type_ = 0;
  Words text_ = {};
  Words code_ = {};
  Words frame_ = {};
  std::array<Words, 2> threads_ = {};
  std::array<Words, 2> descriptors_ = {};  // the C library's
  Api api_;
  TraceApi trace_;
  std::unique_ptr<CodeTable> codes_;
  std::unique_ptr<StackReader> reader_;
};

TEST_F(StacksTest, ThreadsThatRunAreListedWithTheirStacks) {
  const StackRound round = Read();
  EXPECT_TRUE(round.whole);
  EXPECT_THAT(round.idents, ElementsAre(IdentOf(0), IdentOf(1)));
  ASSERT_THAT(round.stacks, SizeIs(2));
  EXPECT_EQ(round.stacks[1].tid, 71);
  ASSERT_THAT(round.stacks[1].frames, SizeIs(1));
  EXPECT_EQ(codes_->Name(round.stacks[1].frames[0].code), "$f:0 f");
}

// Python may keep the state of such a thread, which would then appear to run its last function
// until the end of the capture.
TEST_F(StacksTest, AThreadThatHasLeftPythonIsNotListed) {
  ASSERT_THAT(Read().idents, ElementsAre(IdentOf(0), IdentOf(1)));
  Run(1, 0);
  EXPECT_THAT(Read().idents, ElementsAre(IdentOf(0)));
  Run(0, 0);
  EXPECT_THAT(Read().idents, IsEmpty());
}

// Python may keep the state of a thread that has ended without its knowledge.
TEST_F(StacksTest, AThreadThatHasEndedIsNotListed) {
  descriptors_[0][0] = 0;
  EXPECT_THAT(Read().idents, ElementsAre(IdentOf(1)));
  threads_[1][22] = 8;  // its descriptor is not mapped any more
  EXPECT_THAT(Read().idents, IsEmpty());
}

TEST_F(StacksTest, AThreadWhoseStackCannotBeReadIsListed) {
  Run(1, 8);  // nothing is mapped there
  const StackRound round = Read();
  EXPECT_THAT(round.idents, ElementsAre(IdentOf(0), IdentOf(1)));
  ASSERT_THAT(round.stacks, SizeIs(1));
  EXPECT_EQ(round.stacks[0].ident, IdentOf(0));
}

// From 3.15 on each thread has a frame that is no function; the structs are those of 3.12.
TEST_F(StacksTest, AThreadWithoutAFunctionIsNotListed) {
  Words cframe = {};
  Words base = {};
  const auto set_owner = [](Words* frame, uint64_t owner) { (*frame)[8] = owner << 48; };
  text_[5] = 'f';
  frame_ = {};
  frame_[0] = AddressOf(code_);
  frame_[1] = AddressOf(base);
  set_owner(&base, 3);
  code_[14] = code_[16] = AddressOf(text_);
  cframe[0] = AddressOf(frame_);
  threads_[0][7] = AddressOf(cframe);
  threads_[0][17] = 7;  // ident
  threads_[0][18] = 7;  // unique, the OS id
  threads_[0][1] = 0;
  g_interpreter[9] = AddressOf(threads_[0]);
  api_.minor = 12;
  StackReader reader(api_, trace_, codes_.get());
  const StackRound round = reader.ReadWithoutGil(absl::InfiniteDuration());
  ASSERT_THAT(round.stacks, SizeIs(1));
  EXPECT_THAT(round.stacks[0].frames, SizeIs(1));
  cframe[0] = AddressOf(base);
  EXPECT_THAT(reader.ReadWithoutGil(absl::InfiniteDuration()).idents, IsEmpty());
}

}  // namespace
}  // namespace jobscope::python
