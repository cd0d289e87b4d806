// SPDX-License-Identifier: Apache-2.0
#include "client/native/native_worker.h"

#include <algorithm>
#include <utility>

namespace jobscope {
namespace {

// Workers send small messages, but those of earlier releases single items of up to 32 MiB.
constexpr int kMaxMessageBytes = 64 << 20;
// An attempt to resume a lost stream must leave time for further attempts.
constexpr absl::Duration kRedialTimeout = absl::Seconds(2);

DialOptions Bounded(DialOptions options) {
  options.max_reply_bytes = std::min(options.max_reply_bytes, kMaxMessageBytes);
  return options;
}

StreamedCaptureOptions CaptureOptions(const Endpoint& endpoint, NativeWorkerOptions options) {
  StreamedCaptureOptions capture;
  DialOptions redial = Bounded(options.dial);
  redial.connect_timeout = std::min(redial.connect_timeout, kRedialTimeout);
  capture.stream.dial = [endpoint, redial] { return Dial(endpoint, redial); };
  DialOptions probe = Bounded(options.dial);
  probe.connect_timeout = options.timeouts.probe;
  capture.stream.dial_probe = [endpoint, probe] { return Dial(endpoint, probe); };
  capture.spool_directory = std::move(options.spool_directory);
  capture.max_trace_bytes = options.max_trace_bytes;
  capture.part_limit_bytes = options.part_limit_bytes;
  capture.stream.resume_timeout = options.resume_timeout;
  capture.stream.timeouts = options.timeouts;
  capture.receive_limits = options.receive_limits;
  return capture;
}

}  // namespace

NativeWorker::NativeWorker(const Endpoint& endpoint, NativeWorkerOptions options,
                           CallThreads* threads, WritePool* disk)
    : threads_(threads),
      channel_(Dial(endpoint, Bounded(options.dial))),
      calls_(channel_, threads),
      capture_(std::make_shared<StreamedCapture>(CaptureOptions(endpoint, std::move(options)),
                                                 threads, disk)) {}

NativeWorker::~NativeWorker() { NativeWorker::Cancel(); }

void NativeWorker::Describe(absl::Duration timeout, DescribeDone done) {
  calls_.Describe(timeout, std::move(done));
}

void NativeWorker::Arm(const ArmCall& call, WorkerEvents events) {
  capture_->Arm(channel_, call, std::move(events));
}

void NativeWorker::SyncClock(absl::Duration timeout, ClockDone done) {
  const std::shared_ptr<ClockBurst> burst =
      ClockBurst::Start(channel_, timeout, threads_, std::move(done));
  const absl::MutexLock lock(&mutex_);
  burst_ = burst;
}

void NativeWorker::Start(const StartCall& call) { capture_->Start(call); }

void NativeWorker::Stop(const std::string& session_id, absl::Duration timeout, StopDone done) {
  // Also if the stream is broken and the request below does not arrive.
  capture_->Finish();
  calls_.Stop(session_id, timeout, std::move(done));
}

void NativeWorker::Cancel() {
  capture_->Cancel();
  std::shared_ptr<ClockBurst> burst;
  {
    const absl::MutexLock lock(&mutex_);
    burst = burst_.lock();
  }
  if (burst != nullptr) burst->Cancel();
  calls_.CancelAll();
}

bool NativeWorker::connected() const {
  return channel_->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY;
}

}  // namespace jobscope
