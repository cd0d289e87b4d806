// SPDX-License-Identifier: Apache-2.0
//
// One capture of one native worker, from `arm` to the last acknowledgement, over as many streams as
// that takes.
#ifndef CLIENT_NATIVE_STREAMED_CAPTURE_H_
#define CLIENT_NATIVE_STREAMED_CAPTURE_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/clock/clock_sync.h"
#include "client/native/item_receiver.h"
#include "client/native/native_stream.h"
#include "client/native/spool_delivery.h"
#include "client/rpc/call_threads.h"
#include "client/rpc/strand.h"
#include "client/rpc/timer.h"
#include "client/rpc/unary_calls.h"
#include "client/run/write_pool.h"
#include "client/wire/native_messages.h"
#include "client/worker/worker_client.h"

namespace jobscope {

// How long a stream may stand still.
struct StreamTimeouts {
  // Workers send progress twice a second or more. A stream on which nothing came for so long may
  // be a slow link (a message shows only once it is whole) or a dead one: the worker is asked
  // Describe, over a connection of its own, which does not queue behind the stream.
  absl::Duration silence = absl::Seconds(7);
  // A worker that does not answer this within this time is taken for lost.
  absl::Duration probe = absl::Seconds(5);
  // A stream that has been silent for this long is taken up again over a new connection, although
  // the worker answers: the old connection may be dead, behind a firewall that has forgotten it.
  // Doubles each time, so that the slowest link brings its message in the end.
  absl::Duration stall = absl::Seconds(60);
  // While the disk is slow, the last acknowledgement is repeated so often: workers drop a capture
  // whose client neither takes nor says anything for 60 s.
  absl::Duration repeat_ack = absl::Seconds(5);
};

struct StreamedCaptureOptions {
  // A connection of its own, for a stream that is taken up again: the old channel may still wait
  // out gRPC's back-off.
  std::function<std::shared_ptr<grpc::Channel>()> dial;
  // Likewise, for one question: StreamTimeouts.silence.
  std::function<std::shared_ptr<grpc::Channel>()> dial_probe;
  std::string spool_directory;
  uint64_t max_trace_bytes = 0;  // 0: no limit
  uint64_t part_limit_bytes = uint64_t{256} << 20;
  // A lost stream is taken up again until this long after it was lost, or after the planned end.
  absl::Duration resume_timeout = absl::Seconds(5);
  StreamTimeouts timeouts;
  ReceiveLimits receive_limits;
};

// All functions return at once, may be called from any thread, and take effect in the order in
// which they are called. Everything happens on one strand; only spooling, which blocks for the
// disk, is done on `disk`, one message at a time: the next is read when the last is spooled, so
// memory holds one message, and a slow disk holds the worker back through gRPC's flow control.
class StreamedCapture : public std::enable_shared_from_this<StreamedCapture> {
 public:
  // `threads` and `disk` must outlive this; CallThreads waits until it is over, so the pool is to
  // be destroyed after the threads.
  StreamedCapture(StreamedCaptureOptions options, CallThreads* threads, WritePool* disk);
  ~StreamedCapture();

  void Arm(std::shared_ptr<grpc::Channel> channel, const ArmCall& call, WorkerEvents events);
  // May be asked once `armed` was told.
  const std::optional<ClockEstimate>& arm_clock() const { return arm_clock_; }
  void Start(const StartCall& call);
  // The recording is to end now, and be delivered. It counts as over by plan, so that a connection
  // that is lost is not tried for as long as it was to last.
  void Finish();
  // The worker is told to drop it; `armed` or `ended` comes with CANCELLED.
  void Cancel();

 private:
  enum class State { kNew, kArming, kArmed, kRecording, kOver };

  // ---- what follows runs on the strand ----
  void DoArm(const std::shared_ptr<grpc::Channel>& channel, const ArmCall& call,
             WorkerEvents events);
  void DoStart(const StartCall& call);
  void DoFinish();
  void DoCancel();

  void Open(const std::shared_ptr<grpc::Channel>& channel, ItemStream kind,
            const std::string& first_message);
  void Read();
  void OnMessage(uint64_t generation, const std::shared_ptr<grpc::ByteBuffer>& message);
  void Dispatch(const std::string& bytes);
  // False: not to be parsed.
  bool OnArmed(std::string_view bytes);
  bool OnEnded(std::string_view bytes);
  void TakeItems(const std::shared_ptr<grpc::ByteBuffer>& message);
  void OnTaken(uint64_t generation, const absl::Status& status);
  void Acknowledge();
  void OnAckTimer();

