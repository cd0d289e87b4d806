// SPDX-License-Identifier: Apache-2.0
//
// The collector behind one provider's name (jobscope/provider.h).
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

// What is copied of a jobscope_provider.
struct ProviderCallbacks {
  void* context = nullptr;
  bool realtime = false;  // its times are CLOCK_REALTIME
  jobscope_provider_callback arm = nullptr;
  jobscope_provider_callback start = nullptr;
  jobscope_provider_callback stop = nullptr;
};

// Lives as long as the process; providers of its name come and go. Callbacks run on the collector's
// thread, which waits for none of the application's locks; events come from any thread.
//
// What is added lies in a bounded buffer until the collector's thread has encoded it. That is done
// a while after, because an event that began after the session's end, which is told late, must not
// be in the trace.
class ProviderCollector : public Collector {
 public:
  // Memory of events that wait to be encoded, twice: those that come, and those that are held.
  static constexpr size_t kBufferBytes = 4 << 20;

  // `name` is valid (see provider_registry.h); `index` is of no other provider.
  ProviderCollector(std::string_view name, int index);
  ~ProviderCollector() override;
  ProviderCollector(const ProviderCollector&) = delete;
  ProviderCollector& operator=(const ProviderCollector&) = delete;

  // Any thread. ALREADY_EXISTS: it is taken, or a callback of the last provider still runs.
  absl::Status Register(const ProviderCallbacks& callbacks);
  // Any thread. NOT_FOUND: nobody is registered. UNAVAILABLE: a callback runs on; no other will.
  absl::Status Unregister();

  // What the session's ticks are. Before the first session.
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
    jobscope_provider_sink abi;  // the first: what callbacks get points at it
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

  // Waits until no callback runs; claims the next one. False: the session's provider is not
  // registered any more, whoever else may be.
  bool BeginCall(std::unique_lock<std::mutex>& lock);
  // Runs a claimed callback, without the lock. The lock is held again after it.
  absl::Status Call(std::unique_lock<std::mutex>& lock, jobscope_provider_callback callback,
                    const char* verb);
  // The stop callback, for whoever comes first: the session's Stop or Unregister.
  // Nothing comes in after it.
  void CallStop(std::unique_lock<std::mutex>& lock, int64_t end_monotonic_ns,
                int64_t end_realtime_ns);
  // The session's provider takes no part any more. With mutex_.
  void Leave();
  // Moves what has come to what is held. With mutex_ and writing_.
  void Hold();
  // What xspaces_ has come to, into the report.
  void AddXSpacesTo(CollectorReport* report) const;
  // Encodes what came before `until`. With writing_.
  void Encode(Clock::time_point until, int64_t end_ns);
  // Encodes all, and closes the account. With writing_.
  void Finish(int64_t end_ns);
  int64_t NowNs() const;  // on the provider's clock
  // What came with the fork of a process that has captured: locks of threads that are not there.
  bool InForkedChild() const;

  const std::string name_;
  const int index_;
  Sink sink_;
  std::atomic<bool> uses_tsc_{false};
  std::atomic<pid_t> pid_{0};  // of the process of the last session

  mutable std::mutex mutex_;
  std::condition_variable called_;
  ProviderCallbacks callbacks_;
  std::atomic<bool> registered_{false};  // for whoever must not wait, too
  bool calling_ = false;
  std::thread::id caller_;

  // One session's, under mutex_.
  Phase phase_ = Phase::kIdle;
  bool takes_part_ = false;
  bool gone_ = false;  // the provider that takes part was unregistered
  jobscope_provider_session session_;
  std::unique_ptr<provider::EventBatch> incoming_;  // null: nothing is recorded
  std::string off_reason_;                          // why it does not take part
  std::string degraded_reason_;                     // what went wrong in the end
  uint64_t attempted_ = 0;
  uint64_t malformed_ = 0;
  uint64_t buffer_full_ = 0;
  std::atomic<uint64_t> lost_so_far_{0};

  // Of whoever encodes. Taken after mutex_, or without it.
  std::mutex writing_;
  ArmRequest request_;
  TickMap map_;
  bool realtime_ = false;
  int64_t end_ns_ = INT64_MAX;  // on the provider's clock, as far as it is known
  std::deque<Held> held_;
  std::unique_ptr<provider::TraceWriter> writer_;
  provider::TraceWriter::Window window_;
  ClockSample before_;  // the clocks before the provider began
  std::unique_ptr<framework::ForeignXSpace> xspaces_;
  provider::TraceWriter::Account account_;
};

}  // namespace jobscope

#endif  // COLLECTORS_PROVIDER_PROVIDER_COLLECTOR_H_
