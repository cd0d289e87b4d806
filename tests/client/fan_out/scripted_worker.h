// SPDX-License-Identifier: Apache-2.0
//
// Workers without a network: clocks that are off, links that are slow, steps, and every way to
// fail.
#ifndef TESTS_CLIENT_FAN_OUT_SCRIPTED_WORKER_H_
#define TESTS_CLIENT_FAN_OUT_SCRIPTED_WORKER_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/worker/worker_client.h"
#include "common/clock/monotonic.h"

namespace jobscope {

// Runs functions at their time (SteadyNow), on one thread.
class Clockwork {
 public:
  Clockwork() : thread_([this] { Run(); }) {}
  ~Clockwork() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      closing_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  void At(absl::Time time, std::function<void()> action) {
    const std::lock_guard<std::mutex> lock(mutex_);
    actions_.emplace(time, std::move(action));
    ++changes_;
    changed_.notify_one();
  }

 private:
  void Run() {
    while (true) {
      std::function<void()> action;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        const uint64_t before = changes_;
        const absl::Time next = actions_.empty() ? absl::InfiniteFuture() : actions_.begin()->first;
        const auto news = [this, before] { return closing_ || changes_ != before; };
        if (next == absl::InfiniteFuture()) {
          changed_.wait(lock, news);
        } else {
          changed_.wait_until(lock,
                              std::chrono::steady_clock::time_point(
                                  std::chrono::nanoseconds(absl::ToUnixNanos(next))),
                              news);
        }
        if (closing_) return;
        if (actions_.empty() || actions_.begin()->first > SteadyNow()) continue;
        action = std::move(actions_.begin()->second);
        actions_.erase(actions_.begin());
      }
      action();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<absl::Time, std::function<void()>> actions_;  // these three under mutex_
  uint64_t changes_ = 0;
  bool closing_ = false;
  std::thread thread_;
};

// Step k begins `time` x (k - newest) after `base`; none before.
struct ScriptedSteps {
  absl::Time base = SteadyNow();
  int64_t newest = 0;
  absl::Duration time = absl::Milliseconds(10);
  bool increasing = true;
  bool by_ordinal = false;  // accepts ordinals

  int64_t At(absl::Time when) const {
    return newest + static_cast<int64_t>(absl::FDivDuration(when - base, time));
  }
  v1::StepState StateAt(absl::Time when) const {
    v1::StepState state;
    state.set_begun(static_cast<uint64_t>(std::max<int64_t>(At(when) - newest, 0)) + 1);
    state.set_current(At(when));
    state.set_step_time_ms(absl::ToDoubleMilliseconds(time));
    state.set_increasing(increasing);
    state.set_by_ordinal(by_ordinal);
    const absl::Duration into = (when - base) - (At(when) - newest) * time;
    state.set_age_ns(static_cast<uint64_t>(absl::ToInt64Nanoseconds(into)));
    return state;
  }
};

// How one worker behaves.
struct Script {
  bool streams = true;  // speaks the native protocol
  bool stock = false;   // has no Describe at all
  // The status of the n-th attempt, from 0.
  std::function<grpc::Status(int attempt)> describe = [](int) { return grpc::Status::OK; };
  absl::Duration describe_takes = absl::Milliseconds(1);  // infinite: a hang
  bool busy = false;
  uint64_t busy_remaining_ms = 1;
  uint64_t max_duration_ms = 0;  // 0 does not tell
  // Of its process: 0 does not tell. Those in which these four are equal are the same process.
  int64_t pid = 0;
  int64_t next_pid = 0;  // from the second attempt on; 0: the same
  std::string host;
  std::string pid_space;
  uint64_t start_unix_ns = 1'700'000'000'000'000'000;
  std::function<grpc::Status(int attempt)> arm = [](int) { return grpc::Status::OK; };
  absl::Duration arm_takes = absl::Milliseconds(1);  // likewise
  // Whether, and how soon after it was armed, the n-th attempt dies, from 0.
  std::function<std::optional<absl::Duration>(int attempt)> dies_armed = [](int) {
    return std::nullopt;
  };
  // Whether, and how soon after it was armed, the n-th attempt ends because it was not started,
  // from 0.
  std::function<std::optional<absl::Duration>(int attempt)> armed_limit = [](int) {
    return std::nullopt;
  };
  absl::Duration lookback;
  std::optional<ScriptedSteps> steps;
  absl::Duration latency;       // one way
  absl::Duration clock_offset;  // of its MONOTONIC
  absl::Duration clock_error;   // of what SyncClock tells of that; the uncertainty covers it
  std::string clock_id;
  // What arming tells of the clock is this wide; absent: it tells nothing.
  std::optional<absl::Duration> arm_round_trip;
  std::optional<grpc::Status> sync_fails;
  bool sync_hangs = false;
  // Not at all, if infinite.
  absl::Duration answer_after_end = absl::ZeroDuration();
  // How the n-th recording ends, from 0.
  std::function<grpc::Status(int recording)> capture = [](int) { return grpc::Status::OK; };
  absl::Duration capture_fails_after = absl::ZeroDuration();
  bool truncates = false;  // where `capture` fails, a trace still comes
  bool obeys_stop = true;
};

// Calls that hang end without an answer at their time limit, or as soon as a worker was started:
// `by_limit` tells whether anybody waited for a time limit, on a busy machine too.
struct Hangs {
  std::atomic<bool> over{false};
  std::atomic<int> by_limit{0};
};

struct Log {
  absl::Mutex mutex;
  int connects ABSL_GUARDED_BY(mutex) = 0;
  int stops ABSL_GUARDED_BY(mutex) = 0;
  int cancels ABSL_GUARDED_BY(mutex) = 0;
  int syncs ABSL_GUARDED_BY(mutex) = 0;
  std::vector<ArmCall> arms ABSL_GUARDED_BY(mutex);
  std::vector<StartCall> starts ABSL_GUARDED_BY(mutex);
  std::vector<uint64_t> begun_ns ABSL_GUARDED_BY(mutex);    // truly, on our MONOTONIC
  std::vector<uint64_t> planned_ns ABSL_GUARDED_BY(mutex);  // as the worker understood it, likewise
  std::vector<std::weak_ptr<void>> connections ABSL_GUARDED_BY(mutex);
};

class EmptyDelivery : public Delivery {
 public:
  explicit EmptyDelivery(bool truncated) : truncated_(truncated) {}
  WorkerOutcome Write(const RunDirectory&, const std::string&, ManifestWorker*) override {
    return {};
  }
  bool truncated() const { return truncated_; }

