// SPDX-License-Identifier: Apache-2.0
#include "client/tensorflow/tensorflow_worker.h"

#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "client/rpc/timers.h"
#include "client/tensorflow/reply_file.h"
#include "client/worker/worker_outcome.h"
#include "common/clock/monotonic.h"
#include "common/options/recording_options.h"
#include "tensorflow/profiler_service.pb.h"

namespace jobscope {
namespace {

constexpr char kProfile[] = "/tensorflow.ProfilerService/Profile";

// An answer in a single message.
class ReplyDelivery : public Delivery {
 public:
  ReplyDelivery(const ReplyContext& context, grpc::ByteBuffer* reply) : context_(context) {
    reply_.Swap(reply);
  }
  WorkerOutcome Write(const RunDirectory& directory, const std::string& stem,
                      ManifestWorker* account) override {
    return WriteReply(directory, stem, context_, &reply_, account);
  }

 private:
  const ReplyContext context_;
  grpc::ByteBuffer reply_;
};

bool GotNoAnswer(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
         status.error_code() == grpc::StatusCode::UNAVAILABLE;
}

}  // namespace

// One Profile call and the probes beside it. Callbacks of both own it.
class TensorflowWorker::Recording : public std::enable_shared_from_this<Recording> {
 public:
  Recording(ArmCall arm, WorkerEvents events, std::shared_ptr<grpc::Channel> channel,
            std::shared_ptr<UnaryCalls> calls, std::shared_ptr<std::atomic<bool>> ours,
            CallThreads* threads, ProbeTimes times)
      : arm_(std::move(arm)),
        events_(std::move(events)),
        channel_(std::move(channel)),
        calls_(std::move(calls)),
        ours_(std::move(ours)),
        threads_(threads),
        times_(times) {}

  void Armed() const { events_.armed(grpc::Status::OK, {}); }

  void Start(const StartCall& call) {
    const absl::Duration wait =
        std::max(SteadyTime(call.start_monotonic_ns) - SteadyNow(), absl::ZeroDuration());
    const absl::MutexLock lock(&mutex_);
    if (ended_) return;
    end_ = SteadyNow() + wait + call.duration;
    transfer_ = call.transfer;
    SetTimer(wait, [call](Recording* self) { self->Send(call); });
  }

  const std::string& session_id() const { return arm_.session_id; }

  // We end the recording: from now on it is overdue.
  void Stop(absl::Duration timeout, StopDone done) {
    bool sent = false;
    {
      const absl::MutexLock lock(&mutex_);
      stopped_ = true;
      terminating_ = sent = sent_;
      const absl::Time now = SteadyNow();
      if (sent && !ended_ && now < end_) {
        end_ = now;
        if (timer_.has_value()) ProbeIn(times_.period);
      }
    }
    if (sent) {
      Terminate(timeout, std::move(done));
      return;
    }
    // A stock worker would remember the name, and end the next session of that name.
    End(grpc::Status(grpc::StatusCode::CANCELLED, "stopped before it began"), nullptr);
    done(grpc::Status::OK, false);
  }

  // Ignores all further results.
  void Cancel() {
    bool sent = false;
    {
      const absl::MutexLock lock(&mutex_);
      sent = sent_;
      StopTimer();
    }
    if (!sent) End(grpc::Status(grpc::StatusCode::CANCELLED, "interrupted"), nullptr);
  }

 private:
  void Send(const StartCall& call) {
    {
      const absl::MutexLock lock(&mutex_);
      if (ended_) return;
      sent_ = true;
      end_ = SteadyNow() + call.duration;
      // Signs of life are needed only once the answer is overdue, but detecting that the first is
      // missing may take `silence`.
      ProbeIn(std::max(call.duration - times_.period, absl::ZeroDuration()));
    }
    calls_->Start(kProfile, ProfileRequestBytes(arm_, call), call.duration + call.transfer,
                  [self = shared_from_this()](const grpc::Status& status, grpc::ByteBuffer* reply) {
                    self->OnReply(status, reply);
                  });
  }

