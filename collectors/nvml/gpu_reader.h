// SPDX-License-Identifier: Apache-2.0
//
// Finds the GPUs of this process and reads them through NVML.
#ifndef COLLECTORS_NVML_GPU_READER_H_
#define COLLECTORS_NVML_GPU_READER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/nvml/nvml_api.h"
#include "collectors/nvml/visible_devices.h"

namespace jobscope::nvml {

// Publishes which NVML call runs and since when, for threads that do not wait for it. Thread-safe.
class CallWatch {
 public:
  void Begin(const char* call);
  void End() { call_.store(nullptr, std::memory_order_release); }
  // Returns the running call and its duration; null if there is none.
  const char* Running(absl::Duration* since) const;

 private:
  std::atomic<const char*> call_{nullptr};
  std::atomic<int64_t> begun_ns_{0};
};

// Describes one GPU or one MIG instance.
struct Gpu {
  Device device = nullptr;
  Device whole = nullptr;  // of a MIG instance: the whole GPU, which has clocks and power
  bool is_mig = false;
  std::optional<uint32_t> index;    // NVML's index of the whole GPU
  std::optional<uint32_t> ordinal;  // CUDA's number in this process, if known
  std::string name, uuid, pci_bus_id;
  int compute_major = 0;  // 0: unknown
  int compute_minor = 0;

  // Returns CUDA's number if known: that of the trace's planes.
  uint32_t number() const { return ordinal.value_or(index.value_or(0)); }
};

// One sample. An absent value is unknown or not provided by this GPU.
struct Reading {
  std::optional<uint32_t> utilization_percent, memory_utilization_percent;
  std::optional<uint64_t> memory_used_bytes, memory_total_bytes;
  std::optional<uint32_t> power_milliwatts, sm_clock_mhz, memory_clock_mhz, temperature_celsius;
  std::optional<uint64_t> limits;  // kLimit… bits
  uint32_t failed = 0;             // supported values that could not be read now
  std::string failure;             // reason of the last of them
  bool lost = false;               // the GPU is gone
};

// Selects the GPUs of this process.
struct GpuChoice {
  // UUIDs of CUDA's devices in CUDA's order, without prefix; absent: CUDA is not in use.
  std::optional<std::vector<std::string>> cuda_uuids;
  std::optional<std::vector<VisibleDevice>> visible;  // absent: all
  // Returns whether it takes whatever the driver knows.
  bool all() const { return !cuda_uuids.has_value() && !visible.has_value(); }
  bool operator==(const GpuChoice& other) const;
};

// Reads GPUs through NVML, which is initialised between Open and Close. Belongs to one thread; each
// call may hang, and is announced to the watch before.
class GpuReader {
 public:
  GpuReader(const Api* api, CallWatch* watch) : api_(api), watch_(watch) {}
  ~GpuReader() { Close(); }
  GpuReader(const GpuReader&) = delete;
  GpuReader& operator=(const GpuReader&) = delete;

  Result Open();
  void Close();
  bool is_open() const { return open_; }

  // Replaces gpus() and notes(). Returns an error if even the number of GPUs is unavailable.
  absl::Status Find(const GpuChoice& choice);
  const std::vector<std::shared_ptr<const Gpu>>& gpus() const { return gpus_; }
  // Returns notes about GPUs that exist but cannot be queried.
  const std::vector<std::string>& notes() const { return notes_; }

  // Reads a sample. A lost GPU is not queried again until the next Find.
  Reading Read(size_t index);

  std::string driver_version() const { return driver_version_; }
  int cuda_version() const { return cuda_version_; }  // 12040 = 12.4; 0: unknown

 private:
  template <typename Function, typename... Arguments>
  Result Call(const char* name, Function function, Arguments... arguments);
  // Reads one value of a sample. Returns true on success.
  template <typename Function, typename... Arguments>
  bool Ask(size_t gpu, uint32_t metric, Reading* reading, const char* name, Function function,
           Arguments... arguments);
  void FindByUuid(uint32_t ordinal, const std::string& uuid);
  bool FindByIndex(uint32_t index);
  void FindByVisible(const VisibleDevice& visible, uint32_t count);
  void Add(Device device, bool is_mig, std::optional<uint32_t> index,
           std::optional<uint32_t> ordinal);

  const Api* const api_;
  CallWatch* const watch_;
  bool open_ = false;
  std::string driver_version_;
  int cuda_version_ = 0;
  std::vector<std::shared_ptr<const Gpu>> gpus_;
  std::vector<uint32_t> unsupported_;  // by GPU: bits of metrics
  std::vector<bool> lost_;
  std::vector<std::string> notes_;
};

}  // namespace jobscope::nvml

#endif  // COLLECTORS_NVML_GPU_READER_H_
