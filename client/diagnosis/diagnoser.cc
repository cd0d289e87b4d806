// SPDX-License-Identifier: Apache-2.0
#include "client/diagnosis/diagnoser.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "client/diagnosis/tls_diagnosis.h"

namespace jobscope {
namespace {

// Handshakes take milliseconds, even with hundreds of workers that all fail in one way.
constexpr size_t kMaxThreads = 8;
// Time limit for a worker that answers: the failed connection was answered within its timeout, too.
constexpr absl::Duration kTimeout = absl::Seconds(2);

// Returns whether a connection was made, and then closed by one side.
bool MayBeCredentials(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE) return false;
  for (const char* other :
       {"refused", "unreachable", "No route", "No such file", "DNS", "timed out"}) {
    if (absl::StrContains(status.error_message(), other)) return false;
  }
  return true;
}

class DiagnosingWorker final : public WorkerClient {
 public:
  DiagnosingWorker(Diagnoser* diagnoser, Endpoint endpoint, std::unique_ptr<WorkerClient> worker)
      : diagnoser_(diagnoser), endpoint_(std::move(endpoint)), worker_(std::move(worker)) {}

  void Describe(absl::Duration timeout, DescribeDone done) override {
    worker_->Describe(
        timeout, [diagnoser = diagnoser_, endpoint = endpoint_, done = std::move(done)](
                     const grpc::Status& status, const v1::DescribeResponse& response) {
          diagnoser->Explain(endpoint, status, [done, response](grpc::Status explained) {
            done(std::move(explained), response);
          });
        });
  }
  void Stop(const std::string& session_id, absl::Duration timeout, StopDone done) override {
    worker_->Stop(session_id, timeout,
                  [diagnoser = diagnoser_, endpoint = endpoint_, done = std::move(done)](
                      const grpc::Status& status, bool stopped) {
                    diagnoser->Explain(endpoint, status, [done, stopped](grpc::Status explained) {
                      done(std::move(explained), stopped);
                    });
                  });
  }
  void Arm(const ArmCall& call, WorkerEvents events) override {
    worker_->Arm(call, std::move(events));
  }
  std::optional<ClockEstimate> arm_clock() const override { return worker_->arm_clock(); }
  void SyncClock(absl::Duration timeout, ClockDone done) override {
    worker_->SyncClock(timeout, std::move(done));
  }
  void Start(const StartCall& call) override { worker_->Start(call); }
  void Cancel() override { worker_->Cancel(); }
  bool connected() const override { return worker_->connected(); }
  std::shared_ptr<void> connection() const override { return worker_->connection(); }

 private:
  Diagnoser* const diagnoser_;
  const Endpoint endpoint_;
  const std::unique_ptr<WorkerClient> worker_;
};

}  // namespace

Diagnoser::Diagnoser(std::shared_ptr<const ClientCredentials> credentials)
    : credentials_(std::move(credentials)) {}

Diagnoser::~Diagnoser() {
  ThreadGroup threads;  // joined at the end, without the lock
  {
    const absl::MutexLock lock(&mutex_);
    ending_ = true;
    threads.Swap(&threads_);
  }
}

void Diagnoser::Explain(const Endpoint& endpoint, const grpc::Status& status, Done done) {
  const size_t withheld = status.error_message().find(kTokenWithheld);
  if (withheld != std::string::npos) {
    return done(
        grpc::Status(grpc::StatusCode::PERMISSION_DENIED, status.error_message().substr(withheld)));
  }
  if (MayBeCredentials(status)) {
    const absl::MutexLock lock(&mutex_);
    if (!ending_ && waiting_.size() >= idle_ && threads_.size() < kMaxThreads) {
      // Without any thread, the result has no diagnosis.
      (void)threads_.Start([this] { Serve(); });
    }
    if (!ending_ && threads_.size() > 0) {
      waiting_.push_back({endpoint, status, std::move(done)});
      return;
    }
  }
  done(status);
}

void Diagnoser::Serve() {
  while (true) {
    Case next;
    bool ending = false;
    {
      const absl::MutexLock lock(&mutex_);
      ++idle_;
      const auto wanted = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return ending_ || !waiting_.empty();
      };
      mutex_.Await(absl::Condition(&wanted));
      --idle_;
      if (waiting_.empty()) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
      ending = ending_;
    }
    std::string cause;
    if (!ending) cause = DiagnoseConnection(next.endpoint, credentials_.get(), kTimeout);
    next.done(cause.empty() ? next.status : grpc::Status(grpc::StatusCode::UNAUTHENTICATED, cause));
  }
}

WorkerFactory Diagnoser::Wrap(WorkerFactory factory) {
  return [this, factory = std::move(factory)](const Endpoint& endpoint, Protocol protocol) {
    return std::make_unique<DiagnosingWorker>(this, endpoint, factory(endpoint, protocol));
  };
}

}  // namespace jobscope
