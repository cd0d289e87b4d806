// SPDX-License-Identifier: Apache-2.0
//
// The accounting identity under load: many threads that come and go, a reader that keeps up or does
// not, a mask that flips. Every event carries its number in its thread, so each event read shows
// whether it is whole, in order, and where the recorder says that it is; and for each thread
// attempted = read + lost.
//
// JOBSCOPE_STRESS_RECORDS sets how many records each form writes; "long" is 100 million, and then
// JOBSCOPE_LONG_TESTS must be set, or the test is skipped.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "collectors/host/recorder/reader_abi.h"
#include "jobscope/trace_c.h"

namespace {

#if defined(__SANITIZE_THREAD__)
constexpr uint64_t kDefaultRecords = 400000;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr uint64_t kDefaultRecords = 400000;
#else
constexpr uint64_t kDefaultRecords = 16000000;
#endif
#else
constexpr uint64_t kDefaultRecords = 16000000;
#endif

constexpr uint64_t kLongRecords = 100000000;

// 0: skip.
uint64_t WantedRecords() {
  const char* text = std::getenv("JOBSCOPE_STRESS_RECORDS");
  if (text == nullptr) return kDefaultRecords;
  if (std::string(text) == "long") {
    return std::getenv("JOBSCOPE_LONG_TESTS") != nullptr ? kLongRecords : 0;
  }
  return std::strtoull(text, nullptr, 10);
}

const struct jobscope_trace_reader* Reader() { return jobscope_trace_reader(); }

uint32_t StressSite() {
  const char* keys[] = {"number", "triple", "text", "half"};
  return jobscope_trace_site("stress", "", __FILE__, __LINE__, JOBSCOPE_BIT_LEVEL1,
                             JOBSCOPE_ROLE_SCOPE, keys, 4);
}

// What event `number` says, in three shapes: one record, two, or with a text of 0 to 130 bytes.
uint32_t ShapeOf(uint64_t number) { return number % 7 == 3 ? 2 : number % 5 == 2 ? 1 : 0; }
uint32_t TextLength(uint64_t number) { return static_cast<uint32_t>(number * 31 % 131); }
char TextByte(uint64_t number, uint32_t i) { return static_cast<char>('a' + (number + i) % 26); }

uint32_t FillArgs(uint64_t number, jobscope_arg* args, char* text) {
  args[0].type = JOBSCOPE_ARG_UINT64;
  args[0].value.uint64_value = number;
  const uint32_t shape = ShapeOf(number);
  if (shape == 0) return 1;
  args[1].type = JOBSCOPE_ARG_UINT64;
  args[1].value.uint64_value = number * 3;
  if (shape == 1) return 2;
  args[2].type = JOBSCOPE_ARG_STRING;
  args[2].length = TextLength(number);
  for (uint32_t i = 0; i < args[2].length; ++i) text[i] = TextByte(number, i);
  args[2].value.text = text;
  return 3;
}

// Checks one event at `at`; returns how many records it has, 0 when something is wrong with it.
uint64_t CheckEvent(const jobscope_record* records, uint64_t left, uint64_t number) {
  const jobscope_record& main = records[0];
  const uint64_t count = 1 + JOBSCOPE_FLAGS_CONTINUATIONS(main.flags);
  if (count > left || main.arg != number || main.begin_ticks > main.end_ticks) return 0;
  if (main.kind != (number % 2 == 0 ? JOBSCOPE_KIND_SCOPE : JOBSCOPE_KIND_INSTANT)) return 0;
  const uint32_t shape = ShapeOf(number);
  if (shape == 0) return count == 1 ? 1 : 0;
  if (count < 2 || records[1].kind != JOBSCOPE_KIND_CONTINUATION || records[1].depth != 1 ||
      records[1].arg != number * 3) {
    return 0;
  }
  if (shape == 1) return count == 2 ? 2 : 0;
  const uint32_t length = TextLength(number);
  const uint32_t kept = length < JOBSCOPE_MAX_STRING ? length : JOBSCOPE_MAX_STRING;
  if (((main.flags & JOBSCOPE_FLAG_CUT) != 0) != (length > kept)) return 0;
  const uint64_t pieces = kept == 0 ? 1 : (kept + 23) / 24;
  if (count != 2 + pieces) return 0;
  for (uint32_t i = 0; i < kept; ++i) {
    const jobscope_record& piece = records[2 + i / 24];
    if (piece.kind != JOBSCOPE_KIND_CONTINUATION || piece.depth != 2 || piece.site != kept)
      return 0;
    const uint64_t words[3] = {piece.begin_ticks, piece.end_ticks, piece.arg};
    if (reinterpret_cast<const char*>(words)[i % 24] != TextByte(number, i)) return 0;
  }
  return count;
}

struct Attempts {
  std::mutex mutex;
  std::map<uint64_t, uint64_t> by_serial;  // threads that have ended
  uint64_t without_ring = 0;
  std::atomic<uint64_t> records{0};
  // Lives that ended, and those of them that the reader has released.
  std::atomic<int64_t> ended{0};
  std::atomic<int64_t> released{0};
};

// One life of a thread: events while the mask is on, until its share is done. Returns whether it
// had a ring in the end.
bool Live(uint32_t site, uint64_t share, Attempts* attempts, const std::atomic<bool>* stop) {
  const uint32_t* mask = jobscope_trace_writer()->mask;
  char text[160];
  jobscope_arg args[4] = {};
  uint64_t number = 0;
  uint64_t records = 0;
  uint64_t idle = 0;
  uint64_t serial = jobscope_trace_next_id() >> 32;
  jobscope_thread_info me = {};
  bool has_ring = Reader()->threads(serial, &me, 1) == 1 && me.serial == serial && me.has_ring != 0;
  const auto account = [&] {
    std::lock_guard<std::mutex> lock(attempts->mutex);
    if (serial == 0xffffffffu) {
      attempts->without_ring += number;
    } else {
      attempts->by_serial[serial] += number;
    }
  };
  while (records < share && !stop->load(std::memory_order_relaxed)) {
    if ((__atomic_load_n(mask, __ATOMIC_RELAXED) & JOBSCOPE_BIT_LEVEL1) == 0) {
      if (++idle % 64 == 0) std::this_thread::yield();
      continue;
    }
    uint32_t count = FillArgs(number, args, text);
    if (number % 2 == 0) {
      const jobscope_token token = jobscope_trace_begin(site);
      if (const uint64_t now = has_ring ? serial : jobscope_trace_next_id() >> 32; now != serial) {
        // It has taken a ring that came back: a thread anew to the reader.
        account();
        serial = now;
        has_ring = true;
        number = 0;
        count = FillArgs(number, args, text);
      }
      jobscope_trace_end(site, token, args, count);
    } else {
      jobscope_trace_event(site, JOBSCOPE_KIND_INSTANT, args, count);
    }
    ++number;
    records += count;
    if (records / 1024 != (records - count) / 1024) {
      attempts->records.fetch_add(1024, std::memory_order_relaxed);
    }
  }
  account();
  return has_ring;
}

struct Account {
  jobscope_cursor cursor = {0, 0};
  uint64_t first_event = 0;
  uint64_t read = 0;
  uint64_t lost = 0;
};

// The reader of the test: what a collector does, plus the checks.
class Drainer {
 public:
  explicit Drainer(size_t batch) : records_(batch) {}

