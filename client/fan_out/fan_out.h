// SPDX-License-Identifier: Apache-2.0
//
// One capture of many workers: connects, arms, starts all at one instant, watches, gathers. One
// worker's trouble is its own.
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
#include "client/worker/outcome.h"
#include "client/worker/worker_client.h"
#include "common/net/endpoint.h"
#include "common/run/manifest.h"

namespace jobscope {

// Time limits. docs/design/client.md says how they were chosen.
struct FanOutTimes {
  absl::Duration connect = absl::Seconds(5);  // for one attempt: connection and Describe
  absl::Duration arm = absl::Seconds(20);     // for one attempt: until it is armed
  absl::Duration sync = absl::Seconds(2);     // for the pings that measure a clock
  absl::Duration transfer =
      absl::Seconds(120);  // from the planned end to the last byte of a worker that lives
  absl::Duration first_backoff =
      absl::Milliseconds(500);  // doubles; up to a quarter more by chance
  absl::Duration max_backoff = absl::Seconds(4);
  // Once everybody has been asked, a start that all wait for waits for nobody who needs this much
  // longer than the last one that became ready.
  absl::Duration gather = absl::Milliseconds(500);
  // An attempt that takes this much longer than usual leaves its place among max_parallel to
  // another, and goes on. Of 256 silent addresses, a thousand are so asked per second.
  absl::Duration stall = absl::Milliseconds(250);
  // A wanted first step that is farther ahead than this is waited for before the clocks are
  // measured; a start that is delayed, likewise.
  absl::Duration near = absl::Seconds(2);
};

enum class ProtocolChoice {
  kAuto,        // native where the worker speaks it
  kNative,      // others are refused
  kTensorflow,  // also with workers that speak the native one
};

struct FanOutOptions {
  std::string session_id;
  std::string repository_root;
  ProtocolChoice protocol = ProtocolChoice::kAuto;
  absl::Duration duration;  // zero, with a lookback: only what is there already
  absl::Duration delay;
  absl::Duration lookback;
  std::optional<StepsWanted> steps;  // instead of the duration, where there are any
  absl::Duration max_duration = absl::InfiniteDuration();  // of a recording of steps
  uint32_t host_tracer_level = 2;
  uint32_t device_tracer_level = 1;
  uint32_t python_tracer_level = 0;
  std::string frameworks = "auto";
  bool record_shapes = false;
  std::string device_tracer = "auto";
  int attempts = 3;
  // Connecting and arming, measuring clocks, and writing: of each at most so many at one time, but
  // for those that stall.
  size_t max_parallel = 256;
  std::optional<size_t> min_workers;  // fewer can be armed: nothing is recorded
  FanOutTimes times;
};

// What all workers of a run have in common.
struct StartFacts {
  std::optional<absl::Time> started;  // the chosen instant, on this machine's clock
  // Over the workers whose clock was measured: between the first and the last that began, and the
  // largest uncertainty of any.
  std::optional<uint64_t> spread_ns;
  std::optional<uint64_t> clock_uncertainty_ns;
  std::optional<uint64_t> lookback_ns;
  std::optional<StepPlan> steps;
  size_t workers_by_ordinal = 0;  // of those that were told steps
};

// Brings a delivery to disk; runs in a write thread.
using DeliveryWriter =
    std::function<Verdict(size_t index, Delivery* delivery, ManifestWorker* account)>;

class FanOutState;

// The decisions of a capture, all made on the thread that calls Run; callbacks of workers and the
// write threads only post to its mailbox. No thread per worker.
class FanOut {
 public:
  // `stems[i]` names the files of endpoints[i]. `progress` must outlive this.
  FanOut(std::vector<Endpoint> endpoints, std::vector<std::string> stems, FanOutOptions options,
         WorkerFactory factory, DeliveryWriter writer, Progress* progress);
  ~FanOut();
  FanOut(const FanOut&) = delete;
  FanOut& operator=(const FanOut&) = delete;

  // Blocks until each worker has its verdict: at most connect and arm time and back-offs, then
  // delay, duration and transfer time. Once.
  std::vector<WorkerResult> Run();

  // Ends the capture early and keeps what there is. Thread-safe, at any time, also before Run;
  // returns at once.
  void Interrupt();

  // After Run. Empty if recording was never asked to begin.
  const StartFacts& facts() const;

 private:
  const std::unique_ptr<FanOutState> state_;
};

}  // namespace jobscope

#endif  // CLIENT_FAN_OUT_FAN_OUT_H_
