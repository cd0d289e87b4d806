// SPDX-License-Identifier: Apache-2.0
//
// Queries NVML, on the only thread that does.
#ifndef COLLECTORS_NVML_GPU_MONITOR_H_
#define COLLECTORS_NVML_GPU_MONITOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "collectors/nvml/gpu_reader.h"

namespace jobscope::nvml {

// State of the GPUs as of `at`.
struct Snapshot {
  enum State {
    kUnknown,  // nobody has asked yet, or the first answer is pending
    kAbsent,   // no driver, or no GPU: `reason`
    kFailed,   // `reason`
    kKnown,
  };
  struct Entry {
    std::shared_ptr<const Gpu> gpu;
    Reading reading;
  };
  State state = kUnknown;
  std::string reason;
  std::string driver_version;
  int cuda_version = 0;
  std::string chosen_by;  // "CUDA", "CUDA_VISIBLE_DEVICES", "all"
  std::vector<Entry> gpus;
  std::vector<std::string> notes;
  absl::Time at;  // of SteadyNow
};

struct Sample {
  std::shared_ptr<const Gpu> gpu;
  uint64_t ticks = 0;
  Reading reading;
};

struct MonitorOptions {
  std::string library = kLibraryName;
  std::optional<std::string> visible_devices;  // CUDA_VISIBLE_DEVICES
  // Returns the UUIDs of CUDA's devices in this process; nullopt: CUDA is not in use. Called on the
  // monitor's thread, until it returns them.
  std::function<std::optional<std::vector<std::string>>()> cuda_devices;
  absl::Duration every = absl::Milliseconds(100);  // between samples
  // NVML is closed after this time without work: while it is open, this process holds the driver's
  // device files, and an administrator cannot reset a GPU that is otherwise unused.
  absl::Duration linger = absl::Seconds(10);
  absl::Duration hangs_after = absl::Seconds(2);
  absl::Duration retry_after = absl::Seconds(60);  // after an absent or failed driver
};

// Queries NVML on a thread of its own. Thread-safe; only Prepare waits for NVML. The thread starts
// with the first work and ends after some time without any; nothing is opened before. A hanging
// call blocks only that thread, and callers get the reason.
class GpuMonitor {
 public:
  explicit GpuMonitor(MonitorOptions options);
  ~GpuMonitor();  // the thread ends by itself
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;

  Snapshot Latest() const;
  // Returns whether there is no driver or no GPU and it is too early to retry: `Latest` gives the
  // reason.
  bool RemembersAbsence() const;
  // Returns "nvmlInit_v2 has not returned; the job is not affected"; empty if nothing hangs. No
  // time: `capture check` shows workers with equal reasons once.
  std::string Hang() const;

  // Requests a snapshot not older than `max_age`. `done` is called on the monitor's thread when it
  // is available or has failed. False: there is nothing to wait for (it is fresh enough, the
  // absence of a driver is remembered, a call hangs), and `done` is not called.
  bool Refresh(absl::Duration max_age, std::function<void()> done);
  // Searches for GPUs again. Blocks for at most `timeout`. False: no answer yet.
  bool Prepare(absl::Duration timeout);

  // Starts and stops sampling all GPUs. One session at a time.
  void StartSampling(bool uses_tsc);
  void StopSampling();
  std::vector<Sample> TakeSamples();
  struct SamplingCounts {
    uint64_t forgotten = 0;  // samples discarded because nobody took them
    absl::Duration slowest;  // slowest round over all GPUs
  };
  SamplingCounts Counts() const;

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace jobscope::nvml

#endif  // COLLECTORS_NVML_GPU_MONITOR_H_
