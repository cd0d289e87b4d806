// SPDX-License-Identifier: Apache-2.0
//
// Reads the files of one worker once, event by event.
#ifndef ANALYSIS_TRACE_TRACE_READER_H_
#define ANALYSIS_TRACE_TRACE_READER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "analysis/steps/partition.h"
#include "analysis/trace/allocator_samples.h"
#include "analysis/trace/collective_kernels.h"
#include "analysis/trace/counter_samples.h"
#include "analysis/trace/device_line.h"
#include "analysis/trace/host_line.h"
#include "analysis/trace/mapped_file.h"
#include "analysis/trace/name_table.h"
#include "analysis/trace/xspace_reader.h"
#include "jobscope/v1/item.pb.h"

namespace jobscope::analysis {

// Data read from a worker's files.
struct WorkerTrace {
  uint64_t events = 0;
  NameTable operators;
  NameTable kernels;
  // Threads, by the id of their lines; at most kMaxThreads.
  static constexpr size_t kMaxThreads = 65536;
  uint64_t threads_left_out = 0;  // number of lines of further threads
  std::map<int64_t, std::unique_ptr<HostLine>> threads;
  // Collectives that are on no thread's line.
  std::vector<CollectiveEvent> collectives;
  uint64_t of_unknown_group = 0;  // of these, CollectiveEvent::of_unknown_group
  bool has_device = false;
  bool has_clipped_step = false;
  DeviceTimes device_compute;
  DeviceTimes device_copy;
  CounterSamples counters;
  AllocatorSamples allocators;
  std::optional<v1::Summary> summary;  // of jobscope
  std::vector<std::string> hostnames;
  std::string gpu_model;  // of the first GPU; empty: not known
};

// A line with a larger time stamp counts from the epoch.
inline constexpr int64_t kEpochTimeNs = 1'000'000'000'000'000;

// Returns the time of an event. Recognises times that count from the epoch by `base_ns`.
Interval SpanOf(const LineHeader& header, const RawEvent& event, int64_t base_ns);

// A stretch of the events of one line of a file, from the end of the one before it, or from the
// line's begin: a second pass over the file reads those that it needs.
struct LineStretch {
  static constexpr size_t kMaxEvents = 256;
  size_t end_byte = 0;  // in the file
  Interval span;        // all of its events
};

// Reads one worker's files in order: parts share their zero and their lines.
class TraceReader {
 public:
  TraceReader() : trace_(std::make_unique<WorkerTrace>()) {}

  // Reads one file. INVALID_ARGUMENT: the bytes are not an XSpace, or truncated; the data before
  // the error stay in the trace. Never throws.
  absl::Status Read(std::string_view xspace) { return Read(xspace, nullptr); }
  // Likewise; keeps little of the file in memory. Returns also errors of file.status(): the trace
  // may then contain what is not in the file, and cannot be used.
  absl::Status Read(const MappedFile& file) { return Read(file.bytes(), &file); }
  // Returns the stretches of the file that was read last, in the order of the file.
  std::vector<LineStretch> TakeStretches() { return std::move(stretches_); }
  std::unique_ptr<WorkerTrace> Finish();
  // What SpanOf needs to find the same times again.
  int64_t base_ns() const { return base_ns_; }

 private:
  struct Plane;

  absl::Status Read(std::string_view xspace, const MappedFile* file);
  void ReadSpace(std::string_view xspace);
  void ReadEnvironment(std::string_view plane);
  void ReadGpuModel(std::string_view plane, const PlaneNames& names);
  void ReadHostLine(Plane* plane, std::string_view bytes);
  void ReadAsyncLine(Plane* plane, std::string_view bytes);
  void ReadDeviceLine(Plane* plane, std::string_view bytes);
  void ReadCounterLine(Plane* plane, std::string_view bytes);
  void AddHostEvent(Plane* plane, HostLine* line, const HostEvent& event, const RawEvent& raw);
  Interval Count(const LineHeader& header, const RawEvent& event);

  std::unique_ptr<WorkerTrace> trace_;
  CollectiveKernels kernels_;
  // Base of times in files that count from the epoch; 0 until the first such file.
  int64_t base_ns_ = 0;
  const char* file_ = nullptr;  // begin of the current file
  PassedPages passed_;
  std::vector<LineStretch> stretches_;
  size_t events_of_stretch_ = 0;  // the current line's last one; 0: the next event begins one
};

}  // namespace jobscope::analysis

#endif  // ANALYSIS_TRACE_TRACE_READER_H_
