// SPDX-License-Identifier: Apache-2.0
//
// Tests the process's limit on rings: threads beyond it get no ring, and their attempts are
// counted. A process of its own, because a mapped ring stays.
#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "jobscope/trace.h"
#include "tests/collectors/host/recorder/recorded.h"

namespace jobscope::recorder_test {
namespace {

const struct jobscope_trace_reader* Reader() { return jobscope_trace_reader(); }

jobscope_totals Totals() {
  jobscope_totals totals;
  Reader()->totals(&totals);
  return totals;
}

TEST(NoRing, ThreadsBeyondTheCapAreCountedAndListed) {
  constexpr uint64_t kRingBytes = 1024 * 32 + 4096;
  ASSERT_EQ(Reader()->configure(1024, 3 * kRingBytes + 100), 0);
  EXPECT_EQ(Reader()->prefault(10), 3u);
  const jobscope_totals before = Totals();
  Recording recording(kAllBits);

  constexpr int kThreads = 10;
  constexpr uint64_t kEvents = 1000;
  std::mutex mutex;
  std::condition_variable changed;
  int attached = 0;
  int done = 0;
  bool leave = false;
  std::vector<uint64_t> serials(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      serials[t] = MySerial();
      SetThreadName(("thread " + std::to_string(t)).c_str());
      std::unique_lock<std::mutex> lock(mutex);
      ++attached;
      changed.notify_all();
      changed.wait(lock, [&] { return attached == kThreads; });
      lock.unlock();
      {
        JOBSCOPE_STEP("step", 1);
        for (uint64_t i = 0; i < kEvents; ++i) {
          JOBSCOPE_SCOPE("work", "i", i, "s", "text");
        }
        JOBSCOPE_SCOPE("stuck");
        lock.lock();
        ++done;
        changed.notify_all();
        changed.wait(lock, [&] { return leave; });
      }
    });
  }
  {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return done == kThreads; });
  }
  int with_ring = 0;
  int without = 0;
  for (const jobscope_thread_info& info : ListThreads()) {
    EXPECT_EQ(info.ended, 0);
    EXPECT_EQ(std::string(info.name).substr(0, 7), "thread ");
    (info.has_ring != 0 ? with_ring : without) += 1;
    // Where a thread is, is known with or without a ring.
    jobscope_open_scope scopes[4];
    ASSERT_EQ(Reader()->open_scopes(info.serial, scopes, 4), 2u);
    EXPECT_EQ(scopes[0].step_number, 1);
    if (info.has_ring == 0) {
      EXPECT_EQ(info.head_event, 0u);
      jobscope_cursor cursor = {0, 0};
      const ReadAllResult all = ReadAll(info.serial, &cursor);
      EXPECT_EQ(all.status, 0);
      EXPECT_TRUE(all.events.empty());
      EXPECT_EQ(all.lost, 0u);
    }
  }
  EXPECT_EQ(with_ring, 3);
  EXPECT_EQ(without, kThreads - 3);
  {
    std::lock_guard<std::mutex> lock(mutex);
    leave = true;
    changed.notify_all();
  }
  for (std::thread& thread : threads) thread.join();

  // Per thread: the step's two events, the work, the scope it was stuck in.
  const jobscope_totals totals = Totals();
  EXPECT_EQ(totals.no_ring_events - before.no_ring_events, (kThreads - 3) * (kEvents + 3));
  EXPECT_EQ(totals.attempted_events - before.attempted_events, 3 * (kEvents + 3));
  EXPECT_EQ(totals.ring_count, 3u);
  EXPECT_EQ(totals.ring_bytes, 3 * kRingBytes);
  for (const jobscope_thread_info& info : ListThreads()) EXPECT_EQ(info.has_ring, 1);

  // Rings that came back serve newcomers.
  Reader()->hold_ended(0);
  uint64_t serial = 0;
  std::thread([&] { serial = MySerial(); }).join();
  EXPECT_EQ(FindThread(serial).has_ring, 1);
}

// Threads that have taken all rings, and keep them until `left`.
std::vector<std::thread> OwnersOfAllRings(const std::shared_future<void>& left) {
  constexpr uint64_t kRingBytes = 1024 * 32 + 4096;
  EXPECT_EQ(Reader()->configure(1024, 3 * kRingBytes + 100), 0);
  Reader()->hold_ended(0);
  std::vector<std::thread> owners;
  for (int i = 0; i < 3; ++i) {
    std::promise<uint64_t> serial;
    owners.emplace_back([&serial, left] {
      serial.set_value(MySerial());
      left.wait();
    });
    EXPECT_EQ(FindThread(serial.get_future().get()).has_ring, 1);
  }
  return owners;
}

