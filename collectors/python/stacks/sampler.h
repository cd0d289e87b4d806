// SPDX-License-Identifier: Apache-2.0
//
// Level 1: samples the stacks of all Python threads at a fixed rate.
#ifndef COLLECTORS_PYTHON_STACKS_SAMPLER_H_
#define COLLECTORS_PYTHON_STACKS_SAMPLER_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/collector.h"
#include "collectors/python/bridge/api.h"
#include "collectors/python/stacks/code_table.h"
#include "collectors/python/stacks/python_lines.h"
#include "collectors/python/stacks/sample_fold.h"
#include "collectors/python/stacks/stacks.h"
#include "collectors/python/stacks/trace_api.h"
#include "common/clock/clock.h"

namespace jobscope::python {

// What sampling has cost and found.
struct SamplingCosts {
  uint64_t samples = 0;     // rounds: all threads looked at, or as many as there was time for
  uint64_t unfinished = 0;  // rounds that did not come to all threads
  uint64_t refused = 0;     // because of sub-interpreters
  uint64_t takes = 0;       // of the GIL
  absl::Duration total_hold;
  absl::Duration longest_wait;  // for the GIL
};

// One session's. Prepare and Run are for the helper thread, the others belong to the collector.
class Sampler {
 public:
  struct Setup {
    const Api* api = nullptr;
    const TraceApi* trace = nullptr;
    xspace::ItemSink* sink = nullptr;
    xspace::Names* names = nullptr;
    bool uses_tsc = false;
    int hz = 0;
  };
  explicit Sampler(const Setup& setup) : setup_(setup) {}

  // Takes the GIL.
  absl::Status Prepare();

  // Samples from Begin until End, then returns. Takes the GIL, for which it waits without a limit,
  // when it meets a thread for the first time; where stacks can't be read without it for every
  // sample, for at most about 1 ms.
  void Run();

  void Begin(const TraceWindow& window);
  // No more samples; waits up to `timeout` for the one that is being taken. Then what there is is
  // in the sink, and the sink is left alone for good. False: could not acquire the GIL.
  bool End(uint64_t end_ticks, absl::Duration timeout);

  // After End.
  void FillReport(CollectorReport* report) const;

 private:
  bool AwaitNext();  // false: it is over
  void Leave();      // Python is shutting down
  void SampleOnce(uint64_t asked_ticks);
  // body() with the GIL, if that is still to be had.
  template <typename Body>
  void HoldGil(Body body);

  const Setup setup_;
  std::unique_ptr<CodeTable> codes_;
  std::unique_ptr<StackReader> reader_;

  mutable std::mutex mutex_;  // never held while the GIL is, nor while it is waited for
  std::condition_variable changed_;
  bool stop_ = false;
  bool closed_ = false;  // the sink must not be touched any more
  bool busy_ = true;     // Run is not waiting for its time: it wants the GIL, or samples
  bool left_ = false;    // Python is shutting down
  std::unique_ptr<PythonLines> lines_;
  std::unique_ptr<SampleFold> fold_;
  std::chrono::steady_clock::time_point next_;
  std::minstd_rand jitter_{static_cast<unsigned>(MonotonicNs())};
  SamplingCosts costs_;
};

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_STACKS_SAMPLER_H_
