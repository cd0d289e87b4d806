// SPDX-License-Identifier: Apache-2.0
#include "server/session/summary.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/options/recording_options.h"
#include "common/process/identity.h"
#include "server/tasks/collector_state.h"

namespace jobscope {
namespace {

void AddReport(const CollectorReport& report, v1::CollectorState* state,
               LossesByCause* lost_by_cause, v1::Summary* summary) {
  uint64_t lost = 0;
  for (const auto& [cause, events] : report.lost_by_cause) {
    lost += events;
    (*lost_by_cause)[cause] += events;
  }
  state->set_events(report.events);
  state->set_lost(lost);
  summary->set_attempted(summary->attempted() + report.attempted);
  summary->set_events(summary->events() + report.events);
  summary->set_outside(summary->outside() + report.outside);
  summary->set_lost(summary->lost() + lost);
  if (report.steps.has_value()) {
    summary->set_has_steps(true);
    summary->set_steps(summary->steps() + *report.steps);
  }
  if (report.first_step.has_value() && report.last_step.has_value()) {
    summary->set_has_step_window(true);
    summary->set_first_step(*report.first_step);
    summary->set_last_step(*report.last_step);
    summary->set_steps_by_ordinal(report.steps_by_ordinal);
  }
  for (const CollectorReport::Thread& thread : report.threads) {
    v1::ThreadLoss* out = summary->add_threads();
    out->set_tid(thread.tid);
    out->set_name(CleanText(thread.name));
    out->set_attempted(thread.attempted);
    out->set_in_trace(thread.in_trace);
    out->set_lost(thread.lost);
    out->set_outside(thread.outside);
  }
  for (const std::string& warning : report.warnings) summary->add_warnings(CleanText(warning));
}

// The source of the steps in the trace; empty if any collector recorded marked ones, which take
// precedence.
std::string StepsInferredFrom(const std::vector<std::shared_ptr<CollectorTask>>& tasks) {
  std::string from;
  for (const auto& task : tasks) {
    const std::optional<CollectorReport> report = task->report();
    if (!report.has_value() || report->steps.value_or(0) == 0) continue;
    if (report->steps_inferred_from.empty()) return {};
    if (from.empty()) from = report->steps_inferred_from;
  }
  return from;
}

}  // namespace

v1::Summary MakeSummary(const SummaryInput& input) {
  const SessionOptions& options = *input.options;
  v1::Summary summary;
  summary.set_schema(1);
  summary.set_version(Version());
  *summary.mutable_identity() = input.identity;
  summary.set_session_id(options.session_id);
  v1::Options* effective = summary.mutable_options();
  if (options.duration != absl::InfiniteDuration()) {
    effective->set_duration_ns(static_cast<uint64_t>(absl::ToInt64Nanoseconds(options.duration)));
  }
  ToProto(options.recording, effective);
  effective->set_store_bytes(options.store_bytes);
  for (const std::string& name : options.ignored) effective->add_ignored(name);

  summary.set_zero_unix_ns(input.zero_unix_ns);
  summary.set_start_unix_ns(static_cast<uint64_t>(input.start_unix_ns));
  if (input.command.has_value()) {
    summary.set_client_zero_unix_ns(input.command->zero_unix_ns);
    summary.set_clock_uncertainty_ns(input.command->clock_uncertainty_ns);
    summary.set_clock_offset_ns(input.command->clock_offset_ns);
  }
  summary.set_duration_ns(input.duration_ns);
  summary.set_lookback_ns(input.lookback_ns);
  summary.set_late_ns(input.late_ns);
  summary.set_tick_source(input.uses_tsc ? "tsc" : "monotonic");
  if (input.ended_by.has_value()) summary.set_ended_by(Name(*input.ended_by));
  const bool until_stopped = options.duration == absl::InfiniteDuration() && !options.steps;
  const bool as_planned =
      options.steps ? input.ended_by == EndedBy::kSteps : input.ended_by == EndedBy::kDuration;
  summary.set_truncated(!as_planned && !(until_stopped && input.ended_by == EndedBy::kRequest));

  LossesByCause lost_by_cause;
  for (const auto& task : *input.tasks) {
    const std::optional<CollectorReport> report = task->report();
    v1::CollectorState state = StateOf(*task, report ? &*report : nullptr);
    if (report) AddReport(*report, &state, &lost_by_cause, &summary);
    *summary.add_collectors() = state;
  }
  summary.set_steps_inferred_from(CleanText(StepsInferredFrom(*input.tasks)));
  for (const v1::CollectorState& state : input.absent) *summary.add_collectors() = state;
  if (input.only_ceiling_reached) {
    // Collectors only see that the sink takes no events.
    const auto full = lost_by_cause.extract(LossCause::kStoreFull);
    if (!full.empty()) lost_by_cause[LossCause::kMaxTrace] += full.mapped();
  }
  Append(lost_by_cause, summary.mutable_lost_by_cause());
  for (const std::string& warning : input.warnings) summary.add_warnings(warning);
  for (const v1::CollectorState& state : summary.collectors()) {
    if (IsFault(Reported<CollectorState>(state.state()))) {
      summary.add_warnings(
          absl::StrCat("collector ", state.name(), " is ", state.state(), ": ", state.reason()));
    }
  }
  return summary;
}

bool AppendSummary(v1::Summary* summary, xspace::ItemSink* sink) {
  if (sink->Append(xspace::ItemKind::kSummary, summary->SerializeAsString())) return true;
  summary->clear_threads();
  summary->add_warnings("the store had no room for the account of each thread");
  return sink->Append(xspace::ItemKind::kSummary, summary->SerializeAsString());
}

}  // namespace jobscope
