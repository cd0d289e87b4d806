// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_CLIENT_FAN_OUT_FAN_OUT_FIXTURE_H_
#define TESTS_CLIENT_FAN_OUT_FAN_OUT_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "client/fan_out/fan_out.h"
#include "tests/client/fan_out/scripted_worker.h"

namespace jobscope {

inline grpc::Status Refused(int) { return {grpc::StatusCode::UNAVAILABLE, "Connection refused"}; }

// A worker without the native service.
inline Script Stock() {
  Script script;
  script.stock = true;
  script.streams = false;
  return script;
}

// A fan-out over scripted workers "w0:1", "w1:1", ...
class FanOutTest : public ::testing::Test {
 protected:
  FanOutTest() {
    options_.session_id = "mine";
    options_.duration = absl::Milliseconds(200);
    // A busy machine may not run a thread for seconds: limits that a test waits for are its own.
    options_.times.connect = absl::Seconds(30);
    options_.times.arm = absl::Seconds(30);
    options_.times.sync = absl::Seconds(30);
    options_.times.transfer = absl::Seconds(30);
    options_.times.first_backoff = absl::Milliseconds(40);
    options_.times.max_backoff = absl::Milliseconds(100);
    options_.times.gather = absl::Seconds(10);
  }

  void Make(std::vector<Script> scripts) {
    std::vector<Endpoint> endpoints;
    std::vector<std::string> stems;
    logs_.clear();
    hangs_ = std::make_shared<Hangs>();
    for (size_t i = 0; i < scripts.size(); ++i) {
      Endpoint endpoint;
      endpoint.address = absl::StrCat("w", i, ":1");
      endpoints.push_back(endpoint);
      stems.push_back(absl::StrCat("w", i, "_1"));
      logs_.push_back(std::make_shared<Log>());
    }
    fan_out_ = std::make_unique<FanOut>(
        std::move(endpoints), std::move(stems), options_,
        [this, scripts](const Endpoint& endpoint, Protocol protocol) {
          const size_t index = static_cast<size_t>(std::stoi(endpoint.address.substr(1)));
          return std::make_unique<ScriptedWorker>(scripts[index], protocol, logs_[index], hangs_,
                                                  &clockwork_);
        },
        [this](size_t index, Delivery* delivery, ManifestWorker*) {
          const absl::MutexLock lock(&mutex_);
          written_[index] = absl::Now();
          const bool truncated = static_cast<EmptyDelivery*>(delivery)->truncated();
          return WorkerOutcome{truncated ? Outcome::kTruncated : Outcome::kOk, Phase::kDone, "",
                               std::nullopt};
        },
        &progress_);
  }

  std::vector<WorkerResult> Run(std::vector<Script> scripts) {
    Make(std::move(scripts));
    return fan_out_->Run();
  }

  // The same, again where somebody began late: the machine may not run this client in time.
  std::vector<WorkerResult> RunInTime(const std::function<std::vector<Script>()>& scripts) {
    std::vector<WorkerResult> results;
    for (int i = 0; i < 10; ++i) {
      results = Run(scripts());
      if (!AnyLate()) break;
    }
    return results;
  }
  bool AnyLate() {
    for (const std::shared_ptr<Log>& log : logs_) {
      const absl::MutexLock lock(&log->mutex);
      for (size_t i = 0; i < log->begun_ns.size(); ++i) {
        if (log->begun_ns[i] > log->planned_ns[i] + 1'000'000) return true;
      }
    }
    return false;
  }

  int connects(size_t index) {
    const absl::MutexLock lock(&logs_[index]->mutex);
    return logs_[index]->connects;
  }
  // The connections of its attempts: whether each is open.
  std::vector<bool> connections(size_t index) {
    const absl::MutexLock lock(&logs_[index]->mutex);
    std::vector<bool> open;
    for (const auto& connection : logs_[index]->connections) open.push_back(!connection.expired());
    return open;
  }
  std::vector<StartCall> starts(size_t index) {
    const absl::MutexLock lock(&logs_[index]->mutex);
    return logs_[index]->starts;
  }
  int syncs(size_t index) {
    const absl::MutexLock lock(&logs_[index]->mutex);
    return logs_[index]->syncs;
  }
  std::vector<ArmCall> arms(size_t index) {
    const absl::MutexLock lock(&logs_[index]->mutex);
    return logs_[index]->arms;
  }
  // When its only recording truly began.
  uint64_t begun(size_t index) {
    const absl::MutexLock lock(&logs_[index]->mutex);
    EXPECT_EQ(logs_[index]->begun_ns.size(), 1u);
    return logs_[index]->begun_ns.empty() ? 0 : logs_[index]->begun_ns[0];
  }
  absl::Time written(size_t index) {
    const absl::MutexLock lock(&mutex_);
    return written_.at(index);
  }

  FanOutOptions options_;
  Clockwork clockwork_;
  std::vector<std::shared_ptr<Log>> logs_;
  std::shared_ptr<Hangs> hangs_;
  absl::Mutex mutex_;
  std::map<size_t, absl::Time> written_ ABSL_GUARDED_BY(mutex_);
  Progress progress_{Progress::Mode::kQuiet};
  std::unique_ptr<FanOut> fan_out_;
};

}  // namespace jobscope

#endif  // TESTS_CLIENT_FAN_OUT_FAN_OUT_FIXTURE_H_
