// SPDX-License-Identifier: Apache-2.0
//
// Makes the host collector's report of an ended session.
#ifndef COLLECTORS_HOST_HOST_REPORT_H_
#define COLLECTORS_HOST_HOST_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "collectors/collector.h"
#include "collectors/host/encoding/reader.h"
#include "collectors/host/encoding/thread_line.h"
#include "common/xspace/segment/item_sink.h"

namespace jobscope::host {

struct ReportInput {
  const Reader* reader = nullptr;
  const ThreadLines* lines = nullptr;
  bool recorded = false;               // the window was open
  bool events_without_a_name = false;  // the recorder's dictionary had no space for a site
  jobscope_totals totals_at_start{};
  double ticks_per_second = 1e9;
  uint64_t threads_without_ring = 0;
  // When the store was full first, in seconds after the zero, and for how long in total.
  std::optional<double> full_after_s;
  double full_for_s = 0;
};

// Returns the losses so far, in all lines and by threads without one.
uint64_t LostSoFar(const ReportInput& input);

// Fills in `report`, which may already have warnings.
void FillReport(const ReportInput& input, CollectorReport* report);

// Returns what the process's steps are inferred from; empty if the program marks them or there are
// none. Takes a microsecond, never blocks.
std::string StepsInferredFrom(const Reader& reader);

// Returns whether steps began within these ticks. The recorder knows the newest 256; if forgotten
// steps may lie within, the answer is true. Takes microseconds, never blocks.
bool HasStepsBetween(const Reader& reader, uint64_t from_ticks, uint64_t to_ticks);

// Fills in the numbers of the window's first and last step; of an open window, the newest begun
// one.
void FillStepWindow(const Reader& reader, const StepRange& wanted, CollectorReport* report);

// Appends the account of each thread. False: the store had no space.
bool AppendLoss(const CollectorReport& report, xspace::ItemSink* sink);

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_HOST_REPORT_H_
