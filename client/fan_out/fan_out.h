// SPDX-License-Identifier: Apache-2.0
//
// Runs one capture of many workers: connects, arms, starts all at one instant, watches, gathers. A
// worker's failure does not affect the others.
#ifndef CLIENT_FAN_OUT_FAN_OUT_H_
#define CLIENT_FAN_OUT_FAN_OUT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/fan_out/roster.h"
#include "client/fan_out/step_plan.h"
#include "client/terminal/progress.h"
#include "client/worker/worker_client.h"
#include "client/worker/worker_outcome.h"
#include "common/net/endpoint.h"
#include "common/options/recording_options.h"
#include "common/run/manifest.h"

namespace jobscope {

// Time limits. docs/design/client.md gives the reasons.
struct FanOutTimes {
  absl::Duration connect = absl::Seconds(5);  // one attempt: connection and Describe
  absl::Duration arm = absl::Seconds(20);     // one attempt: until the worker is armed
  absl::Duration sync = absl::Seconds(2);     // the pings that measure a clock
  absl::Duration transfer =
      absl::Seconds(120);  // from the planned end to the last byte of a live worker
  absl::Duration first_backoff =
      absl::Milliseconds(500);  // doubles; plus up to a quarter at random
  absl::Duration max_backoff = absl::Seconds(4);
  // Once all workers have been contacted, the common start does not wait for a worker that needs
  // this much longer than the last one that became ready.
  absl::Duration gather = absl::Milliseconds(500);
  // An attempt that takes this much longer than usual gives its place among max_parallel to
  // another, and continues. So 256 parallel attempts try a thousand silent addresses per second.
  absl::Duration stall = absl::Milliseconds(250);
  // If the requested first step, or a delayed start, is farther ahead than this, the clocks are
  // measured later.
  absl::Duration near = absl::Seconds(2);
};

struct FanOutOptions {
  std::string session_id;
  std::string repository_root;
  // Absent: native if the worker speaks it. kNative: other workers are refused. kTensorflow: also
  // for workers that speak the native one.
  std::optional<Protocol> protocol;
  absl::Duration duration;  // zero, with a lookback: only what is already recorded
  absl::Duration delay;
  absl::Duration lookback;
  std::optional<StepsWanted> steps;  // replaces the duration for workers with steps
  absl::Duration max_duration = absl::InfiniteDuration();  // of a recording of steps
  RecordingOptions recording;
  int attempts = 3;
  // Limit for each of: connecting and arming, measuring clocks, and writing at one time; those that
  // stall do not count.
  size_t max_parallel = 256;
  std::optional<size_t> min_workers;  // with fewer armed workers nothing is recorded
  FanOutTimes times;
};

// Facts about the common start of a run's workers.
struct StartFacts {
  std::optional<absl::Time> started;  // the chosen instant, on this machine's clock
  // Over the workers whose clock was measured: the time between the first and the last start, and
  // the largest uncertainty.
  std::optional<uint64_t> spread_ns;
  std::optional<uint64_t> clock_uncertainty_ns;
  std::optional<uint64_t> lookback_ns;
  std::optional<StepPlan> steps;
  size_t workers_by_ordinal = 0;  // how many workers count their steps by ordinal
};

// Writes a delivery to disk; runs in a write thread.
using DeliveryWriter =
    std::function<WorkerOutcome(size_t index, Delivery* delivery, ManifestWorker* account)>;

class FanOutState;

// Makes all decisions of a capture on the thread that calls Run; callbacks of workers and the write
// threads only post to its mailbox. Needs no thread per worker.
class FanOut {
 public:
  // `stems[i]` names the files of endpoints[i]. `progress` must outlive this.
  FanOut(std::vector<Endpoint> endpoints, std::vector<std::string> stems, FanOutOptions options,
         WorkerFactory factory, DeliveryWriter writer, Progress* progress);
  ~FanOut();
  FanOut(const FanOut&) = delete;
  FanOut& operator=(const FanOut&) = delete;

  // Blocks until each worker has its outcome: at most connect and arm time and back-offs, then
  // delay, duration and transfer time. Call it once.
  std::vector<WorkerResult> Run();

  // Ends the capture early and keeps what was recorded. Thread-safe. May be called at any time,
  // also before Run; returns at once.
  void Interrupt();

  // After Run. Empty if no recording was requested.
  const StartFacts& facts() const;

 private:
  const std::unique_ptr<FanOutState> state_;
};

}  // namespace jobscope

#endif  // CLIENT_FAN_OUT_FAN_OUT_H_
