// SPDX-License-Identifier: Apache-2.0
//
// Tests signal handlers that record: a record that would interrupt another one is refused and
// counted, all others are recorded whole.
#include <gtest/gtest.h>
#include <setjmp.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "jobscope/trace.h"
#include "jobscope/trace_c.h"
#include "tests/collectors/host/recorder/recorded.h"

namespace jobscope::recorder_test {
namespace {

const struct jobscope_trace_reader* Reader() { return jobscope_trace_reader(); }

std::atomic<uint64_t> g_handled{0};

void Handler(int) {
  JOBSCOPE_INSTANT("from the handler", "n", g_handled.load(std::memory_order_relaxed), "s",
                   "some text");
  g_handled.fetch_add(1, std::memory_order_relaxed);
}

TEST(Signals, RecordsOfAHandlerAreWholeOrCounted) {
  struct sigaction action = {};
  action.sa_handler = &Handler;
  action.sa_flags = SA_RESTART;
  struct sigaction old = {};
  ASSERT_EQ(sigaction(SIGUSR2, &action, &old), 0);
  ASSERT_EQ(Reader()->configure(4194304, uint64_t{256} << 20), 0);
  jobscope_totals before;
  Reader()->totals(&before);
  Recording recording(JOBSCOPE_BIT_LEVEL1);

  std::atomic<uint64_t> serial{0};
  std::atomic<bool> stop{false};
  uint64_t written = 0;
  std::thread thread([&] {
    serial.store(MySerial());
    while (!stop.load(std::memory_order_relaxed) && written < 500000) {
      JOBSCOPE_INSTANT("from the thread", "n", written, "s", "other text");
      ++written;
    }
    while (!stop.load()) std::this_thread::yield();
  });
  while (serial.load() == 0) std::this_thread::yield();
  // On a busy machine a signal takes a scheduling round: then fewer will do.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  for (int i = 0; i < 20000 && std::chrono::steady_clock::now() < deadline; ++i) {
    const uint64_t seen = g_handled.load();
    pthread_kill(thread.native_handle(), SIGUSR2);
    while (g_handled.load() == seen) std::this_thread::yield();
  }
  stop.store(true);
  thread.join();
  sigaction(SIGUSR2, &old, nullptr);

  jobscope_cursor cursor = {0, 0};
  const ReadAllResult all = ReadAll(serial.load(), &cursor);
  uint64_t from_thread = 0;
  uint64_t from_handler = 0;
  for (const Event& event : all.events) {
    ASSERT_EQ(event.kind, JOBSCOPE_KIND_INSTANT);
    ASSERT_EQ(event.args.size(), 2u);
    if (event.name == "from the thread") {
      ASSERT_EQ(event.args[0].bits, from_thread);
      ASSERT_EQ(event.args[1].text, "other text");
      ++from_thread;
    } else {
      ASSERT_EQ(event.name, "from the handler");
      ASSERT_EQ(event.args[1].text, "some text");
      ++from_handler;
    }
  }
  jobscope_totals after;
  Reader()->totals(&after);
  EXPECT_EQ(all.lost, 0u);
  EXPECT_EQ(from_thread, written);
  EXPECT_EQ(from_handler + after.reentered_events - before.reentered_events, g_handled.load());
  EXPECT_EQ(FindThread(serial.load()).reentered, after.reentered_events - before.reentered_events);
  EXPECT_GT(from_handler, 0u);
  std::printf("handled %llu, refused %llu\n", static_cast<unsigned long long>(g_handled.load()),
              static_cast<unsigned long long>(after.reentered_events - before.reentered_events));
}

sigjmp_buf g_before_the_fault;

void JumpOut(int) { siglongjmp(g_before_the_fault, 1); }

// Leaves its thread in the middle of a record, as a handler that jumps out of it does.
void RecordUnreadableText() {
  struct sigaction action = {};
  action.sa_handler = &JumpOut;
  struct sigaction old = {};
  ASSERT_EQ(sigaction(SIGSEGV, &action, &old), 0);
  void* const unreadable = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(unreadable, MAP_FAILED);
  const uint32_t site = jobscope_trace_site("faulty", nullptr, nullptr, 0, JOBSCOPE_BIT_LEVEL1,
                                            JOBSCOPE_ROLE_INSTANT, nullptr, 0);
  jobscope_arg arg = {};
  arg.type = JOBSCOPE_ARG_STRING;
  arg.length = 8;
  arg.value.text = static_cast<const char*>(unreadable);
  if (sigsetjmp(g_before_the_fault, 1) == 0) {
    jobscope_trace_event(site, JOBSCOPE_KIND_INSTANT, &arg, 1);
    ADD_FAILURE() << "the text could be read";
  }
  munmap(unreadable, 4096);
  sigaction(SIGSEGV, &old, nullptr);
}

TEST(Signals, ARingLeftInTheMiddleOfARecordServesTheNextThread) {
  // A size of its own: the second thread gets the ring of the first.
  ASSERT_EQ(Reader()->configure(2048, uint64_t{256} << 20), 0);
  Reader()->set_mask(JOBSCOPE_HOLDER_SESSION, JOBSCOPE_BIT_LEVEL1);
  std::thread(&RecordUnreadableText).join();
  jobscope_totals before;
  Reader()->totals(&before);
  uint64_t serial = 0;
  jobscope_thread_info info = {};
  std::thread([&] {
    serial = MySerial();
    for (int i = 0; i < 10; ++i) {
      JOBSCOPE_INSTANT("by the next thread");
    }
    info = FindThread(serial);
  }).join();
  Reader()->set_mask(JOBSCOPE_HOLDER_SESSION, 0);
  jobscope_totals after;
  Reader()->totals(&after);
  EXPECT_EQ(after.ring_count, before.ring_count);
  EXPECT_EQ(info.head_event - info.first_event, 10u);
  EXPECT_EQ(info.reentered, 0u);
}

}  // namespace
}  // namespace jobscope::recorder_test
