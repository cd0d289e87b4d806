// SPDX-License-Identifier: Apache-2.0
//
// Holds a NativeWorker under test, and records everything that it reports.
#ifndef TESTS_CLIENT_NATIVE_NATIVE_FIXTURE_H_
#define TESTS_CLIENT_NATIVE_NATIVE_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/native/native_worker.h"
#include "client/rpc/call_threads.h"
#include "client/run/write_pool.h"
#include "common/clock/clock.h"
#include "common/clock/monotonic.h"
#include "common/net/endpoint.h"
#include "common/run/run_directory.h"
#include "tests/temporary_directory.h"

namespace jobscope {

// Records the events of a worker. Functions that return one wait for it, for at most kTimeout.
class NativeLog {
 public:
  static constexpr absl::Duration kTimeout = absl::Seconds(30);

  static WorkerEvents Events(const std::shared_ptr<NativeLog>& log) {
    WorkerEvents events;
    events.armed = [log](const grpc::Status& status, v1::Armed armed) {
      const absl::MutexLock lock(&log->mutex_);
      EXPECT_FALSE(log->armed_.has_value()) << "armed twice";
      log->armed_ = status;
      log->armed_message_ = std::move(armed);
    };
    events.started = [log](const v1::Started&) {
      const absl::MutexLock lock(&log->mutex_);
      ++log->started_;
    };
    events.progress = [log](const v1::Progress& progress) {
      const absl::MutexLock lock(&log->mutex_);
      log->progress_.push_back(progress);
    };
    events.note = [log](const std::string& note) {
      const absl::MutexLock lock(&log->mutex_);
      log->notes_.push_back(note);
    };
    events.ended = [log](const grpc::Status& status, std::unique_ptr<Delivery> delivery) {
      const absl::MutexLock lock(&log->mutex_);
      EXPECT_TRUE(log->armed_.has_value() && log->armed_->ok()) << "ended, but never armed";
      EXPECT_FALSE(log->ended_.has_value()) << "ended twice";
      log->ended_ = status;
      log->delivery_ = std::move(delivery);
    };
    return events;
  }

  grpc::Status AwaitArmed() { return Await(&NativeLog::armed_, "armed"); }
  grpc::Status AwaitEnded() { return Await(&NativeLog::ended_, "ended"); }
  bool AwaitStarted() {
    return AwaitThat([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return started_ > 0; });
  }
  bool AwaitProgress(size_t count) {
    return AwaitThat([this, count]()
                         ABSL_NO_THREAD_SAFETY_ANALYSIS { return progress_.size() >= count; });
  }
  bool AwaitNote(const std::string& part) { return AwaitNoteUntil(part, absl::Now() + kTimeout); }
  bool AwaitNoteUntil(const std::string& part, absl::Time deadline) {
    return AwaitThat(
        [this, &part]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
          return std::any_of(notes_.begin(), notes_.end(), [&part](const std::string& note) {
            return note.find(part) != std::string::npos;
          });
        },
        deadline);
  }
  bool armed() const {
    const absl::MutexLock lock(&mutex_);
    return armed_.has_value();
  }
  size_t progress() const {
    const absl::MutexLock lock(&mutex_);
    return progress_.size();
  }
  int started() const {
    const absl::MutexLock lock(&mutex_);
    return started_;
  }
  std::string key() const {
    const absl::MutexLock lock(&mutex_);
    return armed_message_.capture_key();
  }
  std::vector<std::string> notes() const {
    const absl::MutexLock lock(&mutex_);
    return notes_;
  }
  std::unique_ptr<Delivery> TakeDelivery() {
    const absl::MutexLock lock(&mutex_);
    return std::move(delivery_);
  }

 private:
  bool AwaitThat(const std::function<bool()>& condition,
                 absl::Time deadline = absl::Now() + kTimeout) {
    const absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithDeadline(absl::Condition(&condition), deadline);
  }
  grpc::Status Await(std::optional<grpc::Status> NativeLog::*status, const char* what) {
    const auto has = [this, status] { return (this->*status).has_value(); };
    const absl::MutexLock lock(&mutex_);
    if (!mutex_.AwaitWithTimeout(absl::Condition(&has), kTimeout)) {
      ADD_FAILURE() << "not " << what << " within " << kTimeout;
      return grpc::Status(grpc::StatusCode::UNKNOWN, "the test waited too long");
    }
    return *(this->*status);
  }

