// SPDX-License-Identifier: Apache-2.0
//
// Implements FanOut: the loop, the arming of each worker, and what follows the common start.
#ifndef CLIENT_FAN_OUT_FAN_OUT_STATE_H_
#define CLIENT_FAN_OUT_FAN_OUT_STATE_H_

#include <grpcpp/support/status.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "client/fan_out/backoff.h"
#include "client/fan_out/fan_out.h"
#include "client/fan_out/mailbox.h"
#include "client/fan_out/roster.h"
#include "client/fan_out/start_coordinator.h"
#include "client/fan_out/tally.h"
#include "client/run/write_pool.h"

namespace jobscope {

// The state of one capture of many workers: connects, arms and starts them, retries, and collects
// their results. Only the thread in Run uses this state. Callbacks of workers, of the disk and of
// signals post letters to the mailbox, which Run handles one after the other. Run blocks until
// every worker has a result. Interrupt is safe to call from any thread.
class FanOutState : private StartCoordinator::Host {
 public:
  FanOutState(std::vector<Endpoint> endpoints, std::vector<std::string> stems,
              FanOutOptions options, WorkerFactory factory, DeliveryWriter writer,
              Progress* progress);
  ~FanOutState() override { mailbox_->Close(); }
  FanOutState(const FanOutState&) = delete;
  FanOutState& operator=(const FanOutState&) = delete;

  std::vector<WorkerResult> Run();
  void Interrupt() {
    mailbox_->Post([this] { OnInterrupt(); });
  }
  const StartFacts& facts() const { return start_.facts(); }

 private:
  // Returns a function for the callbacks of one attempt: it posts letters that run on the deciding
  // thread, unless the attempt has ended. May outlive this: the mailbox is closed first.
  std::function<void(Mailbox::Letter)> Letters(size_t index) override {
    return [mailbox = mailbox_, this, index,
            attempt = roster_[index].attempt](Mailbox::Letter letter) {
      mailbox->Post([this, index, attempt, letter = std::move(letter)]() mutable {
        if (roster_[index].attempt == attempt) letter();
      });
    };
  }

  // Until the worker is armed.
  void Connect(size_t index);
  void Ask(size_t index, Protocol protocol);
  void OnDescribed(size_t index, const grpc::Status& status, v1::DescribeResponse response);
  // Returns the worker at another address that is the same process. The first one that was
  // described is kept.
  std::optional<size_t> Twin(size_t index, const v1::DescribeResponse& response);
  void FallBack(size_t index);
  void Arm(size_t index);
  void OnArmed(size_t index, const grpc::Status& status, const v1::Armed& armed, uint64_t at_ns);
  void RetryOrFinish(size_t index, WorkerOutcome outcome, absl::Duration at_least);

  // The common start.
  absl::Duration StallTime() const override;
  void OnStartChosen() override;

  // After the start.
  void OnStarted(size_t index, const v1::Started& started);
  void OnProgress(size_t index, v1::Progress progress, uint64_t at_ns);
  void OnNote(size_t index, const std::string& text);
  void OnEnded(size_t index, const grpc::Status& status, std::unique_ptr<Delivery> delivery);
  void OnWritten(size_t index, WorkerOutcome outcome, ManifestWorker account);
  void Finish(size_t index, WorkerOutcome outcome);
  // Finishes the workers that have not begun to record.
  void FinishUnstarted(const WorkerOutcome& outcome) override;
  void OnInterrupt();

  void Wake(absl::Time now);
  absl::Time NextWake(absl::Time now) const;
  std::optional<StepsWanted> WantedSteps(absl::Time now) const;
  void Warn(size_t index, std::string text) override;

  // All absl::Time here are those of SteadyNow (common/clock/monotonic.h).
  const FanOutOptions options_;
  const WorkerFactory factory_;
  const DeliveryWriter writer_;
  Progress* const progress_;
  const std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
  Roster roster_;
  size_t next_queued_ = 0;
  std::map<std::string, size_t> processes_;  // process -> the worker that is recorded
  bool interrupted_ = false;

  absl::Duration usual_answer_;  // from question to answer: a moving mean
  StartCoordinator start_;
  Tally tally_;
  Backoff backoff_;
  WritePool pool_;  // last: its threads are joined first
};

}  // namespace jobscope

#endif  // CLIENT_FAN_OUT_FAN_OUT_STATE_H_
