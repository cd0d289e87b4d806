// SPDX-License-Identifier: Apache-2.0
//
// Rings from the reader's side: overwriting and exact loss, cursors, threads that end, rings that
// are used again.
#include <gtest/gtest.h>

#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

#include "jobscope/trace.h"
#include "tests/collectors/host/recorder/recorded.h"

namespace jobscope::recorder_test {
namespace {

constexpr uint32_t kRing = 1024;
// What of a ring can be read when it has wrapped: all but the records that may be in the making.
constexpr uint64_t kReadable = kRing - JOBSCOPE_MAX_EVENT_RECORDS;

const struct jobscope_trace_reader* Reader() { return jobscope_trace_reader(); }

void Instants(uint64_t from, uint64_t count) {
  for (uint64_t i = from; i < from + count; ++i) JOBSCOPE_INSTANT("numbered", "n", i);
}

// A thread that runs the functions it is given, one by one.
class Puppet {
 public:
  Puppet() : thread_([this] { Run(); }) {
    Do([this] { serial_ = MySerial(); });
  }
  Puppet(const Puppet&) = delete;
  Puppet& operator=(const Puppet&) = delete;
  ~Puppet() { End(); }

  void Do(std::function<void()> work) {
    std::unique_lock<std::mutex> lock(mutex_);
    work_ = std::move(work);
    changed_.notify_all();
    changed_.wait(lock, [this] { return work_ == nullptr; });
  }
  void End() {
    if (!thread_.joinable()) return;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      over_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  uint64_t serial() const { return serial_; }
  jobscope_cursor Start() const {
    const jobscope_thread_info info = FindThread(serial_);
    return {info.first_record, info.first_event};
  }

 private:
  void Run() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return over_ || work_ != nullptr; });
      if (work_ == nullptr) return;
      work_();
      work_ = nullptr;
      changed_.notify_all();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;
  bool over_ = false;
  uint64_t serial_ = 0;
  std::thread thread_;
};

class Rings : public testing::Test {
 protected:
  Rings() { EXPECT_EQ(Reader()->configure(kRing, uint64_t{64} << 20), 0); }
  Recording recording_{kAllBits};
};

TEST_F(Rings, TheTableSaysWhatItIs) {
  EXPECT_EQ(Reader()->size, sizeof(struct jobscope_trace_reader));
  EXPECT_EQ(Reader()->ring_records, kRing);
  EXPECT_EQ(jobscope_trace_writer()->size, sizeof(struct jobscope_trace_writer_table));
}

TEST_F(Rings, ConfigureRefusesWhatIsNotAPowerOfTwoInRange) {
  for (uint32_t records : {0u, 1u, 512u, 1000u, 1025u, 8388608u}) {
    EXPECT_EQ(Reader()->configure(records, 1 << 20), EINVAL) << records;
  }
  EXPECT_EQ(Reader()->ring_records, kRing);
}

TEST_F(Rings, ReadsWhatWasWrittenAndThenNothing) {
  Puppet puppet;
  jobscope_cursor cursor = puppet.Start();
  puppet.Do([] { Instants(0, 100); });
  ReadAllResult all = ReadAll(puppet.serial(), &cursor);
  EXPECT_EQ(all.events.size(), 100u);
  EXPECT_EQ(all.lost, 0u);
  for (uint64_t i = 0; i < all.events.size(); ++i) EXPECT_EQ(all.events[i].args[0].bits, i);
  all = ReadAll(puppet.serial(), &cursor);
  EXPECT_TRUE(all.events.empty());
  puppet.Do([] { Instants(100, 1); });
  all = ReadAll(puppet.serial(), &cursor);
  ASSERT_EQ(all.events.size(), 1u);
  EXPECT_EQ(all.events[0].args[0].bits, 100u);
}

TEST_F(Rings, OverwritingLosesTheOldestAndCountsThem) {
  Puppet puppet;
  jobscope_cursor cursor = puppet.Start();
  puppet.Do([] { Instants(0, 5000); });
  const ReadAllResult all = ReadAll(puppet.serial(), &cursor);
  EXPECT_EQ(all.events.size(), kReadable);
  EXPECT_EQ(all.lost, 5000 - kReadable);
  EXPECT_EQ(all.events.front().args[0].bits, all.lost);
  EXPECT_EQ(all.events.back().args[0].bits, 4999u);
}

TEST_F(Rings, AGroupCutByOverwritingIsOneLostEvent) {
  Puppet puppet;
  jobscope_cursor cursor = puppet.Start();
  // Events of three records; the oldest position falls inside one.
  puppet.Do([] {
    for (int i = 0; i < 1000; ++i) JOBSCOPE_INSTANT("triple", "i", i, "a", 1.5, "b", "text");
  });
  const ReadAllResult all = ReadAll(puppet.serial(), &cursor);
  EXPECT_EQ(all.events.size(), kReadable / 3);
  EXPECT_EQ(all.events.size() + all.lost, 1000u);
  EXPECT_EQ(all.events.front().args[0].bits, all.lost);
  for (const Event& event : all.events) {
    ASSERT_EQ(event.args.size(), 3u);
    EXPECT_EQ(event.args[2].text, "text");
  }
}

TEST_F(Rings, ASmallBufferGetsWholeEventsOnly) {
  Puppet puppet;
  jobscope_cursor cursor = puppet.Start();
  puppet.Do([] {
    const std::string text(100, 't');
    for (int i = 0; i < 20; ++i) {
      JOBSCOPE_INSTANT("wide", "i", i, "a", text, "b", text);
      Instants(0, 3);
    }
  });
  std::vector<jobscope_record> records(JOBSCOPE_MAX_EVENT_RECORDS);
  uint64_t events = 0;
  jobscope_read_result result;
  do {
    ASSERT_EQ(Reader()->read(puppet.serial(), &cursor, records.data(), records.size(), &result), 0);
    EXPECT_GT(result.events, 0u);
    EXPECT_EQ(result.lost_events, 0u);
    const auto decoded = Decode(records.data(), result.records);
    EXPECT_EQ(decoded.size(), result.events);
    for (const Event& event : decoded) EXPECT_EQ(event.kind, JOBSCOPE_KIND_INSTANT);
    events += result.events;
  } while (result.more != 0);
  EXPECT_EQ(events, 80u);
}

TEST_F(Rings, OldestIsTheFirstReadableEvent) {
  Puppet puppet;
  puppet.Do([] { Instants(0, 10); });
  jobscope_cursor cursor = Reader()->oldest(puppet.serial());
  EXPECT_EQ(cursor.event, puppet.Start().event);
  puppet.Do([] { Instants(10, 5000); });
  cursor = Reader()->oldest(puppet.serial());
  EXPECT_EQ(cursor.event, puppet.Start().event + 5010 - kReadable);
  const ReadAllResult all = ReadAll(puppet.serial(), &cursor);
  EXPECT_EQ(all.lost, 0u);
  EXPECT_EQ(all.events.size(), kReadable);
  EXPECT_EQ(Reader()->oldest(987654321).event, 0u);
}

TEST_F(Rings, HeadsAreAConsistentPair) {
  Puppet puppet;
  const jobscope_cursor start = puppet.Start();
  puppet.Do([] {
    Instants(0, 4);
    JOBSCOPE_INSTANT("triple", "i", 1, "a", 1.5, "b", "text");
  });
  const jobscope_thread_info info = FindThread(puppet.serial());
  EXPECT_EQ(info.head_event - start.event, 5u);
  EXPECT_EQ(info.head_record - start.record, 7u);
}

TEST_F(Rings, AnEndedThreadIsHeldUntilReleased) {
  Puppet puppet;
  jobscope_cursor cursor = puppet.Start();
  EXPECT_EQ(FindThread(puppet.serial()).ended, 0);
  puppet.Do([] { Instants(0, 7); });
  puppet.End();
  EXPECT_EQ(FindThread(puppet.serial()).ended, 1);
  EXPECT_EQ(FindThread(puppet.serial()).has_ring, 1);
  // Newcomers take other rings.
  for (int i = 0; i < 5; ++i) {
    Puppet other;
    EXPECT_NE(other.serial(), puppet.serial());
  }
  EXPECT_EQ(ReadAll(puppet.serial(), &cursor).events.size(), 7u);
  Reader()->release(puppet.serial());
  // Last in, first out: the next thread takes the ring that was just given back.
  Puppet next;
  const jobscope_cursor before = cursor;
  EXPECT_EQ(ReadAll(puppet.serial(), &cursor).status, ENOENT);
  EXPECT_EQ(cursor.record, before.record);
  EXPECT_EQ(FindThread(puppet.serial()).serial, 0u);
  // The ring goes on where it was, under the newcomer's serial.
  EXPECT_EQ(next.Start().record, before.record);
  EXPECT_EQ(next.Start().event, before.event);
  jobscope_cursor from_zero = {0, 0};
  EXPECT_TRUE(ReadAll(next.serial(), &from_zero).events.empty());
}

TEST_F(Rings, ReleaseOfALivingThreadDoesNothing) {
  Puppet puppet;
  Reader()->release(puppet.serial());
  puppet.Do([] { Instants(0, 1); });
  Puppet other;
  EXPECT_NE(FindThread(puppet.serial()).serial, 0u);
  jobscope_cursor cursor = puppet.Start();
  EXPECT_EQ(ReadAll(puppet.serial(), &cursor).events.size(), 1u);
}

TEST_F(Rings, EndOfHoldFreesAllThatWereHeld) {
  uint64_t serial = 0;
  {
    Puppet puppet;
    serial = puppet.serial();
  }
  Reader()->hold_ended(0);
  const uint32_t free_now = Reader()->prefault(0);
  EXPECT_GE(free_now, 1u);
  Puppet next;
  EXPECT_EQ(FindThread(serial).serial, 0u);
  Reader()->hold_ended(1);
}

TEST_F(Rings, ThreadsAreListedInRisingOrderFromASerial) {
  Puppet a, b, c;
  std::vector<jobscope_thread_info> infos(2);
  ASSERT_EQ(Reader()->threads(a.serial(), infos.data(), 2), 2u);
  EXPECT_EQ(infos[0].serial, a.serial());
  EXPECT_EQ(infos[1].serial, b.serial());
  ASSERT_EQ(Reader()->threads(c.serial(), infos.data(), 2), 1u);
  EXPECT_EQ(infos[0].serial, c.serial());
  EXPECT_EQ(Reader()->threads(c.serial() + 1, infos.data(), 2), 0u);
  uint64_t last = 0;
  for (const jobscope_thread_info& info : ListThreads()) {
    EXPECT_GT(info.serial, last);
    EXPECT_GT(info.tid, 0);
    last = info.serial;
  }
}

TEST_F(Rings, PrefaultMapsWhatIsMissing) {
  const uint32_t free_before = Reader()->prefault(0);
  EXPECT_EQ(Reader()->prefault(free_before + 3), free_before + 3);
  jobscope_totals before;
  Reader()->totals(&before);
  {
    Puppet puppet;  // takes one of them
    jobscope_totals after;
    Reader()->totals(&after);
    EXPECT_EQ(after.ring_count, before.ring_count);
    EXPECT_EQ(after.ring_bytes, before.ring_bytes);
    EXPECT_EQ(Reader()->prefault(0), free_before + 2);
  }
}

// Most of them are never used: a process of many threads pays for what these record.
TEST_F(Rings, OnesThatAreReadyTakeLittleMemory) {
  constexpr uint32_t kRings = 32;
  constexpr uint32_t kRecords = 32768;  // 1 MiB each
  const auto resident_kb = [] {
    std::ifstream status("/proc/self/status");
    int64_t kb = -1;
    for (std::string line; std::getline(status, line);) {
      if (line.rfind("RssAnon:", 0) == 0) kb = std::stoll(line.substr(8));
    }
    return kb;
  };
  ASSERT_EQ(Reader()->configure(kRecords, uint64_t{64} << 20), 0);
  const int64_t before_kb = resident_kb();
  ASSERT_GE(before_kb, 0);
  EXPECT_GE(Reader()->prefault(kRings), kRings);
  EXPECT_LE(resident_kb() - before_kb, 8 << 10);
  ASSERT_EQ(Reader()->configure(kRing, uint64_t{64} << 20), 0);
}

TEST_F(Rings, RingsOfAnotherSizeStayAsTheyAre) {
  Puppet small;
  ASSERT_EQ(Reader()->configure(4096, uint64_t{64} << 20), 0);
  Puppet large;
  ASSERT_EQ(Reader()->configure(kRing, uint64_t{64} << 20), 0);
  jobscope_cursor small_cursor = small.Start();
  jobscope_cursor large_cursor = large.Start();
  small.Do([] { Instants(0, 3000); });
  large.Do([] { Instants(0, 3000); });
  EXPECT_EQ(ReadAll(small.serial(), &small_cursor).events.size(), kReadable);
  EXPECT_EQ(ReadAll(large.serial(), &large_cursor).events.size(), 3000u);
}

TEST_F(Rings, TotalsCountEventsOfAllThreads) {
  jobscope_totals before;
  Reader()->totals(&before);
  {
    Puppet puppet;
    puppet.Do([] {
      Instants(0, 2000);
      JOBSCOPE_INSTANT("triple", "i", 1, "a", 1.5, "b", "text");
    });
  }
  jobscope_totals after;
  Reader()->totals(&after);
  EXPECT_EQ(after.attempted_events - before.attempted_events, 2001u);
  EXPECT_EQ(after.no_ring_events, before.no_ring_events);
  EXPECT_EQ(after.reentered_events, before.reentered_events);
}

TEST_F(Rings, TheMaskIsTheOrOfItsHolders) {
  Reader()->set_mask(JOBSCOPE_HOLDER_SESSION, JOBSCOPE_BIT_LEVEL1);
  Reader()->set_mask(JOBSCOPE_HOLDER_ALWAYS_ON, JOBSCOPE_BIT_STEP);
  Reader()->set_mask(JOBSCOPE_HOLDER_CONTINUOUS, JOBSCOPE_BIT_STEP | JOBSCOPE_BIT_COARSE);
  EXPECT_EQ(Reader()->mask(), JOBSCOPE_BIT_LEVEL1 | JOBSCOPE_BIT_STEP | JOBSCOPE_BIT_COARSE);
  Reader()->set_mask(JOBSCOPE_HOLDER_CONTINUOUS, 0);
  EXPECT_EQ(Reader()->mask(), JOBSCOPE_BIT_LEVEL1 | JOBSCOPE_BIT_STEP);
  Reader()->set_mask(JOBSCOPE_HOLDER_ALWAYS_ON, 0);
  Reader()->set_mask(JOBSCOPE_HOLDER_SESSION, 0);
  EXPECT_EQ(Reader()->mask(), 0u);
  Reader()->set_mask(JOBSCOPE_HOLDER_COUNT, kAllBits);
  EXPECT_EQ(Reader()->mask(), 0u);
  Reader()->quiesce();
}

TEST_F(Rings, HoldersChangedByManyThreadsAtOnceAgreeInTheEnd) {
  std::vector<std::thread> threads;
  for (uint32_t holder = 0; holder < JOBSCOPE_HOLDER_COUNT; ++holder) {
    threads.emplace_back([holder] {
      for (uint32_t i = 0; i < 20000; ++i) Reader()->set_mask(holder, (i & 1) << holder);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Reader()->mask(), 7u);
  for (uint32_t holder = 0; holder < JOBSCOPE_HOLDER_COUNT; ++holder) Reader()->set_mask(holder, 0);
  EXPECT_EQ(Reader()->mask(), 0u);
}

// Thread-local destructors run before the state is given back.
struct RecordsInDestructor {
  ~RecordsInDestructor() { JOBSCOPE_INSTANT("in a thread-local destructor"); }
  bool used = false;
};
thread_local RecordsInDestructor t_recorder;

TEST_F(Rings, ThreadLocalDestructorsMayRecord) {
  uint64_t serial = 0;
  std::thread([&] {
    t_recorder.used = true;
    serial = MySerial();
  }).join();
  const jobscope_thread_info info = FindThread(serial);
  jobscope_cursor cursor = {info.first_record, info.first_event};
  const ReadAllResult all = ReadAll(serial, &cursor);
  ASSERT_EQ(all.events.size(), 1u);
  EXPECT_EQ(all.events[0].name, "in a thread-local destructor");
}

// A pthread key made later has its destructor run later than the recorder's.
TEST_F(Rings, RecordsAfterTheThreadGaveItsRingBackAreCounted) {
  jobscope_totals before;
  Reader()->totals(&before);
  pthread_key_t key;
  ASSERT_EQ(pthread_key_create(&key, [](void*) { JOBSCOPE_SCOPE("after the end"); }), 0);
  uint64_t serial = 0;
  std::thread([&] {
    serial = MySerial();
    pthread_setspecific(key, &serial);
  }).join();
  pthread_key_delete(key);
  jobscope_totals after;
  Reader()->totals(&after);
  EXPECT_EQ(after.no_ring_events - before.no_ring_events, 1u);
  EXPECT_EQ(after.attempted_events, before.attempted_events);
  EXPECT_EQ(FindThread(serial).ended, 1);
}

}  // namespace
}  // namespace jobscope::recorder_test
