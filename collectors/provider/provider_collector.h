// SPDX-License-Identifier: Apache-2.0
//
// Collects the events of the providers of one name (jobscope/provider.h).
#ifndef COLLECTORS_PROVIDER_PROVIDER_COLLECTOR_H_
#define COLLECTORS_PROVIDER_PROVIDER_COLLECTOR_H_

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/collector.h"
#include "collectors/provider/intake.h"
#include "collectors/provider/session_encoder.h"
#include "common/sync/mutex.h"
#include "jobscope/provider.h"

namespace jobscope {

// Copy of a jobscope_provider's fields.
struct ProviderCallbacks {
  void* context = nullptr;
  bool realtime = false;  // its timestamps are CLOCK_REALTIME
  jobscope_provider_callback arm = nullptr;
  jobscope_provider_callback start = nullptr;
  jobscope_provider_callback stop = nullptr;
};

// Records the events of providers of one name. Lives as long as the process; providers of its name
// come and go. Callbacks run on the collector's thread, which holds no lock that the application
// needs; events come from any thread.
//
// Added events wait in a bounded buffer until the collector's thread encodes them.
class ProviderCollector : public Collector {
 public:
  // `name` must be valid (see provider_registry.h); `index` must be unique among providers.
  ProviderCollector(std::string_view name, int index);
  ~ProviderCollector() override;
  ProviderCollector(const ProviderCollector&) = delete;
  ProviderCollector& operator=(const ProviderCollector&) = delete;

  // Sets the provider. Any thread. ALREADY_EXISTS: there is one, or a callback of the last one
  // still runs.
  absl::Status Register(const ProviderCallbacks& callbacks);
  // Removes the provider. Any thread. NOT_FOUND: none is registered. UNAVAILABLE: a callback still
  // runs; no other will.
  absl::Status Unregister();

  // Sets whether the session's ticks are TSC. Call it before the first session.
  void set_uses_tsc(bool uses_tsc) { uses_tsc_ = uses_tsc; }

  std::string_view name() const override { return name_; }
  CollectorReport Describe() const override;
  absl::Status Arm(const ArmRequest& request) override;
  absl::Status Start(const StartRequest& request) override;
  absl::Duration Drain() override;
  absl::Status Stop(uint64_t end_ticks) override;
  CollectorReport Report() override;
  uint64_t LostSoFar() const override { return lost_so_far_.load(std::memory_order_relaxed); }

 private:
  enum class Phase { kIdle, kArmed, kRecording, kStopping };
  // One session, from Arm to Report.
  struct Session {
    Phase phase = Phase::kIdle;
    bool takes_part = false;
    bool gone = false;  // the participating provider was unregistered
    jobscope_provider_session abi = {};
    provider::Intake intake;      // open while events are recorded
    std::string off_reason;       // why it does not take part
    std::string degraded_reason;  // first problem at the end of the session
  };
  struct Sink {
    jobscope_provider_sink abi;  // first member: callbacks get a pointer to it
    ProviderCollector* owner;
  };

  static int AddFromC(jobscope_provider_sink* sink, const jobscope_provider_event* events,
                      size_t count);
  static int AddXSpaceFromC(jobscope_provider_sink* sink, const void* bytes, size_t size,
                            char* error, size_t error_size);
  int Add(const jobscope_provider_event* events, size_t count);
  absl::Status AddXSpace(std::string_view bytes);

  // Waits until no callback runs, then claims the next one. False: the session's provider is no
  // longer registered, even if another one is.
  bool BeginCall() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs a claimed callback without the lock; reacquires it afterwards.
  absl::Status Call(jobscope_provider_callback callback, const char* verb)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs the stop callback once, for the session's Stop or Unregister. No event is accepted
  // afterwards.
  void CallStop(const provider::Instant& end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes the session's provider from the session.
  void Leave() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves the events of the intake to the encoder.
  void Hold() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_, writing_);
  // Returns true in a fork of a process that has captured: its locks may be held by threads that do
  // not exist.
  bool InForkedChild() const;

  const std::string name_;
  const int index_;
  Sink sink_;
  std::atomic<bool> uses_tsc_{false};
  std::atomic<pid_t> pid_{0};  // process of the last session

  mutable Mutex mutex_;
  CondVar called_;
  ProviderCallbacks callbacks_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> registered_{false};  // readable without the lock
  bool calling_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread::id caller_ ABSL_GUARDED_BY(mutex_);

  Session session_ ABSL_GUARDED_BY(mutex_);
  // Of the last session, too; not behind the lock.
  std::atomic<uint64_t> lost_so_far_{0};
  std::atomic<bool> account_unknown_{false};  // memory ran out while events were added

  // Guards encoding. Acquired after mutex_, or alone.
  Mutex writing_;
  // Of the last session; never null.
  std::unique_ptr<provider::SessionEncoder> encoder_ ABSL_GUARDED_BY(writing_);
};

}  // namespace jobscope

#endif  // COLLECTORS_PROVIDER_PROVIDER_COLLECTOR_H_
