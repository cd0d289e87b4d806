// SPDX-License-Identifier: Apache-2.0
//
// Composes a session's summary: everything that a trace says about the session besides its events.
#ifndef SERVER_SESSION_SUMMARY_H_
#define SERVER_SESSION_SUMMARY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/run/session_state.h"
#include "common/xspace/segment/item_sink.h"
#include "jobscope/v1/item.pb.h"
#include "server/session/session_options.h"
#include "server/tasks/collector_task.h"

namespace jobscope {

struct SummaryInput {
  const SessionOptions* options = nullptr;
  v1::Identity identity;
  bool uses_tsc = true;
  int64_t zero_unix_ns = 0;
  int64_t start_unix_ns = 0;            // 0: it never started
  std::optional<StartCommand> command;  // set if a command started the session
  uint64_t duration_ns = 0;
  uint64_t lookback_ns = 0;
  uint64_t late_ns = 0;
  std::optional<EndedBy> ended_by;  // absent: the session was refused
  // Collectors found no room for events because the trace had reached its ceiling, never because
  // the store was full.
  bool only_ceiling_reached = false;
  std::vector<std::string> warnings;
  std::vector<v1::CollectorState> absent;  // collectors that did not take part
  const std::vector<std::shared_ptr<CollectorTask>>* tasks = nullptr;
};

v1::Summary MakeSummary(const SummaryInput& input);

// Appends the summary; without the per-thread accounts if the store lacks room for all of it: those
// of a thousand threads can exceed what a small store has left. Returns false if there is no room
// for that either.
bool AppendSummary(v1::Summary* summary, xspace::ItemSink* sink);

}  // namespace jobscope

#endif  // SERVER_SESSION_SUMMARY_H_
