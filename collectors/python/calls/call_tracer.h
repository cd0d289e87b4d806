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

// One session's. Prepare, Install and Remove run on the helper thread and take the GIL; the others
// belong to the collector's thread. The two halves share the CallSession alone, so that a helper
// that waits for the GIL for ever keeps nobody else from what was recorded.
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
  // How Install went, once it has returned.
  bool installed() const { return installed_.load(std::memory_order_acquire); }
  const absl::Status& install_status() const { return install_status_; }
  // Since when calls are traced; 0: not yet.
  uint64_t installed_ticks() const { return installed_ticks_.load(std::memory_order_acquire); }

  void Begin(const TraceWindow& window);
  CallSession::Limits LimitsFor(const TickMap& map) const;
  // Moves what there is into the sink; leaves it in the ring while the sink is full.
  void Drain();
  // After Remove, or without waiting for it: calls are not recorded any more.
  void End(uint64_t end_ticks);
  uint64_t LostSoFar() const { return calls_ == nullptr ? 0 : calls_->lost(); }
  // After End.
  void FillReport(CollectorReport* report) const;

 private:
  // With the GIL.
  StackRound ReadStacks();
  void TakeAll();
  // As Python knows the thread, or else as the OS does.
  std::string_view NameOf(const TracedThread& thread);

  const Setup setup_;
  std::shared_ptr<CallSession> calls_;
  std::unique_ptr<StackReader> reader_;
  std::atomic<bool> installed_{false};
  absl::Status install_status_;
  std::atomic<uint64_t> installed_ticks_{0};
  std::atomic<bool> stacks_refused_{false};  // open calls are not known

  TraceWindow window_;
  std::unique_ptr<PythonLines> lines_;
  std::vector<CallRecord> batch_;
  std::vector<std::string> os_names_;  // by the thread's index, of those that Python does not know
};

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_CALLS_CALL_TRACER_H_