 private:
  const bool truncated_;
};

class ScriptedWorker : public WorkerClient {
 public:
  ScriptedWorker(const Script& script, Protocol protocol, std::shared_ptr<Log> log,
                 std::shared_ptr<Hangs> hangs, Clockwork* clockwork)
      : script_(script),
        protocol_(protocol),
        log_(std::move(log)),
        hangs_(std::move(hangs)),
        clockwork_(clockwork) {
    const absl::MutexLock lock(&log_->mutex);
    log_->connections.push_back(connection_);
  }

  ~ScriptedWorker() override { ScriptedWorker::Cancel(); }

  void Describe(absl::Duration timeout, DescribeDone done) override {
    int attempt = 0;
    {
      const absl::MutexLock lock(&log_->mutex);
      attempt = log_->connects++;
    }
    v1::DescribeResponse response;
    response.set_streams(script_.streams);
    response.set_clock_id(script_.clock_id);
    const bool replaced = attempt > 0 && script_.next_pid != 0;
    response.mutable_identity()->set_pid(replaced ? script_.next_pid : script_.pid);
    response.mutable_identity()->set_host(script_.host);
    response.set_pid_space(script_.pid_space);
    response.set_start_unix_ns(script_.start_unix_ns);
    response.mutable_limits()->set_max_duration_ms(script_.max_duration_ms);
    if (script_.busy) {
      response.mutable_busy()->set_session_id("other");
      response.mutable_busy()->set_remaining_ms(script_.busy_remaining_ms);
    }
    const grpc::Status status = script_.stock ? grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "")
                                              : script_.describe(attempt);
    Answer(script_.describe_takes, timeout, [done = std::move(done), status, response](bool late) {
      done(late ? Late() : status, response);
    });
  }

