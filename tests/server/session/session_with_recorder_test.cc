// SPDX-License-Identifier: Apache-2.0
//
// Tests commanded sessions with the real recorder, threads that record all the time, and a reader
// of the store, as the native service is.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectors/host/host_collector.h"
#include "collectors/system/system_collector.h"
#include "common/clock/clock.h"
#include "common/clock/clock_for_testing.h"
#include "common/xspace/assemble/assembler.h"
#include "common/xspace/segment/trace_planes.h"
#include "jobscope/trace.h"
#include "server/session/session_manager.h"
#include "tensorflow/xplane.pb.h"
#include "tests/server/session/session_fixture.h"

namespace jobscope {
namespace {

constexpr int64_t kMillisecondNs = 1'000'000;

// Keeps what it reads, as a client's spool does, and gives it up in the store.
class Spool {
 public:
  void Attach(std::shared_ptr<xspace::Store> store) { store_ = std::move(store); }
  // The items so far.
  void Take() {
    while (true) {
      const std::vector<xspace::HeldItem> items = store_->Read(items_.size() + 1, 1 << 20);
      if (items.empty()) return;
      for (const xspace::HeldItem& held : items) {
        ASSERT_EQ(held.item.number, items_.size() + 1);
        items_.emplace_back(held.item.kind, std::string(held.item.body));
      }
      store_->Release(items_.size());
    }
  }
  size_t bytes() const {
    size_t sum = 0;
    for (const auto& [kind, body] : items_) sum += body.size();
    return sum;
  }

  tensorflow::profiler::XSpace Assemble() const {
    std::vector<xspace::ItemView> views;
    for (size_t i = 0; i < items_.size(); ++i) {
      views.push_back({i + 1, items_[i].first, items_[i].second});
    }
    struct StringSink : xspace::ByteSink {
      absl::Status Write(std::string_view bytes, bool /*stable*/) override {
        text.append(bytes);
        return absl::OkStatus();
      }
      std::string text;
    } sink;
    tensorflow::profiler::XSpace space;
    auto assembler = xspace::Assembler::Create(views, xspace::AssembleOptions());
    EXPECT_TRUE(assembler.ok()) << assembler.status();
    if (!assembler.ok()) return space;
    EXPECT_TRUE(assembler->Write(0, &sink).ok());
    EXPECT_TRUE(space.ParseFromString(sink.text));
    return space;
  }

 private:
  std::shared_ptr<xspace::Store> store_;
  std::vector<std::pair<xspace::ItemKind, std::string>> items_;
};

// Trains for as long as it lives.
class Trainer {
 public:
  explicit Trainer(std::chrono::microseconds work = std::chrono::microseconds(100))
      : work_(work), thread_([this] { Run(); }) {}
  ~Trainer() {
    stop_.store(true);
    thread_.join();
  }
  int64_t step() const { return step_.load(); }

 private:
  void Run() {
    static int64_t number = 0;  // rises from one test to the next
    while (!stop_.load()) {
      ++number;
      {
        JOBSCOPE_STEP("train", number);
        for (int i = 0; i < 20; ++i) {
          JOBSCOPE_SCOPE("work", "i", i);
        }
        std::this_thread::sleep_for(work_);
      }
      step_.store(number);
    }
  }

  const std::chrono::microseconds work_;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> step_{0};
  std::thread thread_;
};

class HostSessionTest : public ::testing::Test {
 protected:
  HostSessionTest() {
    host_.SetAlwaysOn(true);
    SessionManager::Dependencies dependencies;
    dependencies.collectors = {&host_, &system_};
    dependencies.uses_tsc = uses_tsc_;
    manager_ = std::make_unique<SessionManager>(std::move(dependencies));
  }
  ~HostSessionTest() override {
    EXPECT_TRUE(manager_->Shutdown(absl::Seconds(60)));
    host_.SetAlwaysOn(false);
  }