  mutable absl::Mutex mutex_;
  std::optional<grpc::Status> armed_ ABSL_GUARDED_BY(mutex_);
  v1::Armed armed_message_ ABSL_GUARDED_BY(mutex_);
  int started_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<v1::Progress> progress_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> notes_ ABSL_GUARDED_BY(mutex_);
  std::optional<grpc::Status> ended_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Delivery> delivery_ ABSL_GUARDED_BY(mutex_);
};

class NativeWorkerTest : public ::testing::Test {
 protected:
  NativeWorkerTest() {
    RunDirectoryOptions options;
    options.logdir = logdir_.path();
    options.run = "run";
    absl::StatusOr<RunDirectory> run = RunDirectory::Create(options);
    EXPECT_TRUE(run.ok()) << run.status();
    run_ = *std::move(run);
    options_.spool_directory = run_->path();
    options_.dial.connect_timeout = absl::Seconds(5);
  }

  void Connect(const std::string& address) {
    log_ = std::make_shared<NativeLog>();
    worker_ = std::make_unique<NativeWorker>(*ParseEndpoint(address), options_, &threads_, &disk_);
  }
  void Arm(absl::Duration timeout = absl::Seconds(20)) {
    ArmCall call;
    call.session_id = "run";
    call.file_stem = "worker";
    call.timeout = timeout;
    worker_->Arm(call, NativeLog::Events(log_));
  }
  std::optional<ClockEstimate> Sync(grpc::Status* status = nullptr) {
    struct Answer {
      absl::Notification done;
      grpc::Status status;
      std::optional<ClockEstimate> estimate;
    };
    const auto answer = std::make_shared<Answer>();
    worker_->SyncClock(absl::Seconds(5),
                       [answer](const grpc::Status& got, std::optional<ClockEstimate> estimate) {
                         answer->status = got;
                         answer->estimate = estimate;
                         answer->done.Notify();
                       });
    answer->done.WaitForNotification();
    if (status != nullptr) *status = answer->status;
    return answer->estimate;
  }
  // A start in a moment; the clock is known to be ours.
  StartCall MakeStart(absl::Duration duration) const {
    StartCall call;
    call.clock = ClockEstimate{};
    call.clock->measured_ns = MonotonicNow();
    call.start_monotonic_ns = MonotonicNow();
    call.zero_monotonic_ns = call.start_monotonic_ns;
    call.start_unix_ns = call.zero_unix_ns = RealtimeNs();
    call.duration = duration;
    call.transfer = absl::Seconds(60);
    return call;
  }
  // Arms, waits, starts.
  void Record(const std::string& address, absl::Duration duration = absl::Seconds(2),
              absl::Duration transfer = absl::Seconds(60)) {
    Connect(address);
    Arm();
    const grpc::Status armed = log_->AwaitArmed();
    ASSERT_TRUE(armed.ok()) << armed.error_message();
    StartCall call = MakeStart(duration);
    call.transfer = transfer;
    worker_->Start(call);
  }
  // Writes what was delivered.
  WorkerOutcome Write() {
    const std::unique_ptr<Delivery> delivery = log_->TakeDelivery();
    if (delivery == nullptr) {
      ADD_FAILURE() << "nothing was delivered";
      return {};
    }
    account_ = {};
    return delivery->Write(*run_, "worker", &account_);
  }
  std::string File(int part = 1) const {
    const std::string suffix = part == 1 ? "" : ".part" + std::to_string(part);
    return ReadAll(run_->path() + suffix + "/worker.xplane.pb");
  }

  TemporaryDirectory logdir_;
  std::optional<RunDirectory> run_;
  NativeWorkerOptions options_;
  ManifestWorker account_;
  std::shared_ptr<NativeLog> log_;
  WritePool disk_{2};
  CallThreads threads_;
  std::unique_ptr<NativeWorker> worker_;
};

}  // namespace jobscope

#endif  // TESTS_CLIENT_NATIVE_NATIVE_FIXTURE_H_
