// SPDX-License-Identifier: Apache-2.0
//
// Level 1: samples the stacks of all Python threads at a fixed rate.
#ifndef COLLECTORS_PYTHON_STACKS_SAMPLER_H_
#define COLLECTORS_PYTHON_STACKS_SAMPLER_H_

#include <chrono>
#include <cstdint>
#include <memory>
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
#include "common/clock/monotonic.h"
#include "common/sync/mutex.h"

namespace jobscope::python {

// Costs and results of sampling.
struct SamplingCosts {
  uint64_t samples = 0;     // rounds: all threads, or as many as time allowed
  uint64_t unfinished = 0;  // rounds that did not reach all threads
  uint64_t refused = 0;     // because of sub-interpreters
  uint64_t takes = 0;       // acquisitions of the GIL
  absl::Duration total_hold;
  absl::Duration longest_wait;  // for the GIL
};

// Samples the stacks of one session. Prepare and Run are for the helper thread; the other functions
// belong to the collector.
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

  // Acquires the GIL.
  absl::Status Prepare();

  // Samples from Begin until End, then returns. Acquires the GIL, blocking without a limit, when it
  // meets a new thread; if stacks cannot be read without it, for every sample, for at most about 1
  // ms.
  void Run();

  void Begin(const TraceWindow& window);
  // Stops sampling; blocks for at most `timeout` for the current sample. Then all samples are in
  // the sink, which is not used any more. False: could not acquire the GIL.
  bool End(uint64_t end_ticks, absl::Duration timeout);

  // Valid after End.
  void FillReport(CollectorReport* report) const;

 private:
  bool AwaitNext();                                          // false: sampling has ended
  void Leave();                                              // Python is shutting down
  void DropSamples() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);  // memory has run out
  void SampleOnce(uint64_t asked_ticks);
  // Runs body() with the GIL. False: it could not be acquired, or there was no memory.
  template <typename Body>
  bool HoldGil(Body body);

  const Setup setup_;
  std::unique_ptr<CodeTable> codes_;
  std::unique_ptr<StackReader> reader_;

  mutable Mutex mutex_;  // never held while holding or waiting for the GIL
  CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;  // the sink must not be used any more
  // Run is not waiting for its time: it acquires the GIL, or samples.
  bool busy_ ABSL_GUARDED_BY(mutex_) = true;
  bool left_ ABSL_GUARDED_BY(mutex_) = false;  // Python is shutting down
  bool out_of_memory_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<PythonLines> lines_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<SampleFold> fold_ ABSL_GUARDED_BY(mutex_);
  CondVar::Clock::time_point next_ ABSL_GUARDED_BY(mutex_);
  std::minstd_rand jitter_ ABSL_GUARDED_BY(mutex_){static_cast<unsigned>(MonotonicNow())};
  SamplingCosts costs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_STACKS_SAMPLER_H_