  SessionTicket SubmitOnCommand(absl::Duration lookback) {
    SessionOptions options;
    options.on_command = true;
    options.record_ahead = true;
    options.lookback = lookback;
    options.store_bytes = 4 << 20;
    armed_ = {};
    started_ = {};
    done_ = {};
    SessionCallbacks callbacks;
    callbacks.armed = [this](const SessionArmed& armed) { armed_.set_value(armed); };
    callbacks.started = [this](const SessionStarted& started) { started_.set_value(started); };
    callbacks.done = [this](SessionResult result) {
      result.slot.reset();
      done_.set_value(std::move(result));
    };
    return manager_->Submit(std::move(options), WhenBusy::kRefuse, absl::InfiniteFuture(),
                            std::move(callbacks));
  }

  SessionArmed Armed() {
    auto armed = armed_.get_future();
    EXPECT_EQ(armed.wait_for(kTimeout), std::future_status::ready);
    return armed.get();
  }
  SessionStarted Started() {
    auto started = started_.get_future();
    EXPECT_EQ(started.wait_for(kTimeout), std::future_status::ready);
    return started.get();
  }
  // Reads until the session has ended.
  SessionResult Finish(Spool* spool) {
    auto done = done_.get_future();
    const auto end = std::chrono::steady_clock::now() + kTimeout;
    while (done.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready &&
           std::chrono::steady_clock::now() < end) {
      spool->Take();
    }
    SessionResult result = done.get();
    spool->Take();
    return result;
  }

  static StartCommand At(uint64_t start_ns, int64_t zero_before_ns, absl::Duration duration) {
    StartCommand command;
    command.start_monotonic_ns = start_ns;
    command.zero_monotonic_ns = start_ns - static_cast<uint64_t>(zero_before_ns);
    command.zero_unix_ns = 1'700'000'000'000'000'000;
    command.duration = duration;
    return command;
  }

