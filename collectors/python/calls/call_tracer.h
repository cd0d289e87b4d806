// SPDX-License-Identifier: Apache-2.0
//
// Level 2: traces the calls of all Python threads.
#ifndef COLLECTORS_PYTHON_CALLS_CALL_TRACER_H_
#define COLLECTORS_PYTHON_CALLS_CALL_TRACER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "collectors/collector.h"
#include "collectors/python/bridge/api.h"
#include "collectors/python/calls/call_session.h"
#include "collectors/python/calls/python_options.h"
#include "collectors/python/stacks/python_lines.h"
#include "collectors/python/stacks/stacks.h"
#include "collectors/python/stacks/trace_api.h"

namespace jobscope::python {

// Traces the calls of one session. Prepare, Install and Remove run on the helper thread and acquire
// the GIL; the other functions belong to the collector's thread. The two halves share only the
// CallSession, so that a helper that waits for the GIL for ever does not block access to what was
// recorded.
class CallTracer {
 public:
  struct Setup {
    const Api* api = nullptr;
    const TraceApi* trace = nullptr;
    xspace::ItemSink* sink = nullptr;
    xspace::Names* names = nullptr;
    bool uses_tsc = false;
    TracerOptions options;
  };
  explicit CallTracer(Setup setup) : setup_(std::move(setup)) {}

  absl::Status Prepare();
  void Install(CallSession::Limits limits);
  void Remove();
  // Returns the result of Install, once it has returned.
  bool installed() const { return installed_.load(std::memory_order_acquire); }
  const absl::Status& install_status() const { return install_status_; }
  // Returns since when calls are traced; 0: not yet.
  uint64_t installed_ticks() const { return installed_ticks_.load(std::memory_order_acquire); }

  void Begin(const TraceWindow& window);
  CallSession::Limits LimitsFor(const TickMap& map) const;
  // Moves records into the sink; leaves them in the ring while the sink is full.
  void Drain();
  // Stops recording. Called after Remove, or without waiting for it.
  void End(uint64_t end_ticks);
  uint64_t LostSoFar() const { return calls_ == nullptr ? 0 : calls_->lost(); }
  // Valid after End.
  void FillReport(CollectorReport* report) const;

 private:
  // Runs body(). If it throws because memory ran out, drops the lines, which are then in no state
  // to be used, and rethrows.
  template <typename Body>
  void OrDropLines(Body body);
  // Notes whether the program may switch stacks within a thread. Requires the GIL.
  void LookForGreenlets();
  // Writes the calls that are open, in several short holds of the GIL.
  void WriteOpen();
  void TakeAll();
  // Say why the trace is incomplete: AddReasons by reasons that degrade the collector.
  void AddReasons(CollectorReport* report) const;
  void AddWarnings(CollectorReport* report) const;
  // Returns Python's name of the thread, else the OS name.
  std::string_view NameOf(const TracedThread& thread);

  const Setup setup_;
  std::shared_ptr<CallSession> calls_;
  std::unique_ptr<StackReader> reader_;
  std::atomic<bool> installed_{false};
  absl::Status install_status_;
  std::atomic<uint64_t> installed_ticks_{0};
  std::atomic<bool> stacks_refused_{false};  // open calls are unknown
  std::atomic<bool> greenlets_{false};
  std::atomic<size_t> unread_{0};  // threads whose open calls are unknown

  TraceWindow window_;
  std::unique_ptr<PythonLines> lines_;
  std::vector<CallRecord> batch_;
  // By the thread's index, for threads without a name in Python.
  std::vector<std::string> os_names_;
};

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_CALLS_CALL_TRACER_H_
