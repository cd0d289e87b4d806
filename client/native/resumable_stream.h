// SPDX-License-Identifier: Apache-2.0
//
// Keeps the stream of one capture going over successive connections: detects a dead connection, and
// makes a new one.
#ifndef CLIENT_NATIVE_RESUMABLE_STREAM_H_
#define CLIENT_NATIVE_RESUMABLE_STREAM_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/native/life_probe.h"
#include "client/native/native_stream.h"
#include "client/native/outages.h"
#include "client/native/wire/native_messages.h"
#include "client/rpc/call_threads.h"
#include "client/rpc/strand.h"
#include "client/rpc/strand_timer.h"
#include "client/rpc/timers.h"

namespace jobscope {

// Limits of silence on a stream.
struct StreamTimeouts {
  // Workers send progress at least every four seconds. A stream on which nothing arrives for this
  // long may be a slow link (a message is visible only once it is complete) or a dead one: the
  // client then calls Describe over a separate connection, which does not queue behind the stream.
  // It restarts when this client falls behind (Timers::last_late_ns), because messages may
  // then wait in its queue.
  absl::Duration silence = absl::Seconds(7);
  // A worker that does not answer this probe in time counts as lost.
  absl::Duration probe = absl::Seconds(5);
  // Probes in progress at a time, of all streams of this process: each takes a descriptor beyond
  // those of its worker (client/rpc/descriptors.cc).
  int max_probes = 64;
  // A stream that has been silent for this long is resumed over a new connection, although the
  // worker answers and has noticed no loss: the old connection may be dead, behind a firewall that
  // has dropped its state. Doubles each time, so that the slowest link finally delivers its
  // message.
  absl::Duration stall = absl::Seconds(60);
  // Interval at which the last acknowledgement is repeated while the disk is slow: workers drop a
  // capture whose client neither receives nor acknowledges anything for 60 s.
  absl::Duration repeat_ack = absl::Seconds(5);
};

struct ResumableStreamOptions {
  // Makes a new connection to resume a stream: the old channel may still be in gRPC's back-off.
  std::function<std::shared_ptr<grpc::Channel>()> dial;
  // Likewise, for the probe: StreamTimeouts.silence.
  std::function<std::shared_ptr<grpc::Channel>()> dial_probe;
  // A lost stream is resumed until this long after it was lost, or after the planned end, or after
  // the worker last answered a probe: a new connection may carry a message that is not complete
  // yet.
  absl::Duration resume_timeout = absl::Seconds(5);
  StreamTimeouts timeouts;
};

// Owns the connection. Not thread-safe: used on the strand of its owner, on which it also calls the
// owner.
class ResumableStream {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // Runs once for each Read, unless the stream is lost.
    virtual void OnMessage(const std::shared_ptr<grpc::ByteBuffer>& message) = 0;
    // The worker or the network has ended the stream, or it is silent. Call Retry or Close.
    virtual void OnLost(const grpc::Status& status) = 0;
    // Returns the first messages on a new connection, a Fetch.
    virtual std::vector<std::string> ResumeMessages() = 0;
    // The worker could not be reached within the resume timeout. Runs once; call Close.
    virtual void OnUnreachable(const grpc::Status& status) = 0;
    // Text for people: "connected again after 1.2 s".
    virtual void OnNote(const std::string& text) = 0;
  };

  // `owner` is an Owner that also owns `strand` and this; each open connection keeps it alive.
  ResumableStream(ResumableStreamOptions options, CallThreads* threads, Strand* strand,
                  const std::shared_ptr<Owner>& owner);
  ~ResumableStream();

  // Opens the first connection, and reads the first message.
  void Open(const std::shared_ptr<grpc::Channel>& channel, const std::string& first_message);
  // From now on a silent connection counts as lost. Before, the owner has a deadline.
  void WatchSilence();
  // Sets the planned end of the recording: a lost stream is resumed until then, plus the resume
  // timeout.
  void SetPlannedEnd(uint64_t monotonic_ns);

  // Reads the next message. Does nothing while there is no connection.
  void Read();
  // Likewise.
  void Write(const std::string& message);
  // Drops the connection, and makes a new one after a back-off. `received_bytes` is for the note.
  void Retry(const grpc::Status& why, uint64_t received_bytes);
  // The worker delivers: the next back-off is short again.
  void ResetBackoff() { outages_.ResetBackoff(); }
  // Stops reading and retrying. `abandon`: asks the worker to drop the capture. Gives the worker a
  // moment to receive the last message.
  void Close(bool abandon);

  bool connected() const { return stream_ != nullptr; }
  ItemStream kind() const { return kind_; }
  // Number of the connection: messages of earlier ones are ignored.
  uint64_t generation() const { return generation_; }
  const Outages& outages() const { return outages_; }

 private:
  void Connect(const std::shared_ptr<grpc::Channel>& channel, ItemStream kind,
               const std::vector<std::string>& messages);
  void OnMessage(uint64_t generation, const std::shared_ptr<grpc::ByteBuffer>& message);
  void OnDone(uint64_t generation, const grpc::Status& status);
  void Reconnect();

  // Asks whether the worker is alive; later, if too many are being asked.
  void Probe();
  // `lost_there`: the worker answered that it has lost the connection of its capture.
  void OnProbed(uint64_t generation, uint64_t heard_ns, uint64_t late_ns,
                const grpc::Status& status, bool lost_there);

  // Returns whether a message may be arriving.
  bool IsReceiving() const;
  // Deadlines are on MONOTONIC; one timer serves all of them.
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
  std::shared_ptr<grpc::Channel> channel_;
  ItemStream kind_ = ItemStream::kCapture;
  uint64_t generation_ = 0;
  bool reading_ = false;
  bool watches_silence_ = false;
  bool given_up_ = false;
  bool closed_ = false;
  uint64_t heard_ns_ = 0;  // when the last message arrived, or the last read began
  absl::Duration stall_;   // StreamTimeouts.stall, doubled each time that it expired
  LifeProbe probe_;
  uint64_t planned_end_ns_ = 0;
  Outages outages_;
  StrandTimer watch_timer_;
  StrandTimer retry_timer_;
  std::optional<Timers::Id> close_timer_;
};

}  // namespace jobscope

#endif  // CLIENT_NATIVE_RESUMABLE_STREAM_H_