  void Arm(const ArmCall& call, WorkerEvents events) override {
    events_ = std::make_shared<WorkerEvents>(std::move(events));
    int attempt = 0;
    {
      const absl::MutexLock lock(&log_->mutex);
      attempt = static_cast<int>(log_->arms.size());
      log_->arms.push_back(call);
    }
    if (protocol_ == Protocol::kTensorflow) {
      events_->armed(grpc::Status::OK, {});
      return;
    }
    const grpc::Status status = script_.arm(attempt);
    const std::optional<absl::Duration> dies = script_.dies_armed(attempt);
    const std::optional<absl::Duration> limit = script_.armed_limit(attempt);
    const auto ended = ended_;
    Answer(
        script_.arm_takes + script_.latency, call.timeout,
        [script = script_, events = events_, status, ended, dies, limit, started = started_,
         cancelled = cancelled_, clockwork = clockwork_](bool late) {
          v1::Armed armed;
          armed.set_lookback_ns(static_cast<uint64_t>(absl::ToInt64Nanoseconds(script.lookback)));
          const absl::Time sent = SteadyNow() - script.latency;
          if (script.steps && sent >= script.steps->base) {
            *armed.mutable_steps() = script.steps->StateAt(sent);
          }
          events->armed(late ? Late() : status, armed);
          if (late || !status.ok()) return;
          if (dies) {
            const auto die = [events, ended] {
              End(events, ended, {grpc::StatusCode::UNAVAILABLE, "Socket closed"}, nullptr);
            };
            if (*dies > absl::ZeroDuration()) {
              clockwork->At(SteadyNow() + *dies, die);
            } else {
              die();
            }
          } else {
            if (limit) {
              clockwork->At(SteadyNow() + *limit, [events, ended, started] {
                if (*started) return;
                End(events, ended, {grpc::StatusCode::DEADLINE_EXCEEDED, "armed for too long"},
                    nullptr);
              });
            }
            TellProgress(script, events, ended, cancelled, clockwork);
          }
        });
  }

  std::optional<ClockEstimate> arm_clock() const override {
    if (!script_.arm_round_trip.has_value()) return std::nullopt;
    ClockEstimate estimate;
    const auto half_ns = absl::ToInt64Nanoseconds(*script_.arm_round_trip / 2);
    // All of it on the way back.
    estimate.offset_ns = absl::ToInt64Nanoseconds(script_.clock_offset) - half_ns;
    estimate.uncertainty_ns = static_cast<uint64_t>(half_ns);
    estimate.round_trip_ns = 2 * estimate.uncertainty_ns;
    estimate.realtime_offset_ns = estimate.offset_ns;
    estimate.measured_ns = MonotonicNow();
    return estimate;
  }

