// SPDX-License-Identifier: Apache-2.0
//
// Runs one capture of one native worker, from `arm` to the last acknowledgement, over as many
// connections as necessary.
#ifndef CLIENT_NATIVE_STREAMED_CAPTURE_H_
#define CLIENT_NATIVE_STREAMED_CAPTURE_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/clock/clock_sync.h"
#include "client/native/acknowledger.h"
#include "client/native/capture_reports.h"
#include "client/native/resumable_stream.h"
#include "client/native/spool/item_receiver.h"
#include "client/native/spool/item_spooler.h"
#include "client/native/spool/spool_delivery.h"
#include "client/native/transfer_deadline.h"
#include "client/rpc/call_threads.h"
#include "client/rpc/strand.h"
#include "client/rpc/strand_timer.h"
#include "client/run/write_pool.h"
#include "client/worker/worker_client.h"
#include "jobscope/v1/profiler.pb.h"

namespace jobscope {

struct StreamedCaptureOptions {
  ResumableStreamOptions stream;
  std::string spool_directory;
  uint64_t max_trace_bytes = 0;  // 0: no limit
  uint64_t part_limit_bytes = uint64_t{256} << 20;
  ReceiveLimits receive_limits;
};

// Drives the stream, the spool and the acknowledgements. Thread-safe. All functions return at once,
// and take effect in the order of the calls. Everything runs on one strand, except spooling, which
// blocks.
class StreamedCapture : public std::enable_shared_from_this<StreamedCapture>,
                        private ResumableStream::Owner {
 public:
  // `threads` and `disk` must outlive this. CallThreads waits until the capture is over, so destroy
  // the pool after the threads.
  StreamedCapture(StreamedCaptureOptions options, CallThreads* threads, WritePool* disk);

  void Arm(std::shared_ptr<grpc::Channel> channel, const ArmCall& call, WorkerEvents events);
  // Valid once `armed` was called.
  const std::optional<ClockEstimate>& arm_clock() const { return arm_clock_; }
  void Start(const StartCall& call);
  // Ends the recording now, and delivers it. Counts as the planned end, so that a lost connection
  // is not retried until the original one.
  void Finish();
  // Tells the worker to drop the capture; `armed` or `ended` is called with CANCELLED.
  void Cancel();

 private:
  enum class State { kNew, kArming, kArmed, kRecording, kOver };

  // ---- the rest runs on the strand ----
  void DoArm(const std::shared_ptr<grpc::Channel>& channel, const ArmCall& call,
             WorkerEvents events);
  void DoStart(const StartCall& call);
  void DoFinish();
  void DoCancel();

  // ResumableStream::Owner:
  void OnMessage(const std::shared_ptr<grpc::ByteBuffer>& message) override;
  void OnLost(const grpc::Status& status) override;
  std::vector<std::string> ResumeMessages() override;
  void OnUnreachable(const grpc::Status& status) override { EndIncomplete(status); }
  void OnNote(const std::string& text) override { reports_.Note(text); }

  void On(std::monostate) {}
  void On(v1::Armed armed);
  void On(v1::Started started);
  void On(v1::Progress progress);
  void On(const v1::Ended& ended);
  void TakeItems(const std::shared_ptr<grpc::ByteBuffer>& message);
  void OnTaken(uint64_t generation, const absl::Status& status, bool advanced);

  // The worker sent an invalid message.
  void OnFault(const absl::Status& fault);
  // Ends the capture if the lost stream need not be resumed: before recording, or if nothing is
  // missing. Returns whether it did.
  bool EndWith(const grpc::Status& status);
  void EndArming(const grpc::Status& status);
  void OnTransferTimeout();
  // Ends with the items received so far; waits for the disk.
  void EndIncomplete(const grpc::Status& status);
  void End(const grpc::Status& status, bool with_delivery);
  std::unique_ptr<Delivery> MakeDelivery(const grpc::Status& status);
  void Close(bool abandon);

  const CallThreads::Lease lease_;
  const StreamedCaptureOptions options_;
  CallThreads* const threads_;
  WritePool* const disk_;
  Strand strand_;

  State state_ = State::kNew;
  uint64_t arm_sent_ns_ = 0;
  std::optional<ClockEstimate> arm_clock_;  // constant after `armed` was called
  CaptureReports reports_;
  std::string capture_key_;
  bool finish_wanted_ = false;  // the recording must end early
  uint64_t planned_end_ns_ = 0;
  std::optional<grpc::Status> end_wanted_;  // once the disk is done
  int faults_ = 0;                          // of the worker, since the last items
  SpooledCapture capture_;                  // filled as it becomes known; MakeDelivery moves it

  // Set by DoArm:
  std::optional<ResumableStream> stream_;
  std::optional<StrandTimer> arm_timer_;
  // Set by DoStart:
  std::optional<ItemSpooler> items_;
  std::optional<Acknowledger> acknowledger_;
  std::optional<TransferDeadline> transfer_deadline_;
};

}  // namespace jobscope

#endif  // CLIENT_NATIVE_STREAMED_CAPTURE_H_