  // Both kinds of worker know this call. OnProbed repeats it if it is not answered.
  void Terminate(absl::Duration timeout, StopDone done) {
    calls_->Terminate(arm_.session_id, timeout,
                      [self = shared_from_this(), done = std::move(done)](
                          const grpc::Status& status, bool stopped) {
                        {
                          const absl::MutexLock lock(&self->mutex_);
                          self->terminating_ = status.ok();
                        }
                        done(status, stopped);
                      });
  }

  void OnReply(const grpc::Status& status, grpc::ByteBuffer* reply) {
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      EndLate();
    } else if (!status.ok()) {
      End(status, nullptr);
    } else {
      ReplyContext context;
      {
        const absl::MutexLock lock(&mutex_);
        context = {*ours_, stopped_};
      }
      End(status, std::make_unique<ReplyDelivery>(context, reply));
    }
  }

  // The answer did not come in time.
  void EndLate() {
    std::string waits_behind;
    {
      const absl::MutexLock lock(&mutex_);
      waits_behind = waits_behind_;
    }
    if (!waits_behind.empty()) {
      End(grpc::Status(grpc::StatusCode::ALREADY_EXISTS, waits_behind), nullptr);
      return;
    }
    const bool connected = channel_->GetState(false) == GRPC_CHANNEL_READY;
    End(grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED,
                     connected ? "alive, but the trace did not arrive in time; record for a "
                                 "shorter time, or raise --transfer_timeout_ms"
                               : "no answer"),
        nullptr);
  }

  void Probe() {
    calls_->Describe(times_.silence,
                     [self = shared_from_this(), late_ns = threads_->timers()->last_late_ns()](
                         const grpc::Status& status, const v1::DescribeResponse& response) {
                       self->OnProbed(late_ns, status, response);
                     });
  }

  // `late_ns`: Timers::last_late_ns when the probe began.
  void OnProbed(uint64_t late_ns, const grpc::Status& status,
                const v1::DescribeResponse& response) {
    bool gone = false;
    bool late = false;
    bool terminate = false;
    {
      const absl::MutexLock lock(&mutex_);
      if (ended_) return;
      // The time limit of the call itself counts from the planned end.
      late = stopped_ && SteadyNow() >= end_ + transfer_;
      // While this client does not keep up, silence shows nothing.
      gone = GotNoAnswer(status) && SteadyNow() >= end_ &&
             threads_->timers()->last_late_ns() == late_ns;
      if (!gone) {
        if (status.ok()) *ours_ = true;
        waits_behind_.clear();
        if (status.ok() && response.has_busy() && response.busy().session_id() != arm_.session_id) {
          waits_behind_ = HeldBy(response.busy());
        }
        ProbeIn(GotNoAnswer(status) ? absl::ZeroDuration() : times_.period);
      }
      // Not again once it is answered: a stock worker remembers the name (see Stop).
      terminate = stopped_ && !late && !GotNoAnswer(status) && !std::exchange(terminating_, true);
    }
    if (terminate) Terminate(times_.silence, [](const grpc::Status&, bool) {});
    if (late) {
      EndLate();
    } else if (gone) {
      End(grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED,
                       absl::StrCat("no sign of life for ", absl::FormatDuration(times_.silence),
                                    "; is the process stopped, or the network cut?")),
          nullptr);
    } else {
      return;
    }
    calls_->CancelAll();
  }

  void ProbeIn(absl::Duration delay) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    SetTimer(delay, [](Recording* self) { self->Probe(); });
  }

  // Sets the next action, replacing the previous one.
  void SetTimer(absl::Duration delay, std::function<void(Recording*)> then)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    StopTimer();
    // Weak, so that the timer does not keep an abandoned recording alive.
    timer_ = threads_->timers()->Start(delay, [weak = weak_from_this(), then = std::move(then)] {
      const std::shared_ptr<Recording> self = weak.lock();
      if (self == nullptr) return;
      {
        const absl::MutexLock lock(&self->mutex_);
        if (self->ended_) return;
        self->timer_.reset();
      }
      then(self.get());
    });
  }

  void StopTimer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (timer_.has_value()) threads_->timers()->Cancel(*timer_);
    timer_.reset();
  }

  void End(const grpc::Status& status, std::unique_ptr<Delivery> delivery) {
    {
      const absl::MutexLock lock(&mutex_);
      if (std::exchange(ended_, true)) return;
      StopTimer();
    }
    events_.ended(status, std::move(delivery));
  }

  const ArmCall arm_;
  const WorkerEvents events_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::shared_ptr<UnaryCalls> calls_;
  const std::shared_ptr<std::atomic<bool>> ours_;
  CallThreads* const threads_;
  const ProbeTimes times_;
  absl::Mutex mutex_;
  bool sent_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool terminating_ ABSL_GUARDED_BY(mutex_) = false;  // Terminate is in flight, or answered
  absl::Time end_ ABSL_GUARDED_BY(mutex_);            // planned
  absl::Duration transfer_ ABSL_GUARDED_BY(mutex_);   // from then until the last byte
  std::string waits_behind_ ABSL_GUARDED_BY(mutex_);  // whose session the worker is busy with
  std::optional<Timers::Id> timer_ ABSL_GUARDED_BY(mutex_);  // of the request, or of the next probe
};

