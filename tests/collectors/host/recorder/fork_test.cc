// SPDX-License-Identifier: Apache-2.0
//
// Fork while threads record: the child records nothing, reads nothing, and leaves cleanly; the
// parent does not notice.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "jobscope/trace.h"
#include "jobscope/trace_c.h"
#include "tests/collectors/host/recorder/recorded.h"

namespace jobscope::recorder_test {
namespace {

const struct jobscope_trace_reader* Reader() { return jobscope_trace_reader(); }

// What a child may do with the recorder. 0, or the number of what went wrong.
int InChild(uint64_t parent_serial) {
  if (Reader()->mask() != 0 || *jobscope_trace_writer()->mask != 0) return 10;
  {
    JOBSCOPE_STEP("child step", 1);
    JOBSCOPE_SCOPE("child", "s", "text");
    JOBSCOPE_INSTANT("child");
    AsyncEnd(AsyncBegin("child"));
    FlowIn(FlowOut());
  }
  // Nobody can switch it on either, and what ignores the mask is dropped.
  for (uint32_t holder = 0; holder < JOBSCOPE_HOLDER_COUNT; ++holder) {
    Reader()->set_mask(holder, kAllBits);
  }
  if (Reader()->mask() != 0) return 11;
  SetThreadName("child");
  if (jobscope_trace_begin(2).begin_ticks != 0) return 12;
  const jobscope_token of_parent = {1, parent_serial << 16};
  if (jobscope_trace_writer()->end_own(2, of_parent, nullptr, 0) != 1) return 19;
  jobscope_trace_event(2, JOBSCOPE_KIND_INSTANT, nullptr, 0);
  if (jobscope_trace_next_id() != 0) return 13;
  jobscope_thread_info infos[8];
  if (Reader()->threads(0, infos, 8) != 0) return 14;
  jobscope_totals totals;
  Reader()->totals(&totals);
  if (totals.attempted_events != 0 || totals.no_ring_events != 0 || totals.ring_bytes != 0)
    return 15;
  jobscope_cursor cursor = {0, 0};
  jobscope_record records[JOBSCOPE_MAX_EVENT_RECORDS];
  jobscope_read_result result;
  if (Reader()->read(parent_serial, &cursor, records, JOBSCOPE_MAX_EVENT_RECORDS, &result) == 0) {
    return 16;
  }
  jobscope_step_info steps[4];
  if (Reader()->recent_steps(steps, 4) != 0 || Reader()->step_count() != 0) return 17;
  Reader()->arm_trigger(1, 2, kAllBits);
  Reader()->disarm_trigger();
  Reader()->hold_ended(1);
  Reader()->hold_ended(0);
  if (Reader()->prefault(4) != 0) return 18;
  Reader()->quiesce();
  // A thread of the child, with its exit.
  std::thread([] { JOBSCOPE_SCOPE("thread of the child"); }).join();
  return 0;
}

int WaitFor(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

class Fork : public testing::Test {
 protected:
  void SetUp() override {
    for (int t = 0; t < 4; ++t) {
      threads_.emplace_back([this] {
        started_.fetch_add(1);
        for (int64_t i = 0; !stop_.load(std::memory_order_relaxed); ++i) {
          JOBSCOPE_STEP("step", i);
          JOBSCOPE_SCOPE("work", "i", i, "s", "some text");
        }
      });
    }
    while (started_.load() < 4) std::this_thread::yield();
  }
  void TearDown() override {
    stop_.store(true);
    for (std::thread& thread : threads_) thread.join();
  }
  Recording recording_{kAllBits};
  std::atomic<bool> stop_{false};
  std::atomic<int> started_{0};
  std::vector<std::thread> threads_;
};

TEST_F(Fork, TheChildRecordsNothingAndTheParentGoesOn) {
  const uint64_t me = MySerial();
  for (int i = 0; i < 20; ++i) {
    pid_t child = 0;
    {
      // Open at the fork: its end runs in both.
      JOBSCOPE_SCOPE("open at the fork", "i", i);
      JOBSCOPE_STEP("step at the fork", i);
      child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        const int result = InChild(me);
        if (result != 0) _exit(result);
      }
    }
    if (child == 0) _exit(0);
    EXPECT_EQ(WaitFor(child), 0);
    EXPECT_EQ(Reader()->mask(), kAllBits);
  }
  const jobscope_thread_info info = FindThread(me);
  jobscope_cursor cursor = {info.first_record, info.first_event};
  int found = 0;
  for (const Event& event : ReadAll(me, &cursor).events) {
    EXPECT_NE(event.name, "child");
    found += event.name == "open at the fork" ? 1 : 0;
  }
  EXPECT_EQ(found, 20);
}

// exit() runs static destructors and atexit handlers, thread exit hooks too.
TEST_F(Fork, TheChildLeavesThroughExit) {
  const uint64_t me = MySerial();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (InChild(me) != 0) _exit(1);
    std::atexit([] { JOBSCOPE_SCOPE("at exit"); });
    std::exit(0);
  }
  EXPECT_EQ(WaitFor(child), 0);
}

TEST_F(Fork, TheForkingThreadOfTheChildMayEnd) {
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
  GTEST_SKIP() << "ThreadSanitizer itself does not survive it";
#endif
#endif
  MySerial();
  pid_t child = -1;
  std::thread([&] {
    JOBSCOPE_SCOPE("forks");
    child = fork();
    if (child == 0) pthread_exit(nullptr);  // the process ends with its last thread: status 0
  }).join();
  ASSERT_GT(child, 0);
  EXPECT_EQ(WaitFor(child), 0);
}

// No libc, so no fork handlers: only the kernel can have wiped the mask.
TEST_F(Fork, RawCloneIsWipedToo) {
  const long child = syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  ASSERT_GE(child, 0);
  if (child == 0) {
    int result = Reader()->mask() != 0 ? 10 : 0;
    { JOBSCOPE_SCOPE("child of a raw clone"); }
    if (jobscope_trace_begin(2).begin_ticks != 0) result = 11;
    syscall(SYS_exit_group, result);
  }
  EXPECT_EQ(WaitFor(static_cast<pid_t>(child)), 0);
}

// A handler that forks in the middle of a record: in the child the rest of that record still runs,
// over rings that the kernel has wiped.
std::atomic<bool> g_is_child{false};
std::atomic<int> g_children{0};
constexpr int kMostChildren = 60;
pid_t g_pids[kMostChildren];

void ForkInHandler(int) {
  const int index = g_children.load(std::memory_order_relaxed);
  if (index == kMostChildren || g_is_child.load(std::memory_order_relaxed)) return;
  const pid_t child = fork();
  if (child == 0) g_is_child.store(true);
  if (child <= 0) return;
  g_pids[index] = child;
  g_children.store(index + 1);
}

TEST(ForkInAHandler, TheChildFinishesItsRecordAndGoesOn) {
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
  GTEST_SKIP() << "ThreadSanitizer runs handlers later, between records";
#endif
#endif
  Recording recording(kAllBits);
  struct sigaction action = {};
  action.sa_handler = &ForkInHandler;
  struct sigaction old = {};
  ASSERT_EQ(sigaction(SIGALRM, &action, &old), 0);
  const itimerval often = {{0, 500}, {0, 500}};
  ASSERT_EQ(setitimer(ITIMER_REAL, &often, nullptr), 0);
  while (g_children.load() < kMostChildren && !g_is_child.load()) {
    JOBSCOPE_STEP("step", 1);
    JOBSCOPE_SCOPE("work", "n", 1, "s", "a text of two records, or so");
  }
  if (g_is_child.load()) _exit(0);
  const itimerval never = {};
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &old, nullptr);
  for (const pid_t child : g_pids) EXPECT_EQ(WaitFor(child), 0);
}

// A child's child, and a child that was forked while recording was off.
TEST(ForkIdle, StaysOffForGood) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Reader()->set_mask(JOBSCOPE_HOLDER_SESSION, kAllBits);
    if (Reader()->mask() != 0) _exit(1);
    const pid_t grandchild = fork();
    if (grandchild == 0) _exit(InChild(1));
    _exit(WaitFor(grandchild));
  }
  EXPECT_EQ(WaitFor(child), 0);
}

}  // namespace
}  // namespace jobscope::recorder_test
