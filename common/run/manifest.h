// SPDX-License-Identifier: Apache-2.0
//
// Defines the account of a run, capture.json: docs/manifest.md. Unknown values are absent, never 0.
#ifndef COMMON_RUN_MANIFEST_H_
#define COMMON_RUN_MANIFEST_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/run/outcome.h"
#include "common/run/reported.h"
#include "common/run/session_state.h"
#include "jobscope/v1/item.pb.h"
#include "jobscope/v1/profiler.pb.h"

namespace jobscope {

// Defines what first_step and last_step of a run are.
enum class StepsBy {
  kNumber,
  kOrdinal,  // they count the steps of each worker
  kMixed,    // numbers; for workers whose numbers do not increase, the steps at the same time
};
const char* Name(StepsBy by);

struct ManifestFile {
  // Path relative to the run directory: "<stem>.xplane.pb", "../<run>.part2/<stem>.xplane.pb".
  std::string path;
  uint64_t bytes = 0;
  std::optional<uint64_t> events;
};

struct ManifestCollector {
  std::string name;
  Reported<CollectorState> state;
  std::string reason;
  std::optional<uint64_t> events;
  std::optional<uint64_t> lost;
  bool absent = false;  // the worker has nothing that it could record
};

// Describes one GPU of a worker, as its driver reported when asked for its identity.
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

// Describes the session that occupies a busy worker.
struct ManifestBusy {
  std::string session_id;
  std::string peer;
  Reported<SessionPhase> state;
  std::optional<uint64_t> remaining_ms;
  std::optional<uint64_t> waiting;  // captures queued behind it
};

// Describes one worker. Empty strings are omitted, except `address` and `name`.
struct ManifestWorker {
  std::string address;
  std::string name;  // stem of its files
  Outcome outcome = Outcome::kFailed;
  Phase phase = Phase::kConnect;
  std::string reason;
  std::string same_as;  // with "duplicate": the address under which its process is recorded
  std::optional<int> grpc_code;
  std::optional<int> attempts;
  std::optional<Protocol> protocol;
  std::optional<bool> aligned;  // its timestamps are relative to the run's common zero
  std::vector<ManifestFile> files;
  std::optional<uint64_t> events;
  std::optional<uint64_t> lost;
  std::map<std::string, uint64_t> lost_by_cause;
  std::optional<uint64_t> steps;
  std::optional<int64_t> first_step;  // first of the requested steps
  std::optional<int64_t> last_step;
  // The numbers count this worker's steps and are not step numbers.
  std::optional<bool> steps_by_ordinal;
  std::optional<bool> steps_inferred;    // true: the program does not mark its steps
  std::string steps_source;              // if inferred: what was taken for steps
  std::optional<int64_t> start_unix_ns;  // the trace's zero
  std::optional<uint64_t> duration_ns;
  // Granted lookback: how much of the trace lies before the start.
  std::optional<uint64_t> lookback_ns;
  std::optional<int64_t> clock_offset_ns;
  std::optional<uint64_t> clock_uncertainty_ns;
  std::optional<uint64_t> late_ns;  // how long after the commanded start it began
  Reported<EndedBy> ended_by;
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
  std::string gpu_driver;               // the fields from here on are set only if it is
  std::string gpus_chosen_by;           // "CUDA", "CUDA_VISIBLE_DEVICES", "all"
  std::string gpu_reason;               // why there are none, or not all, of the GPUs
  std::optional<uint64_t> gpus_age_ms;  // age of the GPU numbers
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
  std::optional<int64_t> started_unix_ns;  // requested start of recording, on the client's clock
  std::optional<uint64_t> duration_ms;     // requested duration
  // Time between the first and the last worker that began to record. Uses the client's clock for
  // workers whose clock offset was measured; if none was, the workers' own clocks.
  std::optional<uint64_t> start_spread_ns;
  std::optional<uint64_t> clock_uncertainty_ns;  // largest of the clocks used
  std::optional<uint64_t> lookback_ns;           // granted lookback, equal in all traces
  std::optional<int64_t> first_step;             // requested from all workers with steps
  std::optional<int64_t> last_step;
  std::optional<StepsBy> steps_by;
  std::optional<uint64_t> events;  // sum over the workers that reported it
  std::optional<uint64_t> lost;    // likewise
  std::optional<int> exit_code;
  std::vector<ManifestWorker> workers;
  std::vector<std::string> not_sampled;  // addresses left out by --sample
};

// Returns true if a collector recorded but did not report: the trace lacks the end of its events.
bool AccountUnknown(const v1::Summary& summary);

// Appends a warning or an error from a worker, cut to 4,096 bytes. The 201st says that more were
// left out, and is the last.
void AddText(const std::string& foreign, std::vector<std::string>* texts);

// Copies what a worker reports about its session or about itself. `lost` stays absent if
// AccountUnknown; `lost_by_cause` then covers only the collectors that reported.
void FillFromSummary(const v1::Summary& summary, ManifestWorker* worker);
// Copies only states and reasons: nothing has been recorded yet.
void FillCollectors(const google::protobuf::RepeatedPtrField<v1::CollectorState>& states,
                    ManifestWorker* worker);
void FillFromDescription(const v1::DescribeResponse& description, ManifestWorker* worker);

// Sums events and losses of the workers; computes the spread of their starts unless it is set.
void FillTotals(Manifest* manifest);

}  // namespace jobscope

#endif  // COMMON_RUN_MANIFEST_H_
