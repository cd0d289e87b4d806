// SPDX-License-Identifier: Apache-2.0
//
// The inside of FanOut. Three files implement it: fan_out.cc the loop and the way to an armed
// worker, fan_out_start.cc the common start, fan_out_record.cc what comes after it.
#ifndef CLIENT_FAN_OUT_FAN_OUT_STATE_H_
#define CLIENT_FAN_OUT_FAN_OUT_STATE_H_

#include <grpcpp/support/status.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "client/fan_out/fan_out.h"
#include "client/fan_out/mailbox.h"
#include "client/run/write_pool.h"

namespace jobscope {

class FanOutState {
 public:
  FanOutState(std::vector<Endpoint> endpoints, std::vector<std::string> stems,
              FanOutOptions options, WorkerFactory factory, DeliveryWriter writer,
              Progress* progress);
  ~FanOutState() { mailbox_->Close(); }
  FanOutState(const FanOutState&) = delete;
  FanOutState& operator=(const FanOutState&) = delete;

  std::vector<WorkerResult> Run();
  void Interrupt() {
    mailbox_->Post([this] { OnInterrupt(); });
  }
  const StartFacts& facts() const { return facts_; }

 private:
  enum class Stage {
    kGathering,  // workers become armed
    kHolding,    // enough are; the wanted instant or step is not near
    kSyncing,    // their clocks are being measured
    kStarted,    // the instant is chosen: whoever comes now is late
  };

  // For callbacks of one attempt: posts letters that run on the deciding thread, unless the attempt
  // is over by then. May outlive this: the mailbox is closed before.
  auto Letters(size_t index) {
    return [mailbox = mailbox_, this, index, attempt = roster_[index].attempt](auto letter) {
      mailbox->Post([this, index, attempt, letter = std::move(letter)]() mutable {
        if (roster_[index].attempt == attempt) letter();
      });
    };
  }

  // The way to an armed worker.
  void Connect(size_t index);
  void Ask(size_t index, Protocol protocol);
  void OnDescribed(size_t index, const grpc::Status& status, v1::DescribeResponse response);
  // Of another address that has told to be the same process. The first one that does keeps it.
  std::optional<size_t> Twin(size_t index, const v1::DescribeResponse& response);
  void FallBack(size_t index);
  void Arm(size_t index);
  void OnArmed(size_t index, const grpc::Status& status, const v1::Armed& armed, uint64_t at_ns);
  void RetryOrFinish(size_t index, Verdict verdict, absl::Duration at_least);
  absl::Duration Backoff(int attempt);

  // The common start.
  void Advance(absl::Time now);
  void Gather(absl::Time now);
  void Hold(absl::Time now);
  void Measure(absl::Time now);
  bool NeedsPings(const Slot& slot);
  void RequestSync(size_t index);
  void BeginSync(size_t index);
  void OnSynced(size_t index, const grpc::Status& status, std::optional<ClockEstimate> clock);
  absl::Duration ArmRoundTrip(const std::vector<size_t>& members) const;
  void ChooseStart(absl::Time now);
  void CombineMeasuredClocks();
  void CombineLateClock(Slot* slot);
  void StartLate(size_t index, absl::Time now);
  void Begin(size_t index, StartCall call);
  void AddSteps(size_t index, StartCall* call);
  absl::Time GatherDeadline() const;
  absl::Time SyncDeadline() const;
  absl::Duration StallTime() const;
  std::vector<ArmedWorker> ArmedWorkers() const;  // those that wait for the start

  // After the start.
  void OnStarted(size_t index, const v1::Started& started);
  void OnProgress(size_t index, v1::Progress progress, uint64_t at_ns);
  void OnNote(size_t index, const std::string& text);
  void OnEnded(size_t index, const grpc::Status& status, std::unique_ptr<Delivery> delivery);
  void OnWritten(size_t index, Verdict verdict, ManifestWorker account);
  void Finish(size_t index, Verdict verdict);
  // Whoever has not begun to record.
  void FinishUnstarted(const Verdict& verdict);
  void OnInterrupt();
  void FillFacts();

  void Wake(absl::Time now);
  absl::Time NextWake(absl::Time now) const;
  ProgressCounts Count(absl::Time now);
  void Warn(size_t index, std::string text);

  // All absl::Time in here, but for facts_.started, are those of SteadyNow
  // (client/clock/monotonic.h).
  const FanOutOptions options_;
  const WorkerFactory factory_;
  const DeliveryWriter writer_;
  Progress* const progress_;
  const std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
  Roster roster_;
  size_t next_queued_ = 0;
  size_t delivered_ = 0;
  size_t duplicates_ = 0;
  std::map<std::string, size_t> processes_;  // who is recorded under which address
  bool interrupted_ = false;

  Stage stage_ = Stage::kGathering;
  absl::Time last_asked_;  // of those that were queued
  absl::Time last_ready_;
  absl::Duration slowest_ready_;
  absl::Duration usual_answer_;         // from the question to the answer: a moving mean
  std::optional<absl::Time> gathered_;  // when all that were waited for were armed
  bool delay_over_ = false;             // ...up to what measuring the clocks takes
  bool told_hold_ = false;
  absl::Time hold_until_;  // when to look again
  std::deque<size_t> to_sync_;
  std::map<std::string, int> pinged_;              // workers, by clock id
  std::map<std::string, ClockEstimate> combined_;  // by clock id: the narrowest, from kStarted on
  absl::Time sync_began_;
  absl::Time last_pinged_;
  absl::Time last_synced_;
  absl::Duration slowest_sync_;
  StartCall plan_;  // from kStarted on: what all have in common
  StartFacts facts_;

  uint64_t events_ = 0;  // sums of the newest Progress of each worker
  uint64_t lost_ = 0;
  uint64_t bytes_ = 0;

  std::minstd_rand random_{std::random_device{}()};
  WritePool pool_;  // last: its threads are joined first
};

}  // namespace jobscope

#endif  // CLIENT_FAN_OUT_FAN_OUT_STATE_H_
