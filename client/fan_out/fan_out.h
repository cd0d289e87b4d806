// SPDX-License-Identifier: Apache-2.0
//
// Runs one capture of many workers: connects, arms, starts all at one instant, watches, gathers. A
// worker's failure does not affect the others.
#ifndef CLIENT_FAN_OUT_FAN_OUT_H_
#define CLIENT_FAN_OUT_FAN_OUT_H_

#include <grpcpp/support/status.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/fan_out/admission.h"
#include "client/fan_out/backoff.h"
#include "client/fan_out/common_start.h"
#include "client/fan_out/fan_out_options.h"
#include "client/fan_out/mailbox.h"
#include "client/fan_out/roster.h"
#include "client/fan_out/start_coordinator.h"
#include "client/fan_out/step_plan.h"
#include "client/fan_out/tally.h"
#include "client/run/write_pool.h"
#include "client/terminal/progress.h"
#include "client/worker/worker_client.h"
#include "client/worker/worker_outcome.h"
#include "common/net/endpoint.h"
#include "common/run/manifest.h"

namespace jobscope {

// Writes a delivery to disk; runs in a write thread.
using DeliveryWriter =
    std::function<WorkerOutcome(size_t index, Delivery* delivery, ManifestWorker* account)>;

// Makes all decisions of a capture on the thread that calls Run, which alone uses the state.
// Callbacks of workers, write threads and signals post letters to the mailbox, which Run handles
// one after the other. Needs no thread per worker.
class FanOut : private StartCoordinator::Host {
 public:
  // `stems[i]` names the files of endpoints[i]. `progress` must outlive this.
  FanOut(std::vector<Endpoint> endpoints, std::vector<std::string> stems, FanOutOptions options,
         WorkerFactory factory, DeliveryWriter writer, Progress* progress);
  ~FanOut() override { mailbox_->Close(); }
  FanOut(const FanOut&) = delete;
  FanOut& operator=(const FanOut&) = delete;

  // Blocks until each worker has its outcome: at most connect and arm time and back-offs (for each
  // address of a process in turn, if they fail), then delay, duration and transfer time. Call it
  // once.
  std::vector<WorkerResult> Run();

  // Ends the capture early and keeps what was recorded. Thread-safe. May be called at any time,
  // also before Run; returns at once.
  void Interrupt() {
    mailbox_->Post([this] { OnInterrupt(); });
  }

  // After Run. Empty if no recording was requested.
  const StartFacts& facts() const { return start_.facts(); }

 private:
  // Returns a function for the callbacks of one attempt: it posts letters that run on the deciding
  // thread, unless the attempt has ended. May outlive this: the mailbox is closed first.
  std::function<void(Mailbox::Letter)> Letters(size_t index) override;

  // Until the worker is armed.
  void Connect(size_t index);
  void Ask(size_t index, Protocol protocol);
  void OnDescribed(size_t index, const grpc::Status& status, const v1::DescribeResponse& response);
  void Arm(size_t index);
  void OnArmed(size_t index, const grpc::Status& status, const v1::Armed& armed, uint64_t at_ns);
  // Returns whether the worker has attempts left.
  bool MayRetry(const Slot& slot) const;
  void RetryOrFinish(size_t index, WorkerOutcome outcome, absl::Duration at_least);
  // Once no worker records any more: ends the back-offs after refused connections, one time.
  void EndBackOffs(absl::Time now);
  // Contacts other addresses of the process that the worker is, or was: `why` completes the text
  // after the worker's address.
  void ContactAgain(const std::vector<size_t>& duplicates, size_t index, const char* why);

  // The common start.
  absl::Duration StallTime() const override;
  void OnStartChosen() override;

  // After the start.
  void OnStarted(size_t index, const v1::Started& started);
  void OnProgress(size_t index, v1::Progress progress, uint64_t at_ns);
  void OnNote(size_t index, const std::string& text);
  void OnEnded(size_t index, const grpc::Status& status, std::unique_ptr<Delivery> delivery);
  void OnEndedWithoutTrace(size_t index, const grpc::Status& status);
  void OnWritten(size_t index, WorkerOutcome outcome, ManifestWorker account);
  void Finish(size_t index, WorkerOutcome outcome);
  // Finishes the workers that have not begun to record.
  void FinishUnstarted(const WorkerOutcome& outcome) override;
  void OnInterrupt();

  void Wake(absl::Time now);
  absl::Time NextWake(absl::Time now) const;
  std::optional<StepsWanted> WantedSteps(absl::Time now) const;

  // All absl::Time here are those of SteadyNow (common/clock/monotonic.h).
  const FanOutOptions options_;
  const WorkerFactory factory_;
  const DeliveryWriter writer_;
  Progress* const progress_;
  const std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
  Roster roster_;
  bool interrupted_ = false;
  bool back_offs_ended_ = false;

  absl::Duration usual_answer_;  // from question to answer: a moving mean
  Admission admission_;
  StartCoordinator start_;
  Tally tally_;
  Backoff backoff_;
  // Of workers that have delivered. Closing one costs both sides as much as making it: with a
  // thousand workers on one machine, the last traces would wait for that.
  std::vector<std::shared_ptr<void>> connections_;
  WritePool pool_;  // last: its threads are joined first
};

}  // namespace jobscope

#endif  // CLIENT_FAN_OUT_FAN_OUT_H_
