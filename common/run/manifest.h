// SPDX-License-Identifier: Apache-2.0
//
// The account of a run, capture.json: docs/manifest.md. What is not known is absent, never 0.
#ifndef COMMON_RUN_MANIFEST_H_
#define COMMON_RUN_MANIFEST_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "jobscope/v1/item.pb.h"
#include "jobscope/v1/profiler.pb.h"

namespace jobscope {

inline constexpr int kManifestSchema = 1;

struct ManifestFile {
  // Relative to the run directory: "<stem>.xplane.pb", "../<run>.part2/<stem>.xplane.pb".
  std::string path;
  uint64_t bytes = 0;
  std::optional<uint64_t> events;
};

struct ManifestCollector {
  std::string name;
  std::string state;  // "on", "off", "degraded", "failed", "wedged"
  std::string reason;
  std::optional<uint64_t> events;
  std::optional<uint64_t> lost;
};

// One GPU of a worker, as its driver told when it was asked who it is.
struct ManifestGpu {
  std::optional<uint32_t> index;         // the driver's
  std::optional<uint32_t> cuda_ordinal;  // the n of the trace's /device:GPU:<n>
  std::string name;
  std::string uuid;
  std::string pci_bus_id;
  std::string compute_capability;  // "9.0"
  std::optional<uint64_t> memory_total_bytes;
  std::optional<uint64_t> memory_used_bytes;
  std::optional<uint32_t> utilization_percent;
  std::optional<double> power_watts;
  std::optional<uint32_t> temperature_celsius;
  std::string failure;
};

// Who holds a worker that is busy.
struct ManifestBusy {
  std::string session_id;
  std::string peer;
  std::string state;
  std::optional<uint64_t> remaining_ms;
  std::optional<uint64_t> waiting;  // captures in line behind it
};

// One worker. Strings that are empty are left out, `address`, `name`, `outcome`, `phase` excepted.
struct ManifestWorker {
  std::string address;
  std::string name;     // stem of its files
  std::string outcome;  // see client/worker/outcome.h
  std::string phase;
  std::string reason;
  std::string same_as;  // with "duplicate": the address under which its process is recorded
  std::optional<int> grpc_code;
  std::optional<int> attempts;
  std::string protocol;         // "native", "tensorflow"
  std::optional<bool> aligned;  // its times are on the run's common zero
  std::vector<ManifestFile> files;
  std::optional<uint64_t> events;
  std::optional<uint64_t> lost;
  std::map<std::string, uint64_t> lost_by_cause;
  std::optional<uint64_t> steps;
  std::optional<int64_t> first_step;  // numbers of the steps that were asked for
  std::optional<int64_t> last_step;
  std::optional<bool> steps_by_ordinal;  // they count its steps, and are no numbers
  std::optional<bool> steps_inferred;    // true: the program does not mark its steps
  std::string steps_source;              // then: what was taken for them
  std::optional<int64_t> start_unix_ns;  // of the trace's zero
  std::optional<uint64_t> duration_ns;
  std::optional<uint64_t> lookback_ns;  // granted: so much of the trace lies before the start
  std::optional<int64_t> clock_offset_ns;
  std::optional<uint64_t> clock_uncertainty_ns;
  std::optional<uint64_t> late_ns;  // it began this much later than it was told to
  std::string ended_by;
  std::string version;  // of jobscope in the worker
  std::string host;
  std::optional<int64_t> pid;
  std::optional<int> rank;
  std::optional<int> local_rank;
  std::optional<int> world_size;
  std::string job;
  std::string executable;
  std::optional<ManifestBusy> busy;         // `capture check` only
  std::optional<double> step_time_ms;       // likewise
  std::optional<int64_t> current_step;      // likewise
  std::optional<uint64_t> max_duration_ms;  // likewise
  std::optional<uint64_t> store_bytes;      // likewise
  std::vector<ManifestGpu> gpus;
  std::string gpu_driver;               // version of it; what follows: only if there is one
  std::string gpus_chosen_by;           // "CUDA", "CUDA_VISIBLE_DEVICES", "all"
  std::string gpu_reason;               // why there are no GPUs, or not all
  std::optional<uint64_t> gpus_age_ms;  // of these numbers
  std::vector<ManifestCollector> collectors;
  std::vector<std::string> warnings;
  std::vector<std::string> errors;
};

struct Manifest {
  std::string verb = "capture";  // "capture", "check", "stop", "programmatic"
  std::string run;
  std::string run_directory;
  std::string client_version;
  std::map<std::string, std::string> options_text;
  std::map<std::string, int64_t> options_numbers;
  std::optional<int64_t>
      started_unix_ns;                  // when recording was asked to begin, on the client's clock
  std::optional<uint64_t> duration_ms;  // asked for
  // Between the first and the last worker that began to record: of those whose clocks were
  // measured, on the client's clock; if none was, as their own clocks tell.
  std::optional<uint64_t> start_spread_ns;
  std::optional<uint64_t> clock_uncertainty_ns;  // the largest of those
  std::optional<uint64_t> lookback_ns;           // granted: before the start in all traces
  std::optional<int64_t> first_step;             // that all workers with steps were to record
  std::optional<int64_t> last_step;
  // "number", "ordinal" (first_step and last_step count the steps of each worker), "mixed"
  // (numbers, and the steps at the same time of workers whose numbers do not rise).
  std::string steps_by;
  std::optional<uint64_t> events;  // of all workers of which it is known
  std::optional<uint64_t> lost;    // likewise
  std::optional<int> exit_code;
  std::vector<ManifestWorker> workers;
  std::vector<std::string> not_sampled;  // addresses that were given, and left out by --sample
};

// A collector recorded and did not report: the trace lacks the end of its events.
bool AccountUnknown(const v1::Summary& summary);

// Copies what a worker says about its session, or about itself. `lost` stays absent where
// AccountUnknown; `lost_by_cause` then is of the collectors that reported.
void FillFromSummary(const v1::Summary& summary, ManifestWorker* worker);
// States and reasons alone: nothing has been recorded yet.
void FillCollectors(const google::protobuf::RepeatedPtrField<v1::CollectorState>& states,
                    ManifestWorker* worker);
void FillFromDescription(const v1::DescribeResponse& description, ManifestWorker* worker);

// Sums events and lost of the workers; and, unless it is known already, the spread of their starts.
void FillTotals(Manifest* manifest);

// JSON, UTF-8 (bytes that are not are replaced), two spaces of indentation, a line break at the
// end.
std::string ManifestJson(const Manifest& manifest);

}  // namespace jobscope

#endif  // COMMON_RUN_MANIFEST_H_