  void SyncClock(absl::Duration timeout, ClockDone done) override {
    {
      const absl::MutexLock lock(&log_->mutex);
      ++log_->syncs;
    }
    ClockEstimate estimate;
    estimate.offset_ns = absl::ToInt64Nanoseconds(script_.clock_offset + script_.clock_error);
    estimate.uncertainty_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(
        std::max(script_.clock_error, -script_.clock_error) + absl::Microseconds(1)));
    estimate.round_trip_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(2 * script_.latency));
    estimate.realtime_offset_ns = estimate.offset_ns;
    const absl::Duration takes =
        script_.sync_hangs ? absl::InfiniteDuration() : 2 * script_.latency;
    Answer(takes, timeout, [script = script_, estimate, done = std::move(done)](bool late) mutable {
      estimate.measured_ns = MonotonicNow();
      if (late || script.sync_fails) {
        done(late ? Late() : *script.sync_fails, std::nullopt);
      } else {
        done(grpc::Status::OK, estimate);
      }
    });
  }

  void Start(const StartCall& call) override {
    *started_ = true;
    hangs_->over = true;
    const absl::Time now = SteadyNow();
    const uint64_t now_ns = MonotonicNow();
    const absl::Time arrival = now + script_.latency;
    // Its clock at the instant that was meant, if it computes that instant from the request.
    absl::Time planned = arrival;
    if (protocol_ == Protocol::kTensorflow) {
      planned = SteadyTime(call.start_monotonic_ns);
    } else if (call.clock) {
      planned = now + absl::Nanoseconds(static_cast<int64_t>(call.start_monotonic_ns - now_ns)) +
                absl::Nanoseconds(call.clock->offset_ns) - script_.clock_offset;
    }
    const absl::Time begin = std::max(planned, arrival);
    int recording = 0;
    {
      const absl::MutexLock lock(&log_->mutex);
      recording = static_cast<int>(log_->starts.size());
      log_->starts.push_back(call);
      const auto ns = [&](absl::Time time) {
        return now_ns + static_cast<uint64_t>(absl::ToInt64Nanoseconds(time - now));
      };
      log_->begun_ns.push_back(ns(begin));
      log_->planned_ns.push_back(ns(planned));
    }
    if (protocol_ == Protocol::kNative) {
      v1::Started started;
      started.set_start_monotonic_ns(now_ns + static_cast<uint64_t>(absl::ToInt64Nanoseconds(
                                                  begin - now + script_.clock_offset)));
      clockwork_->At(begin + script_.latency,
                     [events = events_, started] { events->started(started); });
    }
    const grpc::Status status = script_.capture(recording);
    if (!status.ok()) {
      clockwork_->At(now + script_.capture_fails_after, [events = events_, ended = ended_, status,
                                                         truncates = script_.truncates] {
        End(events, ended, status, truncates ? std::make_unique<EmptyDelivery>(true) : nullptr);
      });
      return;
    }
    absl::Time end = begin + call.duration;
    if (call.steps && script_.steps) {
      end = std::min(end, script_.steps->base + (call.steps->last() + 1 - script_.steps->newest) *
                                                    script_.steps->time);
    }
    clockwork_->At(end + script_.answer_after_end + script_.latency,
                   [events = events_, ended = ended_] {
                     End(events, ended, grpc::Status::OK, std::make_unique<EmptyDelivery>(false));
                   });
  }

  void Stop(const std::string&, absl::Duration, StopDone done) override {
    {
      const absl::MutexLock lock(&log_->mutex);
      ++log_->stops;
    }
    if (!script_.obeys_stop) return;
    clockwork_->At(SteadyNow(), [events = events_, ended = ended_, done = std::move(done)] {
      End(events, ended, grpc::Status::OK, std::make_unique<EmptyDelivery>(true));
      done(grpc::Status::OK, true);
    });
  }

  void Cancel() override {
    const absl::MutexLock lock(&log_->mutex);
    ++log_->cancels;
    *cancelled_ = true;
  }

  bool connected() const override { return true; }
  std::shared_ptr<void> connection() const override { return connection_; }

 private:
  static grpc::Status Late() { return {grpc::StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded"}; }

  void Answer(absl::Duration takes, absl::Duration timeout, std::function<void(bool late)> answer) {
    if (takes == absl::InfiniteDuration()) {
      return Hang(SteadyNow() + timeout, std::move(answer), hangs_, clockwork_);
    }
    clockwork_->At(SteadyNow() + std::min(takes, timeout),
                   [late = takes > timeout, answer = std::move(answer)] { answer(late); });
  }

  static void Hang(absl::Time limit, std::function<void(bool late)> answer,
                   std::shared_ptr<Hangs> hangs, Clockwork* clockwork) {
    clockwork->At(SteadyNow() + absl::Milliseconds(5),
                  [limit, answer = std::move(answer), hangs = std::move(hangs), clockwork] {
                    const bool by_limit = !hangs->over && SteadyNow() >= limit;
                    hangs->by_limit += by_limit ? 1 : 0;
                    if (by_limit || hangs->over) return answer(true);
                    Hang(limit, answer, hangs, clockwork);
                  });
  }

  // Runs on the clockwork's thread alone, like all that looks at `ended`.
  static void End(const std::shared_ptr<WorkerEvents>& events, const std::shared_ptr<bool>& ended,
                  const grpc::Status& status, std::unique_ptr<Delivery> delivery) {
    if (events == nullptr || std::exchange(*ended, true)) return;
    events->ended(status, std::move(delivery));
  }

  static void TellProgress(const Script& script, const std::shared_ptr<WorkerEvents>& events,
                           const std::shared_ptr<bool>& ended,
                           const std::shared_ptr<std::atomic<bool>>& cancelled,
                           Clockwork* clockwork) {
    if (!script.steps || *ended || *cancelled) return;
    clockwork->At(SteadyNow() + absl::Milliseconds(50),
                  [script, events, ended, cancelled, clockwork] {
                    if (*ended || *cancelled) return;
                    v1::Progress progress;
                    const absl::Time sent = SteadyNow() - script.latency;
                    if (sent >= script.steps->base) {
                      *progress.mutable_steps() = script.steps->StateAt(sent);
                    }
                    events->progress(progress);
                    TellProgress(script, events, ended, cancelled, clockwork);
                  });
  }

  const Script script_;
  const Protocol protocol_;
  const std::shared_ptr<Log> log_;
  const std::shared_ptr<Hangs> hangs_;
  Clockwork* const clockwork_;
  const std::shared_ptr<void> connection_ = std::make_shared<int>();
  std::shared_ptr<WorkerEvents> events_;
  const std::shared_ptr<bool> ended_ = std::make_shared<bool>(false);
  const std::shared_ptr<std::atomic<bool>> started_ = std::make_shared<std::atomic<bool>>(false);
  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace jobscope

#endif  // TESTS_CLIENT_FAN_OUT_SCRIPTED_WORKER_H_
