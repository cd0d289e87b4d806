// SPDX-License-Identifier: Apache-2.0
//
// Lists the workers and files of a run directory, from the manifest or by a search of the
// directory.
#ifndef ANALYSIS_TRACE_RUN_FILES_H_
#define ANALYSIS_TRACE_RUN_FILES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/run/outcome.h"
#include "common/run/reported.h"

namespace jobscope::analysis {

// Describes one worker. Unknown values are empty or absent.
struct RunWorker {
  std::string name;
  std::string address;
  Reported<Outcome> outcome;
  std::string reason;
  std::string host;
  std::string executable;
  std::string steps_source;  // what its steps were inferred from
  std::optional<int64_t> rank;
  std::optional<int64_t> pid;
  std::optional<bool> aligned;
  std::optional<uint64_t> clock_uncertainty_ns;
  std::optional<uint64_t> lost;
  std::map<std::string, uint64_t> lost_by_cause;
  std::vector<std::string> files;  // paths of its parts, in order
};

struct RunFiles {
  std::string run;
  bool has_manifest = false;
  std::vector<RunWorker> workers;
  std::vector<std::string> warnings;
};

// Lists the files of one run; `directory` is <logdir>/plugins/profile/<run>. If the manifest cannot
// be read, adds a warning and searches the directory. NOT_FOUND: there is neither a trace nor a
// manifest.
absl::StatusOr<RunFiles> FindRunFiles(const std::string& directory);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_TRACE_RUN_FILES_H_
