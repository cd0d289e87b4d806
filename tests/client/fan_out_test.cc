// SPDX-License-Identifier: Apache-2.0
//
// The decisions of a fan-out, over workers without a network.
#include "client/fan_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"

namespace jobscope {
namespace {

using grpc::Status;
using grpc::StatusCode;
using ::testing::HasSubstr;

// Runs functions at their time, on one thread.
class Clockwork {
 public:
  Clockwork() : thread_([this] { Run(); }) {}
  ~Clockwork() {
    {
      const absl::MutexLock lock(&mutex_);
      closing_ = true;
    }
    thread_.join();
  }
  void At(absl::Time time, std::function<void()> action) {
    const absl::MutexLock lock(&mutex_);
    actions_.emplace(time, std::move(action));
    ++changes_;
  }

 private:
  void Run() {
    while (true) {
      std::function<void()> action;
      {
        const absl::MutexLock lock(&mutex_);
        const uint64_t before = changes_;
        const absl::Time next = actions_.empty() ? absl::InfiniteFuture() : actions_.begin()->first;
        const auto news = [this, before]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
          return closing_ || changes_ != before;
        };
        mutex_.AwaitWithDeadline(absl::Condition(&news), next);
        if (closing_) return;
        if (actions_.empty() || actions_.begin()->first > absl::Now()) continue;
        action = std::move(actions_.begin()->second);
        actions_.erase(actions_.begin());
      }
      action();
    }
  }

  absl::Mutex mutex_;
  std::multimap<absl::Time, std::function<void()>> actions_ ABSL_GUARDED_BY(mutex_);
  uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// How one worker behaves.
struct Script {
  // The status of the n-th attempt to connect, from 0.
  std::function<Status(int attempt)> describe = [](int) { return Status::OK; };
  absl::Duration describe_takes = absl::Milliseconds(1);
  bool busy = false;
  // Not at all, if infinite.
  absl::Duration answer_after_end = absl::ZeroDuration();
  std::function<Status(int call)> capture = [](int) { return Status::OK; };
  absl::Duration capture_fails_after = absl::ZeroDuration();
  bool lives = true;  // answers probes
};

struct Log {
  absl::Mutex mutex;
  int connects ABSL_GUARDED_BY(mutex) = 0;
  int stops ABSL_GUARDED_BY(mutex) = 0;
  std::vector<CaptureCall> calls ABSL_GUARDED_BY(mutex);
};

class ScriptedWorker : public Worker {
 public:
  ScriptedWorker(const Script& script, std::shared_ptr<Log> log, Clockwork* clockwork)
      : script_(script), log_(std::move(log)), clockwork_(clockwork) {}

  void Describe(absl::Time deadline, DescribeDone done) override {
    if (captured_) {  // a probe
      if (script_.lives) {
        clockwork_->At(absl::Now(), [done] { done(Status::OK, {}); });
      } else {
        clockwork_->At(deadline, [done] { done({StatusCode::DEADLINE_EXCEEDED, ""}, {}); });
      }
      return;
    }
    int attempt = 0;
    {
      const absl::MutexLock lock(&log_->mutex);
      attempt = log_->connects++;
    }
    v1::DescribeResponse response;
    if (script_.busy) {
      response.mutable_busy()->set_session_id("other");
      response.mutable_busy()->set_remaining_ms(1);
    }
    const Status status = script_.describe(attempt);
    const absl::Time at = std::min(absl::Now() + script_.describe_takes, deadline);
    const bool late = absl::Now() + script_.describe_takes > deadline;
    clockwork_->At(at, [done, status, response, late] {
      done(late ? Status(StatusCode::DEADLINE_EXCEEDED, "") : status, response);
    });
  }

  void Capture(const CaptureCall& call, CaptureDone done) override {
    captured_ = true;
    int number = 0;
    {
      const absl::MutexLock lock(&log_->mutex);
      number = static_cast<int>(log_->calls.size());
      log_->calls.push_back(call);
    }
    const Status status = script_.capture(number);
    const absl::Time start = call.start.value_or(absl::Now());
    done_ = std::make_shared<CaptureDone>(std::move(done));
    const auto answer = [pending = done_, status] {
      if (*pending) std::exchange(*pending, nullptr)(status, {});
    };
    if (!status.ok()) {
      clockwork_->At(absl::Now() + script_.capture_fails_after, answer);
    } else {
      clockwork_->At(start + call.duration + script_.answer_after_end, answer);
    }
  }

