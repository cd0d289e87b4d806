// SPDX-License-Identifier: Apache-2.0
//
// Collects the events of the providers of one name (jobscope/provider.h).
#ifndef COLLECTORS_PROVIDER_PROVIDER_COLLECTOR_H_
#define COLLECTORS_PROVIDER_PROVIDER_COLLECTOR_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/collector.h"
#include "collectors/provider/event_batch.h"
#include "collectors/provider/trace_writer.h"
#include "jobscope/provider.h"

namespace jobscope {

namespace framework {
class ForeignXSpace;
}  // namespace framework

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
// Added events wait in a bounded buffer until the collector's thread encodes them. It delays this,
// because an event that began after the session's end, which becomes known late, must not be in the
// trace.
class ProviderCollector : public Collector {
 public:
  // Bounds the memory of waiting events, once for incoming and once for held ones.
  static constexpr size_t kBufferBytes = 4 << 20;

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
  using Clock = std::chrono::steady_clock;
  enum class Phase { kIdle, kArmed, kRecording, kStopping };
  struct Sink {
    jobscope_provider_sink abi;  // first member: callbacks get a pointer to it
    ProviderCollector* owner;
  };
  struct Held {
    Clock::time_point came;
    std::unique_ptr<provider::EventBatch> batch;
  };

  static int AddFromC(jobscope_provider_sink* sink, const jobscope_provider_event* events,
                      size_t count);
  static int AddXSpaceFromC(jobscope_provider_sink* sink, const void* bytes, size_t size,
                            char* error, size_t error_size);
  int Add(const jobscope_provider_event* events, size_t count);
  absl::Status AddXSpace(std::string_view bytes);

  // Waits until no callback runs, then claims the next one. False: the session's provider is no
  // longer registered, even if another one is.
  bool BeginCall(std::unique_lock<std::mutex>& lock);
  // Runs a claimed callback without the lock; reacquires it afterwards.
  absl::Status Call(std::unique_lock<std::mutex>& lock, jobscope_provider_callback callback,
                    const char* verb);
  // Runs the stop callback once, for the session's Stop or Unregister. No event is accepted
  // afterwards.
  void CallStop(std::unique_lock<std::mutex>& lock, int64_t end_monotonic_ns,
                int64_t end_realtime_ns);
  // Removes the session's provider from the session. Requires mutex_.
  void Leave();
  // Moves incoming events to the held ones. Requires mutex_ and writing_.
  void Hold();
  // Adds the account of xspaces_ to the report.
  void AddXSpacesTo(CollectorReport* report) const;
  // Encodes events that arrived before `until`. Requires writing_.
  void Encode(Clock::time_point until, int64_t end_ns);
  // Encodes everything and closes the account. Requires writing_.
  void Finish(int64_t end_ns);
  int64_t NowNs() const;  // on the provider's clock
  // Returns true in a fork of a process that has captured: its locks may be held by threads that do
  // not exist.
  bool InForkedChild() const;

  const std::string name_;
  const int index_;
  Sink sink_;
  std::atomic<bool> uses_tsc_{false};
  std::atomic<pid_t> pid_{0};  // process of the last session

  mutable std::mutex mutex_;
  std::condition_variable called_;
  ProviderCallbacks callbacks_;
  std::atomic<bool> registered_{false};  // readable without the lock
  bool calling_ = false;
  std::thread::id caller_;

  // State of one session, guarded by mutex_.
  Phase phase_ = Phase::kIdle;
  bool takes_part_ = false;
  bool gone_ = false;  // the participating provider was unregistered
  jobscope_provider_session session_;
  std::unique_ptr<provider::EventBatch> incoming_;  // null: nothing is recorded
  std::string off_reason_;                          // why it does not take part
  std::string degraded_reason_;                     // first problem at the end of the session
  uint64_t attempted_ = 0;
  uint64_t malformed_ = 0;
  uint64_t buffer_full_ = 0;
  std::atomic<uint64_t> lost_so_far_{0};

  // Guards encoding. Acquired after mutex_, or alone.
  std::mutex writing_;
  ArmRequest request_;
  TickMap map_;
  bool realtime_ = false;
  int64_t end_ns_ = INT64_MAX;  // on the provider's clock, once known
  std::deque<Held> held_;
  std::unique_ptr<provider::TraceWriter> writer_;
  provider::TraceWriter::Window window_;
  ClockSample before_;  // the clocks before the provider began
  std::unique_ptr<framework::ForeignXSpace> xspaces_;
  provider::TraceWriter::Account account_;
};

}  // namespace jobscope

#endif  // COLLECTORS_PROVIDER_PROVIDER_COLLECTOR_H_
