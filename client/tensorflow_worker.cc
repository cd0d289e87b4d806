// SPDX-License-Identifier: Apache-2.0
#include "client/tensorflow_worker.h"

#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "client/outcome.h"
#include "client/reply_file.h"
#include "client/timer.h"
#include "tensorflow/profiler_service.pb.h"

namespace jobscope {
namespace {

constexpr char kProfile[] = "/tensorflow.ProfilerService/Profile";

// An answer that came in one piece.
class ReplyDelivery : public Delivery {
 public:
  ReplyDelivery(const ReplyContext& context, grpc::ByteBuffer* reply) : context_(context) {
    reply_.Swap(reply);
  }
  Verdict Write(const RunDirectory& directory, const std::string& stem,
                ManifestWorker* account) override {
    return WriteReply(directory, stem, context_, &reply_, account);
  }

 private:
  const ReplyContext context_;
  grpc::ByteBuffer reply_;
};

bool IsSilence(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
         status.error_code() == grpc::StatusCode::UNAVAILABLE;
}

}  // namespace

// One Profile call and the probes beside it. Callbacks of both hold it.
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
    const absl::Time now = absl::Now();
    const absl::Time start =
        call.at_once ? now : std::max(now, absl::FromUnixNanos(call.start_unix_ns));
    {
      const absl::MutexLock lock(&mutex_);
      if (ended_) return;
      started_ = true;
      end_ = start + call.duration;
      // Signs of life matter only once the answer is overdue, but the first may take `silence` to
      // be missed.
      ProbeAt(std::max(now, end_ - times_.period));
    }
    calls_->Start(kProfile, ProfileRequestBytes(arm_, call), start + call.duration + call.transfer,
                  [self = shared_from_this()](const grpc::Status& status, grpc::ByteBuffer* reply) {
                    self->OnReply(status, reply);
                  });
  }

  // The recording is being ended by us: from now on it is overdue.
  void OnStop() {
    const absl::MutexLock lock(&mutex_);
    stopped_ = true;
    if (!started_ || ended_) return;
    const absl::Time now = absl::Now();
    if (now >= end_) return;
    end_ = now;
    if (timer_ != nullptr) ProbeAt(now + times_.period);
  }

  // Whatever comes now is of no use.
  void Cancel() {
    bool never_started = false;
    {
      const absl::MutexLock lock(&mutex_);
      never_started = !started_;
      StopTimer();
    }
    if (never_started) End(grpc::Status(grpc::StatusCode::CANCELLED, "given up"), nullptr);
  }

 private:
  void OnReply(const grpc::Status& status, grpc::ByteBuffer* reply) {
    ReplyContext context;
    std::string waits_behind;
    {
      const absl::MutexLock lock(&mutex_);
      context = {*ours_, stopped_};
      waits_behind = waits_behind_;
    }
    if (status.ok()) {
      End(status, std::make_unique<ReplyDelivery>(context, reply));
      return;
    }
    if (status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED) {
      End(status, nullptr);
    } else if (!waits_behind.empty()) {
      End(grpc::Status(grpc::StatusCode::ALREADY_EXISTS, waits_behind), nullptr);
    } else {
      const bool connected = channel_->GetState(false) == GRPC_CHANNEL_READY;
      End(grpc::Status(status.error_code(),
                       connected
                           ? "alive, but the trace did not come in time; record for a shorter "
                             "time, or raise --transfer_timeout_ms"
                           : "no answer"),
          nullptr);
    }
  }

  void Probe() {
    {
      const absl::MutexLock lock(&mutex_);
      if (ended_) return;
      timer_.reset();
    }
    calls_->Describe(absl::Now() + times_.silence,
                     [self = shared_from_this()](const grpc::Status& status,
                                                 const v1::DescribeResponse& response) {
                       self->OnProbed(status, response);
                     });
  }

  void OnProbed(const grpc::Status& status, const v1::DescribeResponse& response) {
    const absl::Time now = absl::Now();
    bool gone = false;
    {
      const absl::MutexLock lock(&mutex_);
      if (ended_) return;
      gone = IsSilence(status) && now >= end_;
      if (!gone) {
        if (status.ok()) *ours_ = true;
        waits_behind_.clear();
        if (status.ok() && response.has_busy() && response.busy().session_id() != arm_.session_id) {
          waits_behind_ = HeldBy(response.busy());
        }
        ProbeAt(IsSilence(status) ? now : now + times_.period);
      }
    }
    if (!gone) return;
    End(grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED,
                     absl::StrCat("no sign of life for ", absl::FormatDuration(times_.silence),
                                  "; is the process stopped, or the network cut?")),
        nullptr);
    calls_->CancelAll();
  }

  void ProbeAt(absl::Time when) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    StopTimer();
    // Not a shared pointer: a recording that nobody wants any more is not kept for its probe.
    timer_ = Timer::Start(threads_, when, [weak = weak_from_this()] {
      if (const std::shared_ptr<Recording> self = weak.lock()) self->Probe();
    });
  }

  void StopTimer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (timer_ != nullptr) timer_->Cancel();
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
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time end_ ABSL_GUARDED_BY(mutex_);
  std::string waits_behind_ ABSL_GUARDED_BY(mutex_);      // whose session the worker is busy with
  std::shared_ptr<Timer> timer_ ABSL_GUARDED_BY(mutex_);  // of the next probe
};

TensorflowWorker::TensorflowWorker(std::shared_ptr<grpc::Channel> channel, CallThreads* threads,
                                   ProbeTimes times)
    : channel_(std::move(channel)),
      calls_(std::make_shared<UnaryCalls>(channel_, threads)),
      ours_(std::make_shared<std::atomic<bool>>(false)),
      threads_(threads),
      times_(times) {}

TensorflowWorker::~TensorflowWorker() { TensorflowWorker::Cancel(); }

void TensorflowWorker::Describe(absl::Time deadline, DescribeDone done) {
  calls_->Describe(deadline, [ours = ours_, done = std::move(done)](const grpc::Status& status,
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

void TensorflowWorker::SyncClock(absl::Time, ClockDone done) {
  done(grpc::Status::OK, std::nullopt);
}

void TensorflowWorker::Start(const StartCall& call) { recording_->Start(call); }

void TensorflowWorker::Stop(const std::string& session_id, absl::Time deadline, StopDone done) {
  if (recording_ != nullptr) recording_->OnStop();
  calls_->Stop(session_id, deadline,
               [calls = calls_, session_id, deadline, done = std::move(done)](
                   const grpc::Status& status, bool stopped) {
                 if (status.error_code() != grpc::StatusCode::UNIMPLEMENTED) {
                   done(status, stopped);
                   return;
                 }
                 calls->Terminate(session_id, deadline, done);
               });
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
  options.set_host_tracer_level(arm.host_tracer_level);
  options.set_device_tracer_level(arm.device_tracer_level);
  options.set_python_tracer_level(arm.python_tracer_level);
  // Only where it was asked for: what a stock worker does not know, it may refuse.
  if (arm.frameworks != "auto") {
    (*options.mutable_advanced_configuration())["jobscope_frameworks"].set_string_value(
        arm.frameworks);
  }
  if (arm.record_shapes) {
    (*options.mutable_advanced_configuration())["jobscope_record_shapes"].set_bool_value(true);
  }
  options.set_duration_ms(duration_ms);
  if (!start.at_once) {
    options.set_start_timestamp_ns(static_cast<uint64_t>(start.start_unix_ns));
  }
  return request.SerializeAsString();
}

}  // namespace jobscope