  void Stop(const std::string&, bool, absl::Time, StopDone done) override {
    {
      const absl::MutexLock lock(&log_->mutex);
      ++log_->stops;
    }
    if (!script_.lives) return;
    clockwork_->At(absl::Now(), [pending = done_, done] {
      if (*pending) std::exchange(*pending, nullptr)(Status::OK, {});
      done(Status::OK, true);
    });
  }
  void Cancel() override {}
  bool connected() const override { return true; }

 private:
  const Script script_;
  const std::shared_ptr<Log> log_;
  Clockwork* const clockwork_;
  bool captured_ = false;
  std::shared_ptr<CaptureDone> done_;  // run on the clockwork's thread only
};

class FanOutTest : public ::testing::Test {
 protected:
  FanOutTest() {
    options_.session_id = "mine";
    options_.duration = absl::Milliseconds(200);
    options_.times.connect = absl::Milliseconds(400);
    options_.times.transfer = absl::Seconds(5);
    options_.times.first_backoff = absl::Milliseconds(40);
    options_.times.max_backoff = absl::Milliseconds(100);
    options_.times.gather = absl::Milliseconds(100);
    options_.times.probe_period = absl::Milliseconds(50);
    options_.times.silence = absl::Milliseconds(200);
  }

  void Make(std::vector<Script> scripts) {
    std::vector<Endpoint> endpoints;
    std::vector<std::string> stems;
    for (size_t i = 0; i < scripts.size(); ++i) {
      Endpoint endpoint;
      endpoint.address = absl::StrCat("w", i, ":1");
      endpoints.push_back(endpoint);
      stems.push_back(absl::StrCat("w", i, "_1"));
      logs_.push_back(std::make_shared<Log>());
    }
    fan_out_ = std::make_unique<FanOut>(
        std::move(endpoints), std::move(stems), options_,
        [this, scripts](const Endpoint& endpoint) {
          const size_t index = static_cast<size_t>(std::stoi(endpoint.address.substr(1)));
          return std::make_unique<ScriptedWorker>(scripts[index], logs_[index], &clockwork_);
        },
        [this](size_t index, const ReplyContext& context, grpc::ByteBuffer*, ManifestWorker*) {
          const absl::MutexLock lock(&mutex_);
          written_[index] = absl::Now();
          return Verdict{context.stopped_early ? Outcome::kTruncated : Outcome::kOk, Phase::kDone,
                         "", std::nullopt};
        },
        &progress_);
  }

  std::vector<WorkerResult> Run(std::vector<Script> scripts) {
    Make(std::move(scripts));
    return fan_out_->Run();
  }

  int connects(size_t index) {
    const absl::MutexLock lock(&logs_[index]->mutex);
    return logs_[index]->connects;
  }
  std::vector<CaptureCall> calls(size_t index) {
    const absl::MutexLock lock(&logs_[index]->mutex);
    return logs_[index]->calls;
  }
  absl::Time written(size_t index) {
    const absl::MutexLock lock(&mutex_);
    return written_.at(index);
  }

