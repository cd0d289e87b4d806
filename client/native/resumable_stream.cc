// SPDX-License-Identifier: Apache-2.0
#include "client/native/resumable_stream.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/worker/worker_outcome.h"
#include "common/clock/monotonic.h"

namespace jobscope {
namespace {

// Time for a worker to receive the last acknowledgement, or the message that its data are
// discarded.
constexpr absl::Duration kCloseTimeout = absl::Seconds(1);

}  // namespace

ResumableStream::ResumableStream(ResumableStreamOptions options, CallThreads* threads,
                                 Strand* strand, const std::shared_ptr<Owner>& owner)
    : options_(std::move(options)),
      threads_(threads),
      strand_(strand),
      owner_(owner),
      stall_(options_.timeouts.stall),
      probe_(options_.timeouts.max_probes, options_.timeouts.probe, options_.dial_probe, threads),
      outages_(options_.resume_timeout, static_cast<uint32_t>(MonotonicNow())),
      watch_timer_(threads, strand, owner),
      retry_timer_(threads, strand, owner) {}

ResumableStream::~ResumableStream() = default;

// ---- connections ----

void ResumableStream::Open(const std::shared_ptr<grpc::Channel>& channel,
                           const std::string& first_message) {
  Connect(channel, ItemStream::kCapture, {first_message});
}

void ResumableStream::Connect(const std::shared_ptr<grpc::Channel>& channel, ItemStream kind,
                              const std::vector<std::string>& messages) {
  const std::shared_ptr<Owner> owner = owner_.lock();
  if (owner == nullptr) return;
  const uint64_t generation = ++generation_;
  kind_ = kind;
  channel_ = channel;
  NativeStream::Events events;
  events.message = [this, owner, generation](grpc::ByteBuffer* message) {
    const auto held = std::make_shared<grpc::ByteBuffer>();
    held->Swap(message);
    strand_->Post([this, owner, generation, held] { OnMessage(generation, held); });
  };
  events.done = [this, owner, generation](const grpc::Status& status) {
    strand_->Post([this, owner, generation, status] { OnDone(generation, status); });
  };
  stream_ =
      NativeStream::Start(channel, kind == ItemStream::kCapture ? kCaptureMethod : kFetchMethod,
                          absl::InfiniteDuration(), threads_, std::move(events));
  for (const std::string& message : messages) stream_->Write(message);
  Read();
}

void ResumableStream::Read() {
  if (stream_ == nullptr || closed_) return;
  reading_ = true;
  heard_ns_ = MonotonicNow();
  stream_->Read();
  Watch();
}

void ResumableStream::Write(const std::string& message) {
  if (stream_ != nullptr) stream_->Write(message);
}

void ResumableStream::OnMessage(uint64_t generation,
                                const std::shared_ptr<grpc::ByteBuffer>& message) {
  const std::shared_ptr<Owner> owner = owner_.lock();
  if (generation != generation_ || closed_ || owner == nullptr) return;
  reading_ = false;
  heard_ns_ = MonotonicNow();
  if (const std::optional<absl::Duration> outage = outages_.End(heard_ns_)) {
    owner->OnNote(absl::StrFormat("connected again after %.1f s", absl::ToDoubleSeconds(*outage)));
  }
  owner->OnMessage(message);
}

void ResumableStream::OnDone(uint64_t generation, const grpc::Status& status) {
  const std::shared_ptr<Owner> owner = owner_.lock();
  if (generation != generation_ || owner == nullptr) return;
  stream_.reset();
  if (closed_) {
    if (close_timer_.has_value()) threads_->timers()->Cancel(*close_timer_);
    return;
  }
  reading_ = false;
  owner->OnLost(status.ok() ? grpc::Status(grpc::StatusCode::UNAVAILABLE,
                                           "the worker closed the stream before its end")
                            : status);
}

void ResumableStream::Retry(const grpc::Status& why, uint64_t received_bytes) {
  if (stream_ != nullptr) stream_->Cancel();
  stream_.reset();
  channel_.reset();
  probe_.Cancel();
  ++generation_;
  reading_ = false;
  const bool begun = outages_.Fail(why, MonotonicNow(), heard_ns_);
  if (const std::shared_ptr<Owner> owner = owner_.lock(); begun && owner != nullptr) {
    owner->OnNote(absl::StrFormat("connection lost after %.1f MiB (%s); trying again",
                                  static_cast<double>(received_bytes) / (1 << 20), ReasonOf(why)));
  }
  retry_timer_.Start(outages_.NextBackoff(), [this] { Reconnect(); });
  Watch();
}

void ResumableStream::Reconnect() {
  const std::shared_ptr<Owner> owner = owner_.lock();
  if (owner == nullptr || !outages_.ongoing() || stream_ != nullptr) return;
  Connect(options_.dial(), ItemStream::kFetch, owner->ResumeMessages());
}

void ResumableStream::Close(bool abandon) {
  closed_ = true;
  probe_.Cancel();
  watch_timer_.Stop();
  retry_timer_.Stop();
  if (stream_ == nullptr) return;
  if (abandon) stream_->Write(FinishBytes(kind_, /*abandon=*/true));
  stream_->Drain();
  close_timer_ = threads_->timers()->Start(kCloseTimeout, [stream = stream_] { stream->Cancel(); });
}

// ---- signs of life ----

void ResumableStream::WatchSilence() {
  watches_silence_ = true;
  Watch();
}

void ResumableStream::SetPlannedEnd(uint64_t monotonic_ns) {
  planned_end_ns_ = monotonic_ns;
  Watch();
}

void ResumableStream::Probe() {
  probe_.Start([this, weak = owner_, generation = generation_, heard_ns = heard_ns_,
                late_ns = threads_->timers()->last_late_ns()](const grpc::Status& status,
                                                              bool lost_there) {
    std::shared_ptr<Owner> owner = weak.lock();
    if (owner == nullptr) return;
    strand_->Post([this, owner = std::move(owner), generation, heard_ns, late_ns, status,
                   lost_there] { OnProbed(generation, heard_ns, late_ns, status, lost_there); });
  });
}

void ResumableStream::OnProbed(uint64_t generation, uint64_t heard_ns, uint64_t late_ns,
                               const grpc::Status& status, bool lost_there) {
  const std::shared_ptr<Owner> owner = owner_.lock();
  if (generation != generation_ || closed_ || owner == nullptr) return;
  const bool alive = probe_.Finish(status);
  // A message that arrived over the stream meanwhile is a sign of life, too.
  const bool heard_nothing = reading_ && heard_ns_ == heard_ns;
  if (lost_there && heard_nothing) {
    // It ends the recording soon unless a Fetch arrives (kResumeTime in server/limits.h).
    owner->OnLost(grpc::Status(grpc::StatusCode::UNAVAILABLE,
                               "the worker has lost this connection, and answers on another one"));
  } else if (!alive && heard_nothing && threads_->timers()->last_late_ns() == late_ns) {
    // While this process does not keep up, silence shows nothing.
    const absl::Duration since = absl::Nanoseconds(static_cast<int64_t>(MonotonicNow() - heard_ns));
    owner->OnLost(grpc::Status(
        grpc::StatusCode::UNAVAILABLE,
        absl::StrFormat("no sign of life for %.1f s, and no answer on a second connection",
                        absl::ToDoubleSeconds(since))));
  }
  Watch();
}

bool ResumableStream::IsReceiving() const {
  return reading_ && channel_ != nullptr &&
         channel_->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY;
}

uint64_t ResumableStream::GiveUpDeadline() const {
  if (given_up_ || probe_.running() || !outages_.ongoing()) return kNeverNs;
  return std::max({outages_.GiveUpAt(planned_end_ns_),
                   probe_.alive_ns() + DurationNs(options_.resume_timeout), probe_.next_ns()});
}

uint64_t ResumableStream::SilenceDeadline() const {
  if (!watches_silence_ || !reading_ || probe_.running()) return kNeverNs;
  const uint64_t life_ns =
      std::max({heard_ns_, probe_.alive_ns(), threads_->timers()->last_late_ns()});
  return std::max(life_ns + DurationNs(options_.timeouts.silence), probe_.next_ns());
}

uint64_t ResumableStream::StallDeadline() const {
  return watches_silence_ && reading_ ? heard_ns_ + DurationNs(stall_) : kNeverNs;
}

void ResumableStream::Watch() {
  if (closed_) return;
  const uint64_t deadline_ns = std::min({GiveUpDeadline(), SilenceDeadline(), StallDeadline()});
  if (deadline_ns != kNeverNs) watch_timer_.StartBy(deadline_ns, [this] { OnWatch(); });
}

void ResumableStream::OnWatch() {
  const std::shared_ptr<Owner> owner = owner_.lock();
  if (closed_ || owner == nullptr) return;
  const uint64_t now_ns = MonotonicNow();
  const bool gives_up = now_ns >= GiveUpDeadline();
  if (gives_up && !IsReceiving()) {
    given_up_ = true;
    owner->OnUnreachable(outages_.WhyGivenUp());
  } else if (!gives_up && now_ns >= StallDeadline()) {
    const absl::Duration stall = std::exchange(stall_, stall_ * 2);
    owner->OnLost(grpc::Status(
        grpc::StatusCode::UNAVAILABLE,
        absl::StrCat("nothing arrived for ", absl::FormatDuration(stall),
                     probe_.alive_ns() > heard_ns_
                         ? ", although the worker answers on another connection"
                         : ", and the worker could not be asked on another connection yet")));
  } else if (gives_up || now_ns >= SilenceDeadline()) {
    Probe();
  }
  Watch();
}

}  // namespace jobscope