TensorflowWorker::TensorflowWorker(std::shared_ptr<grpc::Channel> channel, CallThreads* threads,
                                   ProbeTimes times)
    : channel_(std::move(channel)),
      calls_(std::make_shared<UnaryCalls>(channel_, threads)),
      ours_(std::make_shared<std::atomic<bool>>(false)),
      threads_(threads),
      times_(times) {}

TensorflowWorker::~TensorflowWorker() { TensorflowWorker::Cancel(); }

void TensorflowWorker::Describe(absl::Duration timeout, DescribeDone done) {
  calls_->Describe(timeout, [ours = ours_, done = std::move(done)](const grpc::Status& status,
                                                                   v1::DescribeResponse response) {
    if (status.ok()) *ours = true;
    done(status, std::move(response));
  });
}

void TensorflowWorker::Arm(const ArmCall& call, WorkerEvents events) {
  recording_ = std::make_shared<Recording>(call, std::move(events), channel_, calls_, ours_,
                                           threads_, times_);
  recording_->Armed();
}

void TensorflowWorker::SyncClock(absl::Duration, ClockDone done) {
  done(grpc::Status::OK, std::nullopt);
}

void TensorflowWorker::Start(const StartCall& call) { recording_->Start(call); }

void TensorflowWorker::Stop(const std::string& session_id, absl::Duration timeout, StopDone done) {
  if (recording_ != nullptr && recording_->session_id() == session_id) {
    recording_->Stop(timeout, std::move(done));
  } else {
    calls_->Terminate(session_id, timeout, std::move(done));
  }
}

void TensorflowWorker::Cancel() {
  if (recording_ != nullptr) recording_->Cancel();
  calls_->CancelAll();
}

bool TensorflowWorker::connected() const {
  return channel_->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY;
}

std::string ProfileRequestBytes(const ArmCall& arm, const StartCall& start) {
  const auto duration_ms = static_cast<uint64_t>(absl::ToInt64Milliseconds(start.duration));
  tensorflow::ProfileRequest request;
  request.set_duration_ms(duration_ms);
  request.add_tools("xplane.pb");
  request.set_repository_root(arm.repository_root);
  request.set_session_id(arm.session_id);
  request.set_host_name(arm.file_stem);
  request.set_emit_xspace(true);
  tensorflow::ProfileOptions& options = *request.mutable_opts();
  options.set_version(1);
  options.set_include_dataset_ops(true);
  options.set_enable_hlo_proto(true);
  ToProto(arm.recording, &options);
  options.set_duration_ms(duration_ms);
  return request.SerializeAsString();
}

}  // namespace jobscope