  FanOutOptions options_;
  Clockwork clockwork_;
  std::vector<std::shared_ptr<Log>> logs_;
  absl::Mutex mutex_;
  std::map<size_t, absl::Time> written_ ABSL_GUARDED_BY(mutex_);
  Progress progress_{Progress::Mode::kQuiet};
  std::unique_ptr<FanOut> fan_out_;
};

Status Refused(int) { return {StatusCode::UNAVAILABLE, "Connection refused"}; }

TEST_F(FanOutTest, AllStartAtOneInstant) {
  const std::vector<WorkerResult> results = Run(std::vector<Script>(8));
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_STREQ(Name(results[i].verdict.outcome), "ok");
    EXPECT_EQ(results[i].account.attempts, 1);
    ASSERT_EQ(calls(i).size(), 1u);
    ASSERT_TRUE(calls(i)[0].start.has_value());
    EXPECT_EQ(calls(i)[0].start, calls(0)[0].start);
    EXPECT_EQ(calls(i)[0].file_stem, absl::StrCat("w", i, "_1"));
    EXPECT_EQ(calls(i)[0].session_id, "mine");
  }
  EXPECT_EQ(fan_out_->started(), calls(0)[0].start);
}

TEST_F(FanOutTest, OneAloneStartsAtOnce) {
  Run({Script()});
  EXPECT_FALSE(calls(0)[0].start.has_value());
}

TEST_F(FanOutTest, ADelayIsOnTheClock) {
  options_.delay = absl::Milliseconds(300);
  const absl::Time before = absl::Now();
  Run({Script()});
  ASSERT_TRUE(calls(0)[0].start.has_value());
  EXPECT_GE(*calls(0)[0].start, before + options_.delay);
}

TEST_F(FanOutTest, ARefusedConnectionIsTriedAgainAndHoldsNobodyUp) {
  Script refused;
  refused.describe = Refused;
  const std::vector<WorkerResult> results = Run({Script(), refused, Script()});
  EXPECT_STREQ(Name(results[0].verdict.outcome), "ok");
  EXPECT_STREQ(Name(results[2].verdict.outcome), "ok");
  EXPECT_STREQ(Name(results[1].verdict.outcome), "unreachable");
  EXPECT_EQ(results[1].account.attempts, 3);
  EXPECT_EQ(connects(1), 3);
  EXPECT_TRUE(calls(1).empty());
  // Nobody waited for the second attempt, which comes after 40 ms.
  EXPECT_EQ(connects(0), 1);
}

TEST_F(FanOutTest, OneThatComesUpLateIsStillCaptured) {
  Script late;
  late.describe = [](int attempt) { return attempt < 2 ? Refused(0) : Status::OK; };
  const std::vector<WorkerResult> results = Run({Script(), late});
  EXPECT_STREQ(Name(results[1].verdict.outcome), "ok");
  EXPECT_EQ(results[1].account.attempts, 3);
  ASSERT_EQ(calls(1).size(), 1u);
}

TEST_F(FanOutTest, ASilentOneHoldsTheOthersNoLongerThanTheGatherTime) {
  Script silent;
  silent.describe_takes = absl::InfiniteDuration();
  const absl::Time before = absl::Now();
  const std::vector<WorkerResult> results = Run({Script(), silent});
  EXPECT_STREQ(Name(results[0].verdict.outcome), "ok");
  EXPECT_STREQ(Name(results[1].verdict.outcome), "timeout");
  EXPECT_STREQ(Name(results[1].verdict.phase), "describe");
  EXPECT_EQ(connects(1), 1) << "silence is not asked again";
  ASSERT_EQ(calls(0).size(), 1u);
  EXPECT_LT(*calls(0)[0].start, before + options_.times.connect);
}

TEST_F(FanOutTest, BusyIsRetriedAndThenTold) {
  Script busy;
  busy.busy = true;
  const std::vector<WorkerResult> results = Run({busy});
  EXPECT_STREQ(Name(results[0].verdict.outcome), "busy");
  EXPECT_THAT(results[0].verdict.reason, HasSubstr("'other'"));
  EXPECT_EQ(results[0].account.attempts, 3);
}

TEST_F(FanOutTest, BusyAnswersOfStockWorkersAreRetried) {
  Script stock;
  stock.describe = [](int) { return Status(StatusCode::UNIMPLEMENTED, ""); };
  stock.capture = [](int call) {
    return call < 2 ? Status(StatusCode::INTERNAL, "Another profiling session active.")
                    : Status::OK;
  };
  const std::vector<WorkerResult> results = Run({stock});
  EXPECT_STREQ(Name(results[0].verdict.outcome), "ok");
  EXPECT_EQ(results[0].account.protocol, "tensorflow");
  EXPECT_EQ(calls(0).size(), 3u);
}

TEST_F(FanOutTest, ARecordingThatStartedIsNotRunTwice) {
  Script dies;
  dies.capture = [](int) { return Status(StatusCode::UNAVAILABLE, "Socket closed"); };
  dies.capture_fails_after = absl::Milliseconds(100);
  const std::vector<WorkerResult> results = Run({dies});
  EXPECT_STREQ(Name(results[0].verdict.outcome), "died");
  EXPECT_STREQ(Name(results[0].verdict.phase), "record");
  EXPECT_EQ(calls(0).size(), 1u);
  EXPECT_EQ(results[0].account.attempts, 1);
}

TEST_F(FanOutTest, AHungWorkerIsFoundOutAndDelaysNobody) {
  Script hung;
  hung.answer_after_end = absl::InfiniteDuration();
  hung.lives = false;
  const std::vector<WorkerResult> results = Run({Script(), hung});
  const absl::Time end = absl::Now();
  EXPECT_STREQ(Name(results[0].verdict.outcome), "ok");
  EXPECT_STREQ(Name(results[1].verdict.outcome), "timeout");
  EXPECT_THAT(results[1].verdict.reason, HasSubstr("no sign of life"));
  EXPECT_LT(written(0), end - absl::Milliseconds(50)) << "written before the other was given up";
  EXPECT_LT(end, *fan_out_->started() + options_.duration + absl::Seconds(4));
}

TEST_F(FanOutTest, ASlowAnswerOfALivingWorkerIsWaitedFor) {
  Script slow;
  slow.answer_after_end = absl::Seconds(1);  // five times the silence that is allowed
  const std::vector<WorkerResult> results = Run({slow});
  EXPECT_STREQ(Name(results[0].verdict.outcome), "ok");
}

TEST_F(FanOutTest, ResultsAreWrittenAsTheyCome) {
  Script slow;
  slow.answer_after_end = absl::Milliseconds(500);
  Run({slow, Script()});
  EXPECT_LT(written(1), written(0) - absl::Milliseconds(200));
}

TEST_F(FanOutTest, FewerThanMinWorkersRecordsNothing) {
  options_.min_workers = 2;
  Script refused;
  refused.describe = Refused;
  const std::vector<WorkerResult> results = Run({Script(), refused});
  EXPECT_STREQ(Name(results[0].verdict.outcome), "failed");
  EXPECT_STREQ(Name(results[0].verdict.phase), "arm");
  EXPECT_THAT(results[0].verdict.reason, HasSubstr("--min_workers=2"));
  EXPECT_TRUE(calls(0).empty());
  EXPECT_FALSE(fan_out_->started().has_value());
}

TEST_F(FanOutTest, MinWorkersWaitsForRetries) {
  options_.min_workers = 2;
  Script late;
  late.describe = [](int attempt) { return attempt < 2 ? Refused(0) : Status::OK; };
  const std::vector<WorkerResult> results = Run({Script(), late});
  EXPECT_STREQ(Name(results[1].verdict.outcome), "ok");
  EXPECT_EQ(calls(0)[0].start, calls(1)[0].start);
}

TEST_F(FanOutTest, MaxParallelBoundsConnecting) {
  options_.max_parallel = 3;
  const std::vector<WorkerResult> results = Run(std::vector<Script>(20));
  for (const WorkerResult& result : results) EXPECT_STREQ(Name(result.verdict.outcome), "ok");
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(calls(i)[0].start, calls(0)[0].start);
}

TEST_F(FanOutTest, AnInterruptStopsAndKeepsWhatThereIs) {
  options_.duration = absl::Seconds(60);
  Script hung;
  hung.lives = false;
  hung.answer_after_end = absl::InfiniteDuration();
  Script refused;
  refused.describe = Refused;
  Make({Script(), hung, refused});
  clockwork_.At(absl::Now() + absl::Milliseconds(400), [this] { fan_out_->Interrupt(); });
  const absl::Time before = absl::Now();
  const std::vector<WorkerResult> results = fan_out_->Run();
  EXPECT_LT(absl::Now() - before, absl::Seconds(10));
  EXPECT_STREQ(Name(results[0].verdict.outcome), "truncated");
  EXPECT_STREQ(Name(results[1].verdict.outcome), "timeout");
  EXPECT_STREQ(Name(results[2].verdict.outcome), "unreachable");
}

TEST_F(FanOutTest, AnInterruptBeforeTheStartRecordsNothing) {
  Make({Script()});
  fan_out_->Interrupt();
  const std::vector<WorkerResult> results = fan_out_->Run();
  EXPECT_STREQ(Name(results[0].verdict.outcome), "failed");
  EXPECT_THAT(results[0].verdict.reason, HasSubstr("interrupted before"));
  EXPECT_TRUE(calls(0).empty());
}

TEST_F(FanOutTest, AThousandWorkers) {
  const std::vector<WorkerResult> results = Run(std::vector<Script>(1000));
  EXPECT_EQ(std::count_if(results.begin(), results.end(),
                          [](const WorkerResult& r) { return r.verdict.outcome == Outcome::kOk; }),
            1000);
}

}  // namespace
}  // namespace jobscope
