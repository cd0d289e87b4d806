// SPDX-License-Identifier: Apache-2.0
//
// Collects Python functions: sampled stacks (level 1), calls (level 2).
#ifndef COLLECTORS_PYTHON_PYTHON_COLLECTOR_H_
#define COLLECTORS_PYTHON_PYTHON_COLLECTOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/collector.h"
#include "collectors/python/calls/python_options.h"

namespace jobscope {

class DetachedCaller;
namespace python {
class CallTracer;
class Sampler;
struct Api;
struct TraceApi;
}  // namespace python

// Records Python functions. Off unless requested, and without Python. Whatever waits for the GIL
// does so on a thread of its own, so that no call blocks longer than stated below.
class PythonCollector : public Collector {
 public:
  explicit PythonCollector(bool uses_tsc);
  ~PythonCollector() override;
  PythonCollector(const PythonCollector&) = delete;
  PythonCollector& operator=(const PythonCollector&) = delete;

  std::string_view name() const override { return "python"; }
  CollectorReport Describe() const override;
  std::string WhyOff(const ArmRequest& request) const override;
  // Blocks for at most 3 s for the GIL.
  absl::Status Arm(const ArmRequest& request) override;
  // Level 2: blocks for at most 0.5 s for the GIL.
  absl::Status Start(const StartRequest& request) override;
  absl::Duration Drain() override;
  uint64_t LostSoFar() const override { return lost_so_far_.load(std::memory_order_relaxed); }
  // Up to 1 s.
  absl::Status Stop(uint64_t end_ticks) override;
  CollectorReport Report() override;

 private:
  absl::Status Fail(absl::Status status);
  // Makes what the session's level needs. Returns the function that prepares it with the GIL.
  std::function<absl::Status()> MakeTracing(const python::Api& api, const python::TraceApi& trace,
                                            python::TracerOptions options);

  const bool uses_tsc_;
  std::shared_ptr<DetachedCaller> helper_;
  // State of one session.
  ArmRequest request_;
  CollectorReport report_;
  std::atomic<uint64_t> lost_so_far_{0};
  std::shared_ptr<python::Sampler> sampler_;
  std::shared_ptr<python::CallTracer> tracer_;
};

}  // namespace jobscope

#endif  // COLLECTORS_PYTHON_PYTHON_COLLECTOR_H_