// A thread that found no ring free gets one that another thread gave back: at its next outermost
// scope, because its open scopes are in the state that it has.
TEST(NoRing, AThreadWithoutARingTakesOneThatComesBack) {
  Recording recording(kAllBits);
  std::promise<void> leave;
  std::vector<std::thread> owners = OwnersOfAllRings(leave.get_future().share());

  std::thread([&] {
    SetThreadName("latecomer");
    const uint64_t bare = MySerial();
    EXPECT_EQ(FindThread(bare).has_ring, 0);
    {
      JOBSCOPE_SCOPE("outer");
      leave.set_value();
      for (std::thread& owner : owners) owner.join();
      JOBSCOPE_SCOPE("inner");
      EXPECT_EQ(MySerial(), bare) << "its open scope would be lost";
    }
    { JOBSCOPE_SCOPE("next"); }
    const jobscope_thread_info info = FindThread(MySerial());
    EXPECT_EQ(info.has_ring, 1);
    EXPECT_STREQ(info.name, "latecomer");
    jobscope_cursor cursor = {info.first_record, info.first_event};
    const ReadAllResult all = ReadAll(info.serial, &cursor);
    ASSERT_EQ(all.events.size(), 1u);
    EXPECT_EQ(all.events[0].name, "next");
    EXPECT_EQ(FindThread(bare).serial, 0u) << "listed twice";
  }).join();
}

// So many have an entry of their own. The others get a ring that comes back, too.
TEST(NoRing, TheReaderKnowsHowManyAreListedAtMost) {
  Recording recording(kAllBits);
  std::promise<void> leave_rings;
  std::vector<std::thread> owners = OwnersOfAllRings(leave_rings.get_future().share());
  const uint32_t most = Reader()->max_listed_without_ring;
  ASSERT_GT(most, 0u);
  std::promise<void> leave;
  std::shared_future<void> left = leave.get_future().share();
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < most + 10; ++i) {
    std::promise<void> attached;
    threads.emplace_back([&attached, left] {
      JOBSCOPE_INSTANT("attempt");
      attached.set_value();
      left.wait();
    });
    attached.get_future().wait();
  }
  uint32_t without_ring = 0;
  for (const jobscope_thread_info& info : ListThreads()) without_ring += 1 - info.has_ring;

  std::thread([&] {
    EXPECT_EQ(FindThread(MySerial()).serial, 0u) << "listed";
    const uint64_t before = Totals().no_ring_events;
    {
      JOBSCOPE_SCOPE("outer");
      leave_rings.set_value();
      for (std::thread& owner : owners) owner.join();
      { JOBSCOPE_STEP("step", 1); }
    }
    { JOBSCOPE_SCOPE("next"); }
    EXPECT_EQ(Totals().no_ring_events, before);
    const jobscope_thread_info info = FindThread(MySerial());
    EXPECT_EQ(info.has_ring, 1);
    jobscope_cursor cursor = {info.first_record, info.first_event};
    const ReadAllResult all = ReadAll(info.serial, &cursor);
    ASSERT_EQ(all.events.size(), 4u);  // the step's begin and end
    EXPECT_EQ(all.events[2].name, "outer");
    EXPECT_EQ(all.events[3].name, "next");
  }).join();
  leave.set_value();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(without_ring, most);
}

// A scope without a ring ends like others, and counts as an event that had none.
TEST(NoRing, EndOwnCountsTheEvent) {
  Recording recording(kAllBits);
  std::promise<void> leave;
  std::vector<std::thread> owners = OwnersOfAllRings(leave.get_future().share());
  std::thread([] {
    const struct jobscope_trace_writer_table* const writer = jobscope_trace_writer();
    EXPECT_EQ(FindThread(MySerial()).has_ring, 0);
    const uint64_t before = Totals().no_ring_events;
    EXPECT_EQ(writer->end_own(2, writer->begin(2), nullptr, 0), 1u);
    EXPECT_EQ(Totals().no_ring_events, before + 1);
  }).join();
  leave.set_value();
  for (std::thread& owner : owners) owner.join();
}

// Also while a reader holds ended threads: it does not learn of these, so cannot release them.
TEST(NoRing, ThreadsWithoutARingComeAndGoWithoutEnd) {
  Recording recording(kAllBits);
  const uint64_t before = Totals().no_ring_events;
  // The rings of the other test, if it ran, or of its configuration: three at most, which stay
  // held.
  ASSERT_EQ(Reader()->configure(1024, 0), 0);
  uint64_t attempted = 0;
  int listed = 0;
  for (int i = 0; i < 3000; ++i) {
    std::thread([&] {
      const uint64_t me = MySerial();
      const jobscope_thread_info info = FindThread(me);
      listed += info.serial == me ? 1 : 0;
      if (info.has_ring == 0) ++attempted;
      JOBSCOPE_INSTANT("attempt");
    }).join();
  }
  EXPECT_EQ(listed, 3000);
  EXPECT_GE(attempted, 2997u);
  EXPECT_EQ(Totals().no_ring_events - before, attempted);
}

}  // namespace
}  // namespace jobscope::recorder_test