  const bool uses_tsc_ = ::jobscope_trace_reader()->uses_tsc != 0;
  HostCollector host_{::jobscope_trace_reader()};
  SystemCollector system_{uses_tsc_};
  std::unique_ptr<SessionManager> manager_;
  std::promise<SessionArmed> armed_;
  std::promise<SessionStarted> started_;
  std::promise<SessionResult> done_;
};

struct Events {
  uint64_t count = 0;
  int64_t first_ps = INT64_MAX, last_end_ps = 0;
  std::map<int64_t, int> whole_steps;  // by number
  uint64_t profile_start_time = 0;
};

Events Read(const tensorflow::profiler::XSpace& space) {
  Events events;
  for (const auto& plane : space.planes()) {
    const auto name_of = [&plane](int64_t id) { return plane.stat_metadata().at(id).name(); };
    for (const auto& stat : plane.stats()) {
      if (name_of(stat.metadata_id()) == "profile_start_time") {
        events.profile_start_time = stat.uint64_value();
      }
    }
    for (const auto& line : plane.lines()) {
      for (const auto& event : line.events()) {
        ++events.count;
        // What the process uses is sampled by a collector of its own, which may be on earlier.
        if (line.name() == kCountersLineName) continue;
        events.first_ps = std::min(events.first_ps, event.offset_ps());
        events.last_end_ps = std::max(events.last_end_ps, event.offset_ps() + event.duration_ps());
        for (const auto& stat : event.stats()) {
          if (name_of(stat.metadata_id()) == "step_num") ++events.whole_steps[stat.int64_value()];
        }
      }
    }
  }
  return events;
}

int Named(const tensorflow::profiler::XSpace& space, const std::string& name) {
  int count = 0;
  for (const auto& plane : space.planes()) {
    for (const auto& line : plane.lines()) {
      for (const auto& event : line.events()) {
        count += plane.event_metadata().at(event.metadata_id()).name() == name;
      }
    }
  }
  return count;
}

void ExpectConsecutive(const std::map<int64_t, int>& steps) {
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(static_cast<int64_t>(steps.size()), steps.rbegin()->first - steps.begin()->first + 1);
  for (const auto& [number, times] : steps) EXPECT_EQ(times, 1) << "step " << number;
}

TEST_F(HostSessionTest, RecordsFromTheCommandedInstantOnWhileItIsRead) {
  const Trainer trainer;
  Spool spool;
  StartCommand command;
  SessionResult result;
  Events events;
  // Longer where the trainer was not run meanwhile.
  for (absl::Duration duration = absl::Milliseconds(300);; duration *= 2) {
    spool = {};
    const SessionTicket ticket = SubmitOnCommand(absl::ZeroDuration());
    spool.Attach(Armed().store);
    command = At(WorkerMonotonicNs() + 150 * kMillisecondNs, 100 * kMillisecondNs, duration);
    ASSERT_TRUE(manager_->Command(ticket, command));
    const SessionStarted started = Started();
    result = Finish(&spool);
    ASSERT_TRUE(result.status.ok()) << result.status;
    // In time, or as late as it says.
    EXPECT_NEAR(static_cast<double>(started.start_monotonic_ns),
                static_cast<double>(command.start_monotonic_ns + started.late_ns), 2);
    EXPECT_EQ(result.summary.late_ns(), started.late_ns);
    events = Read(spool.Assemble());
    if (!events.whole_steps.empty() || duration > absl::Seconds(10)) break;
    ASSERT_TRUE(Becomes([this] { return !manager_->busy().has_value(); }));
  }
  EXPECT_GE(events.first_ps, 100 * kMillisecondNs * 1000 - 1000)
      << "nothing from before the instant, but for the rounding of a tick";
  EXPECT_LE(events.last_end_ps / 1000, static_cast<int64_t>(result.summary.duration_ns()) + 1)
      << "nor from after the end, however late that was noticed";
  EXPECT_EQ(events.profile_start_time, static_cast<uint64_t>(command.zero_unix_ns));
  EXPECT_EQ(events.count, result.summary.events());
  EXPECT_EQ(result.store->events(), result.summary.events());
  EXPECT_EQ(result.store->appended_bytes(), spool.bytes());
  EXPECT_TRUE(result.store->Items().empty()) << "all of it was released";
  if (result.summary.lost() == 0) ExpectConsecutive(events.whole_steps);
}

// Nothing of what the machine does between the instant and the command's being read is missing.
TEST_F(HostSessionTest, AnInstantThatPassesUnreadIsKept) {
  const SessionTicket ticket = SubmitOnCommand(absl::ZeroDuration());
  Spool spool;
  spool.Attach(Armed().store);
  const StartCommand command = At(WorkerMonotonicNs(), 0, absl::Hours(1));
  { JOBSCOPE_SCOPE("before the command"); }
  absl::SleepFor(absl::Milliseconds(50));
  ASSERT_TRUE(manager_->Command(ticket, command));
  // Instants of two clocks are compared, to within microseconds.
  constexpr uint64_t kMostLateNs = 25 * kMillisecondNs;
  EXPECT_LT(Started().late_ns, kMostLateNs);
  manager_->Stop("");
  const SessionResult result = Finish(&spool);
  EXPECT_LT(result.summary.late_ns(), kMostLateNs);
  EXPECT_EQ(Named(spool.Assemble(), "before the command"), 1);
}

TEST_F(HostSessionTest, AnInstantThatIsPastBeginsAtOnceAndCountsFromItsZero) {
  const Trainer trainer;
  const uint64_t before_it_was_armed_ns = WorkerMonotonicNs() - 40 * kMillisecondNs;
  const SessionTicket ticket = SubmitOnCommand(absl::ZeroDuration());
  Spool spool;
  spool.Attach(Armed().store);
  ASSERT_TRUE(manager_->Command(ticket, At(before_it_was_armed_ns, 0, absl::Milliseconds(50))));
  const SessionStarted started = Started();
  EXPECT_GE(started.late_ns, 40u * kMillisecondNs);
  const SessionResult result = Finish(&spool);
  const Events events = Read(spool.Assemble());
  EXPECT_GE(events.first_ps / 1000 + 1, static_cast<int64_t>(started.late_ns))
      << "the window begins when everything was on";
}

TEST_F(HostSessionTest, ADumpReachesBackToTheSharedZero) {
  const Trainer trainer;
  const uint64_t zero_ns = WorkerMonotonicNs();
  const int64_t first = trainer.step();
  ASSERT_TRUE(Becomes([&] { return trainer.step() > first + 100; }));
  const SessionTicket ticket = SubmitOnCommand(absl::Minutes(10));
  Spool spool;
  const SessionArmed armed = Armed();
  spool.Attach(armed.store);
  EXPECT_GT(armed.lookback, absl::ZeroDuration());
  const uint64_t start_ns = WorkerMonotonicNs() + 30 * kMillisecondNs;
  const auto back_ns = static_cast<int64_t>(start_ns - zero_ns);
  ASSERT_TRUE(manager_->Command(ticket, At(start_ns, back_ns, absl::ZeroDuration())));
  const SessionResult result = Finish(&spool);
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_FALSE(result.summary.truncated());
  EXPECT_GT(result.summary.lookback_ns(), 0u);
  EXPECT_LE(result.summary.lookback_ns(), static_cast<uint64_t>(back_ns) + 2);
  const Events events = Read(spool.Assemble());
  EXPECT_GT(events.count, 0u);
  EXPECT_EQ(events.count, result.summary.events());
  EXPECT_LE(events.last_end_ps / 1000, static_cast<int64_t>(result.summary.duration_ns()) + 1);
  if (result.summary.lost() == 0) ExpectConsecutive(events.whole_steps);
}

TEST_F(HostSessionTest, TheAskedStepsWholeAndTheirNumbers) {
  // So slow that its ring holds all steps of some seconds, in which nobody may drain it.
  const Trainer trainer(std::chrono::milliseconds(5));
  ASSERT_TRUE(Becomes([&] { return trainer.step() > 0; }));
  const SessionTicket ticket = SubmitOnCommand(absl::ZeroDuration());
  Spool spool;
  spool.Attach(Armed().store);
  StartCommand command =
      At(WorkerMonotonicNs() + 10 * kMillisecondNs, 10 * kMillisecondNs, absl::Hours(1));
  const int64_t first = trainer.step() + 50;
  command.steps = StepRange{first, first + 9};
  ASSERT_TRUE(manager_->Command(ticket, command));
  const SessionResult result = Finish(&spool);
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.summary.ended_by(), "steps");
  EXPECT_FALSE(result.summary.truncated());
  EXPECT_TRUE(result.summary.has_step_window());
  // On a machine without a core to spare the trigger may come too late for the first of them.
  const int64_t opened = result.summary.first_step();
  EXPECT_GE(opened, first);
  EXPECT_EQ(result.summary.last_step(), std::max(opened, first + 9));
  const auto count = static_cast<size_t>(result.summary.last_step() - opened + 1);
  EXPECT_EQ(result.summary.steps(), count);
  const Events events = Read(spool.Assemble());
  EXPECT_EQ(events.whole_steps.size(), count);
  EXPECT_EQ(events.whole_steps.begin()->first, opened);
  EXPECT_GT(events.first_ps, 0) << "the zero is the commanded one";
  EXPECT_EQ(events.profile_start_time, static_cast<uint64_t>(command.zero_unix_ns));
}

// REALTIME of a worker says nothing about when it starts: only what it calls the instant.
TEST_F(HostSessionTest, AShiftedRealtimeMovesNothing) {
  struct Shift {
    Shift() { ShiftRealtimeForTesting(7'000'000'000); }
    ~Shift() { ShiftRealtimeForTesting(0); }
  };
  const ClockSample now = SampleClocks(uses_tsc_);
  const auto offset_ns = static_cast<int64_t>(now.realtime_ns - now.monotonic_ns);
  const Shift shift;
  const SessionTicket ticket = SubmitOnCommand(absl::ZeroDuration());
  Spool spool;
  spool.Attach(Armed().store);
  const StartCommand command =
      At(WorkerMonotonicNs() + 100 * kMillisecondNs, 0, absl::Milliseconds(10));
  ASSERT_TRUE(manager_->Command(ticket, command));
  const SessionStarted started = Started();
  EXPECT_NEAR(static_cast<double>(started.start_monotonic_ns),
              static_cast<double>(command.start_monotonic_ns + started.late_ns), 2);
  const SessionResult result = Finish(&spool);
  const int64_t zero_ns = static_cast<int64_t>(command.zero_monotonic_ns) + offset_ns;
  EXPECT_NEAR(static_cast<double>(result.summary.zero_unix_ns() - zero_ns), 7e9, 5e6);
  EXPECT_EQ(Read(spool.Assemble()).profile_start_time, static_cast<uint64_t>(command.zero_unix_ns));
}

}  // namespace
}  // namespace jobscope
