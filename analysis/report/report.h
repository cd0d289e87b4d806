// SPDX-License-Identifier: Apache-2.0
//
// Defines the report before it is printed: docs/report.md.
#ifndef ANALYSIS_REPORT_REPORT_H_
#define ANALYSIS_REPORT_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/alignment/alignment.h"
#include "analysis/blame/advice.h"
#include "analysis/digest/digests.h"
#include "analysis/report/timeline.h"
#include "analysis/report/worker_row.h"
#include "analysis/steps/step_class.h"

namespace jobscope::analysis {

// A scope, operator or kernel behind a finding.
struct Culprit {
  std::string name;
  std::string source;               // file:line; empty: unknown
  double ms = 0;                    // per step
  bool at_least = false;            // some of the workers' digests may have left out more of it
  uint64_t compilations = 0;        // of that name, where it is one
  std::optional<double> others_ms;  // the others' median
  // Set if `others_ms` is not, because the others' digests may have left the name out.
  std::optional<double> others_at_most_ms;
};

// What limits the workers of a finding more than the others: means of a counter.
struct LimitFound {
  Limit limit = Limit::kHeat;
  double value = 0;
  double others = 0;  // median
};

// Time that is left out of the steps (rare.h): that of a class in so few of them that it may be the
// start of the program, or chance.
struct RareClass {
  StepClass step_class = StepClass::kCompilation;
  double ms = 0;        // mean of the workers, of all these steps
  size_t steps = 0;     // in which it lies
  size_t of_steps = 0;  // 0: the workers have different numbers of steps
};

// One answer of the report: which workers, what takes their time, and what a fix would gain. Blame
// and bounds set the numbers; verdict_text.h writes the sentences from them.
struct Finding {
  enum class Kind { kStraggler, kBound, kBalanced, kUndecidable } kind = Kind::kUndecidable;
  std::vector<size_t> workers;  // indices into Report::workers; empty: all
  std::string node;
  std::string gpu_model;  // set if these are all workers with such a GPU
  std::optional<StepClass> step_class;
  std::optional<double> class_ms;         // per step, of these workers
  std::optional<double> class_others_ms;  // the others' median
  // Set if part of the time of this class may be that of another one, which these workers do not
  // record: that one, and its median in those of the others that record it.
  std::optional<StepClass> unrecorded_class;
  std::optional<double> unrecorded_others_ms;
  // Set if the class is device compute, below the threshold of a bound: the class that takes most
  // of the rest, and can be reduced.
  std::optional<StepClass> next_class;
  std::optional<double> next_ms;
  // Set if their threads mostly slept in the time of this class, which no recorded wait explains:
  // how long per step.
  std::optional<double> asleep_ms;
  // Set if the class is host work or launches and bounds workers that use a device: how long per
  // step the device neither computes nor copies nor takes part in a collective; in input waits:
  // does not compute.
  std::optional<double> device_idle_ms;
  std::vector<LimitFound> limits;
  std::vector<RareClass> rare;  // not part of step_ms
  std::vector<Culprit> names;
  std::optional<double> step_ms;
  std::optional<double> mended_step_ms;
  std::optional<double> gain;  // set if a fix can gain time
  // Its 95 % interval. A single event has none, nor has a gain that is only known to be no larger.
  std::optional<double> gain_low;
  std::optional<double> gain_high;
  bool gain_at_most = false;
  // In how many steps these workers are late, or those of `latest`; 0: in general.
  size_t late_steps = 0;
  // If the class, or the next one, is waiting: who causes most of it.
  std::vector<size_t> latest;
  // Likewise: most of it is within steps that take as long for all workers.
  bool within_steps = false;
  std::optional<int64_t> single_step;  // step number, if it is a single event
  size_t last_count = 0;               // collectives at which these workers arrived last
  size_t last_of = 0;                  // of so many of one name and group
  std::string last_name;
  std::optional<double> wait_ms;  // per step, of the others
  // Sentences, written by verdict_text.h.
  std::string text;
  std::vector<std::string> why;
  std::string advice;
  std::string why_undecidable;
};

struct CollectiveRow {
  std::string name;
  std::string group;     // empty: unknown
  uint64_t count = 0;    // distinct operations
  uint64_t matched = 0;  // of these: all members are known
  double wait_ms = 0;    // over all workers
  double transfer_ms = 0;
  std::optional<uint64_t> bytes;
  std::map<size_t, uint64_t> last;  // worker -> how often it arrived last
};

struct NameRow {
  std::string name;
  StepClass step_class = StepClass::kHost;
  std::string source;
  uint64_t count = 0;
  double total_ms = 0;
  double self_ms = 0;
  double max_ms = 0;
  double share = 0;  // share of the self time of all names
  size_t workers = 0;
};

// All that a report shows, computed from the digests of one run. The outputs (text, JSON, HTML)
// only format it.
struct Report {
  std::string run;
  bool has_manifest = false;
  Alignment alignment;
  // The worker that arrived last at each matched collective, in order of time; absent: unknown.
  std::vector<std::optional<size_t>> last_arrivals;
  std::vector<WorkerRow> workers;
  std::vector<RareClass> rare;  // what `workers` lacks; empty: they are as measured
  Finding verdict;
  std::vector<Finding> findings;  // largest gain first
  std::vector<CollectiveRow> collectives;
  std::vector<NameRow> operators;  // largest self time first; at most 200
  std::vector<NameRow> kernels;
  // Names without a row, at most: those beyond the largest, and those that digests left out. A name
  // that several digests left out counts for each of them, and may have a row from another one.
  uint64_t operators_left_out = 0;
  std::optional<uint64_t> kernels_left_out;  // nullopt: some digest does not have it
  std::vector<Digests::Missing> missing;
  size_t expected_workers = 0;  // number that should be there
  std::vector<std::string> warnings;
  std::vector<ShownStep> timeline;
  std::string sure;  // one line: what the answer is based on
};

}  // namespace jobscope::analysis

#endif  // ANALYSIS_REPORT_REPORT_H_