  // Reads one thread to its end; false when something was wrong.
  void Drain(const jobscope_thread_info& info) {
    if (info.has_ring == 0) return;
    auto [it, is_new] = accounts_.try_emplace(info.serial);
    Account& account = it->second;
    if (is_new) {
      account.cursor = {info.first_record, info.first_event};
      account.first_event = info.first_event;
    }
    jobscope_read_result result;
    do {
      const uint64_t before = account.cursor.event;
      ASSERT_EQ(
          Reader()->read(info.serial, &account.cursor, records_.data(), records_.size(), &result),
          0)
          << "thread " << info.serial << " was held and is gone";
      account.read += result.events;
      account.lost += result.lost_events;
      ASSERT_EQ(account.cursor.event, before + result.lost_events + result.events);
      uint64_t number = before + result.lost_events - account.first_event;
      for (uint64_t i = 0; i < result.records; ++number) {
        const uint64_t count = CheckEvent(&records_[i], result.records - i, number);
        ASSERT_NE(count, 0u) << "event " << number << " of thread " << info.serial
                             << " is torn or out of order: kind " << int{records_[i].kind}
                             << " arg " << records_[i].arg;
        i += count;
      }
    } while (result.more != 0);
  }

  const std::map<uint64_t, Account>& accounts() const { return accounts_; }

 private:
  std::vector<jobscope_record> records_;
  std::map<uint64_t, Account> accounts_;
};

struct Form {
  const char* name;
  int threads;
  uint32_t ring_records;
  bool slow;  // the reader waits until most of what is written is lost
};

void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }

class Stress : public testing::TestWithParam<Form> {};

