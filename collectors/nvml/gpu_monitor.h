// SPDX-License-Identifier: Apache-2.0
//
// The one thread that talks to NVML.
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

// What is known of the GPUs, as of `at`.
struct Snapshot {
  enum State {
    kUnknown,  // nobody has asked yet, or the first answer has not come
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
  absl::Time at;
};

struct Sample {
  std::shared_ptr<const Gpu> gpu;
  uint64_t ticks = 0;
  Reading reading;
};

struct MonitorOptions {
  std::string library = kLibraryName;
  std::optional<std::string> visible_devices;  // CUDA_VISIBLE_DEVICES
  // UUIDs of the devices that CUDA has in this process; nullopt: it is not in use. Called on the
  // monitor's thread.
  std::function<std::optional<std::vector<std::string>>()> cuda_devices;
  absl::Duration every = absl::Milliseconds(100);  // between samples
  // NVML is given up after so long without work: while it is open, this process holds the driver's
  // device files, and a GPU without them could be reset by its administrator.
  absl::Duration linger = absl::Seconds(10);
  absl::Duration hangs_after = absl::Seconds(2);
  absl::Duration retry_after = absl::Seconds(60);  // a driver that is absent, or that failed
};

// Thread-safe; nothing here waits for NVML but Prepare. The thread begins with the first work, and
// ends when there has been none for a while; nothing is opened before. A call that hangs keeps that
// thread and nothing else: whoever asks meanwhile is told.
class GpuMonitor {
 public:
  explicit GpuMonitor(MonitorOptions options);
  ~GpuMonitor();  // the thread ends by itself
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;

  Snapshot Latest() const;
  // Whether there is no driver, or no GPU, and it is too early to look again: `Latest` says why.
  bool RemembersAbsence() const;
  // "nvmlInit_v2 has not returned for 3 s"; empty: nothing hangs.
  std::string Hang() const;

  // Asks for a snapshot that is not older than `max_age`; `done` is called when it is there, or
  // could not be had, on the monitor's thread. False: there is nothing to wait for (it is fresh
  // enough, the absence of a driver is remembered, a call hangs), and `done` is not called.
  bool Refresh(absl::Duration max_age, std::function<void()> done);
  // Finds the GPUs anew and waits for it, at most `timeout`. False: no answer yet.
  bool Prepare(absl::Duration timeout);

  // One session at a time. Samples of all GPUs, from now on.
  void StartSampling(bool uses_tsc);
  void StopSampling();
  std::vector<Sample> TakeSamples();
  struct SamplingCounts {
    uint64_t forgotten = 0;  // samples that nobody took, given up
    absl::Duration slowest;  // round over all GPUs
  };
  SamplingCounts Counts() const;

 private:
  struct State;
  static void Main(const std::shared_ptr<State>& state);
  static bool StartThread(const std::shared_ptr<State>& state);
  const std::shared_ptr<State> state_;
};

}  // namespace jobscope::nvml

#endif  // COLLECTORS_NVML_GPU_MONITOR_H_
