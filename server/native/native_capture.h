// SPDX-License-Identifier: Apache-2.0
//
// Manages one capture of the native service, from `arm` to the last acknowledgement. It survives
// its stream.
#ifndef SERVER_NATIVE_NATIVE_CAPTURE_H_
#define SERVER_NATIVE_NATIVE_CAPTURE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/xspace/segment/store.h"
#include "jobscope/v1/profiler.pb.h"
#include "server/native/items/item_ledger.h"
#include "server/native/step_progress.h"
#include "server/native/stream_attachment.h"
#include "server/native/stream_waker.h"
#include "server/rpc/grpc_timer.h"
#include "server/rpc/restartable_timer.h"
#include "server/rpc/stream_call.h"
#include "server/services/step_source.h"
#include "server/session/session_manager.h"
#include "server/session/session_options.h"

namespace jobscope {

class NativeCaptures;

// Runs one capture through its phases: arming -> armed -> started -> over. At most one stream is
// attached at a time. Before `started` the capture ends with its stream; after it the recording
// continues to its planned end, or until it has been without a stream for `resume`. Items are held
// for `hold` after the stream was lost or the recording has ended, whichever is later. The capture
// holds the session's slot while a stream is attached and items are left.
//
// Thread-safe. Never blocks. Wakes the attached stream on every change; the stream then queries.
class NativeCapture : public std::enable_shared_from_this<NativeCapture> {
 public:
  enum class Phase { kArming, kArmed, kStarted, kOver };
  using StreamId = StreamAttachment::Id;

  struct Dependencies {
    std::weak_ptr<NativeCaptures> captures;
    std::shared_ptr<SessionManager> sessions;
    StepSource steps;
    absl::Duration hold;
    absl::Duration resume;
  };
  NativeCapture(Dependencies dependencies, std::string key, SessionOptions options);

  const std::string& key() const { return key_; }
  const std::string& session_id() const { return options_.session_id; }
  const std::string& peer() const { return options_.peer; }
  std::optional<v1::StepState> Steps() const { return StepStateOf(dependencies_.steps()); }

  // Attaches the stream that asked for the capture, and requests the session. Called once. Throws
  // nothing: if memory runs out, the capture is over, with RESOURCE_EXHAUSTED.
  StreamId Submit(std::shared_ptr<StreamCall> stream, absl::Time deadline);
  // Attaches a stream that lacks the items from `next_item` on; earlier ones count as acknowledged.
  // Replaces the stream that was attached before, which then ends. Returns FAILED_PRECONDITION (not
  // started; already released), INVALID_ARGUMENT (never sent) or NOT_FOUND (dropped).
  absl::StatusOr<StreamId> Resume(std::shared_ptr<StreamCall> stream, uint64_t next_item);
  // The stream is lost. Ignores a stream that was replaced, as do the functions below. If memory
  // has run out, nothing waits for another stream: a recording ends at once, and items are not
  // held.
  void Detach(StreamId stream);
  // The stream's client has everything, or wants no more: stops holding items.
  void Complete(StreamId stream);

  struct Snapshot {
    Phase phase = Phase::kArming;
    // OK: the stream is attached. Otherwise it ends with this status: a newer stream has replaced
    // it, or the capture is gone.
    absl::Status stream_status;
    bool commanded = false;  // the start was commanded: items may be sent from now on
    bool recording = false;  // `started` is known
    SessionStarted started;
    absl::Status result;     // once the capture is over
    bool dropped = false;    // its items are not delivered
    uint64_t last_item = 0;  // once the capture is over
    uint64_t acknowledged = 0;
  };
  Snapshot Look(StreamId stream) const;
  // Valid once the capture is armed.
  SessionArmed armed() const;
  v1::Progress Progress() const;

  // Returns the next items to send: those from `first` on, once they fill a message; with `few`, or
  // once the recording is over, as many as there are. Empty: none yet; the stream will be woken
  // when they fill a message.
  std::vector<xspace::HeldItem> NextItems(StreamId stream, uint64_t first, bool few);
  // Returns INVALID_ARGUMENT if that item was never sent.
  absl::Status Acknowledge(StreamId stream, uint64_t through);

  void Start(StartCommand command);
  // Ends the recording; the client receives what was recorded.
  void Finish();
  // Ends the capture without delivering: `why` becomes its result.
  void Drop(absl::Status why);
  // Releases the slot although items are left, because the client takes none.
  void YieldSlot();
  // A new session begins, whose trace must be the only one in memory. Drops this capture if it is
  // over and does not hold the slot; returns whether it did.
  bool Evict(const std::string& by);
  // The server shuts down. Does nothing while a stream is attached.
  void DropUnattached(const std::string& why);

 private:
  // Work that is left for after the lock. To release these objects frees memory and lets the next
  // session begin.
  struct Remains {
    SessionTicket cancelled = 0;  // the session to cancel; 0: none
    std::shared_ptr<xspace::Store> store;
    std::shared_ptr<void> slot;
    std::unique_ptr<GrpcTimer> timer;
    bool forget = false;  // also forget the capture itself
    std::string why;      // for clients that fetch the capture later; empty: none can
    uint64_t items = 0;   // items that no client has received and one may want
  };

  void OnArmed(const SessionArmed& armed);
  void OnStarted(const SessionStarted& started);
  void OnDone(SessionResult result);
  void OnSlot(std::shared_ptr<void> slot);
  // `timer`: the number of the timer that has run.
  void OnHoldOver(uint64_t timer);
  void OnResumeTimeOver(uint64_t timer);

  void HoldLocked(Remains* remains) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `unasked`: a client may still want the capture, and the log says so.
  void ReleaseLocked(std::string why, bool unasked, Remains* remains)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Does that work. `this` must be owned by the caller, too: forgets it.
  void Discard(Remains remains);

  const Dependencies dependencies_;
  const std::string key_;
  const SessionOptions options_;
  const std::shared_ptr<StreamWaker> waker_ = std::make_shared<StreamWaker>();

  // Also held around SetClientLost, which calls nothing of ours: the session learns of losses and
  // returns in their order.
  mutable absl::Mutex mutex_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kArming;
  SessionTicket ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  SessionArmed armed_ ABSL_GUARDED_BY(mutex_);
  bool commanded_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<SessionStarted> started_ ABSL_GUARDED_BY(mutex_);
  mutable WindowSteps steps_ ABSL_GUARDED_BY(mutex_);
  absl::Status result_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> dropping_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<xspace::Store> store_ ABSL_GUARDED_BY(mutex_);  // null: not armed, or released
  std::shared_ptr<void> slot_ ABSL_GUARDED_BY(mutex_);
  ItemLedger ledger_ ABSL_GUARDED_BY(mutex_);
  StreamAttachment streams_ ABSL_GUARDED_BY(mutex_) = StreamAttachment(waker_);
  // Runs while no stream is attached: ends the recording, or discards the held items.
  RestartableTimer unattached_timer_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace jobscope

#endif  // SERVER_NATIVE_NATIVE_CAPTURE_H_