TEST_P(Stress, EveryEventIsReadOrCountedAsLost) {
  const Form form = GetParam();
  const uint64_t wanted = WantedRecords();
  if (wanted == 0) GTEST_SKIP() << "set JOBSCOPE_LONG_TESTS=1 to write 100 million records";
  ASSERT_EQ(Reader()->configure(form.ring_records, uint64_t{64} << 20), 0);
  const uint32_t site = StressSite();
  jobscope_totals before;
  Reader()->totals(&before);
  std::vector<jobscope_thread_info> infos(4096);
  // Threads of earlier forms are listed as long as nobody has taken their rings.
  const size_t earlier = Reader()->threads(0, infos.data(), infos.size());
  const uint64_t first_serial = earlier == 0 ? 0 : infos[earlier - 1].serial + 1;
  Reader()->hold_ended(1);
  Reader()->set_mask(JOBSCOPE_HOLDER_SESSION, JOBSCOPE_BIT_LEVEL1);

  Attempts attempts;
  std::atomic<bool> stop{false};
  std::atomic<int> running{form.threads};
  std::vector<std::thread> threads;
  for (int i = 0; i < form.threads; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(static_cast<uint32_t>(i));
      while (!stop.load() && attempts.records.load() < wanted) {
        // A life of a thread is half a ring to four and a half; then another thread takes its
        // place.
        const uint64_t share = form.ring_records / 2 + random() % (4 * form.ring_records);
        bool has_ring = false;
        std::thread life([&] { has_ring = Live(site, share, &attempts, &stop); });
        life.join();
        if (has_ring) attempts.ended.fetch_add(1);
        // Held rings count in the cap. Some threads are to find it exhausted, not all.
        while (attempts.ended.load() - attempts.released.load() > form.threads / 2 + 1 &&
               !stop.load()) {
          std::this_thread::yield();
        }
      }
      running.fetch_sub(1);
    });
  }

  std::mt19937 random(7);
  Drainer drainer(form.slow ? 512 : 8192);
  std::set<uint64_t> released;
  uint64_t next_slow = 0;
  const auto drain_all = [&] {
    const size_t count = Reader()->threads(first_serial, infos.data(), infos.size());
    for (size_t i = 0; i < count; ++i) {
      // Released threads are listed until another takes their ring, which may happen at any time.
      if (released.count(infos[i].serial) != 0) continue;
      drainer.Drain(infos[i]);
      if (infos[i].ended != 0) {
        released.insert(infos[i].serial);
        Reader()->release(infos[i].serial);
        attempts.released.fetch_add(1);
      }
      if (testing::Test::HasFatalFailure()) break;
    }
  };
  while (running.load() > 0 && !testing::Test::HasFatalFailure()) {
    const uint32_t dice = random() % 16;
    if (dice == 0) Reader()->set_mask(JOBSCOPE_HOLDER_SESSION, 0);
    // Slow, but not so slow that all wait for it to release rings.
    const bool waited_for = attempts.ended.load() - attempts.released.load() > form.threads / 2;
    if (form.slow && !waited_for && attempts.records.load() < next_slow &&
        attempts.records.load() < wanted) {
      std::this_thread::yield();
      Reader()->set_mask(JOBSCOPE_HOLDER_SESSION, JOBSCOPE_BIT_LEVEL1);
      continue;
    }
    next_slow = attempts.records.load() + 64 * uint64_t{form.ring_records};
    drain_all();
    Reader()->set_mask(JOBSCOPE_HOLDER_SESSION, JOBSCOPE_BIT_LEVEL1);
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  drain_all();
  Reader()->set_mask(JOBSCOPE_HOLDER_SESSION, 0);
  Reader()->hold_ended(0);
  ASSERT_FALSE(testing::Test::HasFatalFailure());

  uint64_t attempted = attempts.without_ring;
  uint64_t read = 0;
  uint64_t lost = 0;
  uint64_t bare = attempts.without_ring;
  for (const auto& [serial, count] : attempts.by_serial) {
    attempted += count;
    const auto it = drainer.accounts().find(serial);
    if (it == drainer.accounts().end()) {
      bare += count;
      continue;
    }
    EXPECT_EQ(count, it->second.read + it->second.lost) << "thread " << serial;
    read += it->second.read;
    lost += it->second.lost;
  }
  jobscope_totals after;
  Reader()->totals(&after);
  EXPECT_EQ(after.no_ring_events - before.no_ring_events, bare);
  EXPECT_EQ(after.attempted_events - before.attempted_events, read + lost);
  EXPECT_EQ(after.reentered_events, before.reentered_events);
  EXPECT_EQ(attempted, read + lost + bare);
  EXPECT_LE(after.ring_bytes, uint64_t{64} << 20);
  EXPECT_GT(read, 0u);
  if (form.slow) {
    EXPECT_GT(lost, 0u);
  }
  std::printf("%s: %zu threads, attempted %llu = read %llu + lost %llu + no ring %llu\n", form.name,
              attempts.by_serial.size(), static_cast<unsigned long long>(attempted),
              static_cast<unsigned long long>(read), static_cast<unsigned long long>(lost),
              static_cast<unsigned long long>(bare));
}

INSTANTIATE_TEST_SUITE_P(Rings, Stress,
                         testing::Values(Form{"small_fast", 64, 1024, false},
                                         Form{"small_slow", 64, 1024, true},
                                         Form{"default_fast", 64, 32768, false},
                                         Form{"default_slow", 64, 32768, true},
                                         Form{"one_thread", 1, 32768, false}),
                         [](const testing::TestParamInfo<Form>& info) { return info.param.name; });

}  // namespace
