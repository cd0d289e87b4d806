// SPDX-License-Identifier: Apache-2.0
//
// The stream of one capture over one connection after the other: notices when a connection is dead,
// and makes a new one.
#ifndef CLIENT_NATIVE_RESUMABLE_STREAM_H_
#define CLIENT_NATIVE_RESUMABLE_STREAM_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/native/native_stream.h"
#include "client/native/outages.h"
#include "client/native/strand_timer.h"
#include "client/rpc/call_threads.h"
#include "client/rpc/strand.h"
#include "client/rpc/timer.h"
#include "client/rpc/unary_calls.h"
#include "client/wire/native_messages.h"

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

struct ResumableStreamOptions {
  // A connection of its own, for a stream that is taken up again: the old channel may still wait
  // out gRPC's back-off.
  std::function<std::shared_ptr<grpc::Channel>()> dial;
  // Likewise, for one question: StreamTimeouts.silence.
  std::function<std::shared_ptr<grpc::Channel>()> dial_probe;
  // A lost stream is taken up again until this long after it was lost, or after the planned end.
  absl::Duration resume_timeout = absl::Seconds(5);
  StreamTimeouts timeouts;
};

// Not thread-safe: used on the strand of its owner, on which it also calls the owner.
class ResumableStream {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // One for each Read, unless the stream is lost.
    virtual void OnMessage(const std::shared_ptr<grpc::ByteBuffer>& message) = 0;
    // The worker or the network has ended the stream, or nothing comes over it. Call Retry or
    // Close.
    virtual void OnLost(const grpc::Status& status) = 0;
    // What to say first over a new connection, a Fetch.
    virtual std::vector<std::string> ResumeMessages() = 0;
    // The worker was not reached again within the resume timeout. Once; call Close.
    virtual void OnUnreachable(const grpc::Status& status) = 0;
    // For people: "connected again after 1.2 s".
    virtual void OnNote(const std::string& text) = 0;
  };

  // `owner` is an Owner that also owns `strand` and this; each open connection keeps it.
  ResumableStream(ResumableStreamOptions options, CallThreads* threads, Strand* strand,
                  const std::shared_ptr<Owner>& owner);

  // Opens the first connection, and reads the first message.
  void Open(const std::shared_ptr<grpc::Channel>& channel, const std::string& first_message);
  // From now on a connection over which nothing comes is lost. Before, the owner has a deadline.
  void WatchSilence();
  // When the recording ends by plan: until then, and a while longer, a lost stream is tried again.
  void SetPlannedEnd(uint64_t monotonic_ns);

  // Asks for the next message. Does nothing while there is no connection.
  void Read();
  // Likewise.
  void Write(const std::string& message);
  // Drops the connection, and makes a new one after a while. `received_bytes` is for the note.
  void Retry(const grpc::Status& why, uint64_t received_bytes);
  // The worker delivers: the next attempt comes soon again.
  void ResetBackoff() { outages_.ResetBackoff(); }
  // Nothing is read or tried any more. `abandon`: the worker is told to drop the capture. Gives it
  // a moment to take the last word.
  void Close(bool abandon);

  bool connected() const { return stream_ != nullptr; }
  ItemStream kind() const { return kind_; }
  // Of the connection: what an earlier one still brings is void.
  uint64_t generation() const { return generation_; }
  const Outages& outages() const { return outages_; }

 private:
  void Connect(const std::shared_ptr<grpc::Channel>& channel, ItemStream kind,
               const std::vector<std::string>& messages);
  void OnMessage(uint64_t generation, const std::shared_ptr<grpc::ByteBuffer>& message);
  void OnDone(uint64_t generation, const grpc::Status& status);
  void Reconnect();

  // Asks whether the worker is there.
  void Probe();
  void OnProbed(uint64_t generation, uint64_t heard_ns, const grpc::Status& status);

  // Deadlines are on MONOTONIC; one timer stands for all of them.
  void Watch();
  void OnWatch();
  uint64_t GiveUpDeadline() const;
  uint64_t SilenceDeadline() const;
  uint64_t StallDeadline() const;

  const ResumableStreamOptions options_;
  CallThreads* const threads_;
  Strand* const strand_;
  const std::weak_ptr<Owner> owner_;

  std::shared_ptr<NativeStream> stream_;  // null: not connected
  ItemStream kind_ = ItemStream::kCapture;
  uint64_t generation_ = 0;
  bool reading_ = false;
  bool watches_silence_ = false;
  bool given_up_ = false;
  bool closed_ = false;
  uint64_t heard_ns_ = 0;              // when the last message came, or the last read began
  uint64_t alive_ns_ = 0;              // when the worker last answered a probe
  absl::Duration stall_;               // StreamTimeouts.stall, doubled as often as it was used up
  std::unique_ptr<UnaryCalls> probe_;  // null: no probe is under way
  uint64_t planned_end_ns_ = 0;
  Outages outages_;
  StrandTimer watch_timer_;
  StrandTimer retry_timer_;
  std::shared_ptr<Timer> close_timer_;
};

}  // namespace jobscope

#endif  // CLIENT_NATIVE_RESUMABLE_STREAM_H_
