// SPDX-License-Identifier: Apache-2.0
//
// Finds the GPUs of this process, and reads what NVML tells of them.
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

// Which call into NVML runs, and since when: read by those who do not wait for it. Thread-safe.
class CallWatch {
 public:
  void Begin(const char* call);
  void End() { call_.store(nullptr, std::memory_order_release); }
  // The call that runs, and for how long; null: none.
  const char* Running(absl::Duration* since) const;

 private:
  std::atomic<const char*> call_{nullptr};
  std::atomic<int64_t> begun_ns_{0};
};

// One GPU, or one MIG instance.
struct Gpu {
  Device device = nullptr;
  Device whole = nullptr;  // of an instance: the GPU around it, which has clocks and power
  bool is_mig = false;
  std::optional<uint32_t> index;    // NVML's, of the whole GPU
  std::optional<uint32_t> ordinal;  // CUDA's in this process, where that is known
  std::string name, uuid, pci_bus_id;
  int compute_major = 0;  // 0: not known
  int compute_minor = 0;

  // CUDA's number where it is known: that of the trace's planes.
  uint32_t number() const { return ordinal.value_or(index.value_or(0)); }
};

// What is absent is not known, or not told by this GPU.
struct Reading {
  std::optional<uint32_t> utilization_percent, memory_utilization_percent;
  std::optional<uint64_t> memory_used_bytes, memory_total_bytes;
  std::optional<uint32_t> power_milliwatts, sm_clock_mhz, memory_clock_mhz, temperature_celsius;
  std::optional<uint64_t> limits;  // kLimit… bits
  uint32_t failed = 0;             // values that this GPU has, and that could not be read now
  std::string failure;             // of the last of them
  bool lost = false;               // the GPU is gone
};

// What decides which GPUs are this process's.
struct GpuChoice {
  // UUIDs of CUDA's devices in their order, without a prefix; absent: CUDA is not in use.
  std::optional<std::vector<std::string>> cuda_uuids;
  std::optional<std::vector<VisibleDevice>> visible;  // absent: all
  bool operator==(const GpuChoice& other) const;
};

// Between Open and Close NVML is initialised. Belongs to one thread; each call may hang, and is
// announced to the watch before.
class GpuReader {
 public:
  GpuReader(const Api* api, CallWatch* watch) : api_(api), watch_(watch) {}
  ~GpuReader() { Close(); }
  GpuReader(const GpuReader&) = delete;
  GpuReader& operator=(const GpuReader&) = delete;

  Result Open();
  void Close();
  bool is_open() const { return open_; }

  // Replaces gpus() and notes(). An error if not even their number can be told.
  absl::Status Find(const GpuChoice& choice);
  const std::vector<std::shared_ptr<const Gpu>>& gpus() const { return gpus_; }
  // Of GPUs that are there and cannot be asked.
  const std::vector<std::string>& notes() const { return notes_; }

  // A GPU that was lost is not asked again until the next Find.
  Reading Read(size_t index);

  std::string driver_version() const { return driver_version_; }
  int cuda_version() const { return cuda_version_; }  // 12040 = 12.4; 0: not known

 private:
  template <typename Function, typename... Arguments>
  Result Call(const char* name, Function function, Arguments... arguments);
  // One value of a reading. Returns true if it was told.
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
  std::vector<uint32_t> untold_;  // by GPU: metrics that it does not have
  std::vector<bool> lost_;
  std::vector<std::string> notes_;
};

}  // namespace jobscope::nvml

#endif  // COLLECTORS_NVML_GPU_READER_H_