  void OnStreamDone(uint64_t generation, const grpc::Status& status);
  // The stream is of no use any more. `fault`: because of what the worker sent.
  void Break(const grpc::Status& status, bool fault);
  void Retry();
  void ResetBackoff();
  // A message came: a lost stream has been taken up again.
  void OnHeard();

  void EndArming(const grpc::Status& status);
  // With what has come so far; waits for the disk.
  void EndIncomplete(const grpc::Status& status);
  void End(const grpc::Status& status, bool with_delivery);
  std::unique_ptr<Delivery> MakeDelivery(const grpc::Status& status);
  // Gives the worker a moment to take the last word.
  void Close(bool abandon);
  void StopTimers();

  // Asks whether the worker is there.
  void Probe();
  void OnProbed(uint64_t generation, uint64_t heard_ns, const grpc::Status& status);

  // Deadlines are on MONOTONIC; one timer stands for all of them.
  void Watch();
  void OnWatch();
  uint64_t NextDeadline() const;
  uint64_t ResumeDeadline() const;
  uint64_t SilenceDeadline() const;
  uint64_t StallDeadline() const;
  uint64_t RepeatDeadline() const;
  static uint64_t ToNs(absl::Duration duration);
  static uint64_t In(absl::Duration delay);
  std::shared_ptr<Timer> After(absl::Duration delay, void (StreamedCapture::*what)());

  const CallThreads::Lease lease_;
  const StreamedCaptureOptions options_;
  CallThreads* const threads_;
  WritePool* const disk_;
  Strand strand_;

  State state_ = State::kNew;
  uint64_t arm_sent_ns_ = 0;
  std::optional<ClockEstimate> arm_clock_;  // not changed after `armed` was told
  WorkerEvents events_;
  StartCall start_;
  std::string capture_key_;
  bool started_told_ = false;
  bool finish_wanted_ = false;  // the recording is to end early
  bool orderly_end_ = false;    // the worker has said that nothing more comes
  std::optional<uint64_t> announced_last_item_;

  // The current stream. What an earlier one still says is known by its generation.
  std::shared_ptr<NativeStream> stream_;
  ItemStream kind_ = ItemStream::kCapture;
  uint64_t generation_ = 0;
  bool reading_ = false;
  uint64_t heard_ns_ = 0;              // when the last message came, or the last read began
  uint64_t alive_ns_ = 0;              // when the worker last answered a probe
  absl::Duration stall_;               // StreamTimeouts.stall, doubled as often as it was used up
  std::unique_ptr<UnaryCalls> probe_;  // null: no probe is under way
  uint64_t progress_ns_ = 0;           // when progress was told last

  // Items. `receiver_` belongs to the disk pool while `taking_`.
  std::shared_ptr<ItemReceiver> receiver_;
  bool taking_ = false;
  ReceivedItems received_;  // after the last message
  uint64_t acknowledged_item_ = 0;
  uint64_t acknowledged_bytes_ = 0;
  uint64_t repeat_ack_ns_ = 0;   // while `taking_`: when the acknowledgement is repeated
  uint64_t deadline_bytes_ = 0;  // what had come when `last_deadline_ns_` was put off last
  std::optional<grpc::Status> end_wanted_;  // once the disk is done

  // A lost connection.
  bool broken_ = false;
  uint64_t silent_since_ns_ = 0;  // the last sign of life before it was lost
  uint64_t break_ns_ = 0;         // when it was lost
  grpc::Status break_status_;
  std::string last_failure_;
  absl::Duration backoff_;
  int faults_ = 0;  // of the worker, since items came
  int breaks_ = 0;  // that were taken up again
  absl::Duration outage_;
  std::minstd_rand random_;

  uint64_t arm_deadline_ns_ = 0;
  uint64_t planned_end_ns_ = 0;
  // For everything, unless bytes keep coming: each 64 KiB put it off to a whole transfer timeout
  // from then.
  uint64_t last_deadline_ns_ = 0;
  uint64_t watch_ns_ = 0;  // when watch_timer_ fires
  std::shared_ptr<Timer> watch_timer_;
  std::shared_ptr<Timer> ack_timer_;
  std::shared_ptr<Timer> retry_timer_;
  std::shared_ptr<Timer> close_timer_;
};

}  // namespace jobscope

#endif  // CLIENT_NATIVE_STREAMED_CAPTURE_H_
