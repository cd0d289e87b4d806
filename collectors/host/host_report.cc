// SPDX-License-Identifier: Apache-2.0
#include "collectors/host/host_report.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "collectors/host/encoding/account.h"
#include "collectors/host/step_pattern.h"
#include "common/text/utf8.h"
#include "jobscope/v1/item.pb.h"

namespace jobscope::host {
namespace {

constexpr size_t kMaxReportedThreads = 1000;
// Number of steps that the recorder keeps.
constexpr size_t kMaxRecentSteps = 256;

// Sums all lines, and threads that have no ring and so no line.
Account SumOf(const ReportInput& input, const jobscope_totals& totals) {
  Account sum;
  for (const auto& [tid, line] : *input.lines) sum.Add(line->account);
  if (!input.recorded) return sum;
  const uint64_t no_ring = totals.no_ring_events - input.totals_at_start.no_ring_events;
  sum.attempted += no_ring;
  sum.Lose(LossCause::kNoRing, no_ring);
  const uint64_t reentered = totals.reentered_events - input.totals_at_start.reentered_events;
  const uint64_t known = sum.lost(LossCause::kReentered);
  if (reentered > known) {
    sum.attempted += reentered - known;
    sum.Lose(LossCause::kReentered, reentered - known);
  }
  return sum;
}

void AddThreads(const ReportInput& input, CollectorReport* report) {
  std::string scratch;
  for (const auto& [tid, line] : *input.lines) {
    const Account& account = line->account;
    // The kernel cuts a thread's name after 15 bytes, even within a character, and protobuf parsers
    // refuse a message with such a text.
    std::string name(ToUtf8(line->name(), &scratch));
    report->threads.push_back({tid, std::move(name), account.attempted, account.in_trace,
                               account.lost(), account.outside});
  }
  std::sort(report->threads.begin(), report->threads.end(), [](const auto& a, const auto& b) {
    if (a.lost != b.lost) return a.lost > b.lost;
    if (a.attempted != b.attempted) return a.attempted > b.attempted;
    return a.tid < b.tid;
  });
  if (report->threads.size() <= kMaxReportedThreads) return;
  report->warnings.push_back(absl::StrFormat("only %d of %d threads have an account of their own",
                                             kMaxReportedThreads, report->threads.size()));
  report->threads.resize(kMaxReportedThreads);
}

void AddWarnings(const ReportInput& input, const jobscope_totals& totals, CollectorReport* report) {
  // The session reports which limit was reached.
  if (input.full_after_s.has_value()) {
    report->warnings.push_back(
        absl::StrFormat("the capture had no room for events %.3f s after the start, and for %.3f s "
                        "in all: host events of that time are lost",
                        *input.full_after_s, input.full_for_s));
  }
  if (input.events_without_a_name) {
    report->warnings.push_back(
        "the process's dictionary of names is full: events that are named '(dictionary full)' had "
        "names of their own; give scopes fewer different names, and put what varies into an "
        "argument");
  }
  if (input.threads_without_ring > 0) {
    const uint64_t most = input.reader->max_listed_without_ring;
    const bool all_listed = most == 0 || input.threads_without_ring < most;
    report->warnings.push_back(
        absl::StrFormat("%s%d threads have no ring because the memory for rings is used up (%d "
                        "rings, %d MiB); raise "
                        "rings_cap_bytes, or lower ring_records",
                        all_listed ? "" : "at least ", input.threads_without_ring,
                        totals.ring_count, totals.ring_bytes >> 20));
  }
  if (input.reader->uses_tsc == 0) {
    report->warnings.push_back(
        "the time stamp counter cannot be used here: times are CLOCK_MONOTONIC, and an "
        "active scope costs more");
  }
}

// If something is called several times per iteration, each call was taken for a step.
void AddStepPattern(const ReportInput& input, CollectorReport* report) {
  if (report->steps_inferred_from.empty()) return;
  std::array<jobscope_step_info, kMaxRecentSteps> steps{};
  const size_t count = input.reader->recent_steps(steps.data(), steps.size());
  std::vector<double> lengths_s;
  for (size_t i = 0; i < count; ++i) {
    if (steps[i].end_ticks <= steps[i].begin_ticks) continue;  // still running
    lengths_s.push_back(static_cast<double>(steps[i].end_ticks - steps[i].begin_ticks) /
                        input.ticks_per_second);
  }
  const std::optional<StepPattern> pattern = FindStepPattern(lengths_s);
  if (!pattern.has_value()) return;
  report->warnings.push_back(absl::StrFormat(
      "the inferred steps alternate: one of %d takes %.3g ms, the others %.3g ms. If an iteration "
      "has %d of them, mark steps (jobscope.step)",
      pattern->period, pattern->long_s * 1e3, pattern->short_s * 1e3, pattern->period));
}

}  // namespace

uint64_t LostSoFar(const ReportInput& input) {
  jobscope_totals totals{};
  input.reader->totals(&totals);
  return SumOf(input, totals).lost();
}

void FillReport(const ReportInput& input, CollectorReport* report) {
  jobscope_totals totals{};
  input.reader->totals(&totals);
  const Account sum = SumOf(input, totals);
  report->attempted = sum.attempted;
  report->events = sum.in_trace;
  report->outside = sum.outside;
  for (size_t i = 0; i < sum.lost_by_cause.size(); ++i) {
    if (sum.lost_by_cause[i] != 0) {
      report->lost_by_cause[static_cast<LossCause>(i)] = sum.lost_by_cause[i];
    }
  }
  if (input.reader->step_count() > 0) {
    const uint32_t source = input.reader->step_source();
    report->steps = 0;
    for (const auto& [tid, line] : *input.lines) *report->steps += line->steps(source);
    report->steps_inferred_from = StepsInferredFrom(*input.reader);
    AddStepPattern(input, report);
  }
  AddThreads(input, report);
  AddWarnings(input, totals, report);
}

std::string StepsInferredFrom(const Reader& reader) {
  jobscope_site_info info{};
  const uint32_t source = reader.step_source();
  if (source == 0 || reader.site(source, &info) != 0) return {};
  if (info.role != JOBSCOPE_ROLE_INFERRED_STEP || info.name == nullptr) return {};
  std::string scratch;
  return std::string(ToUtf8(info.name, &scratch));
}

bool HasStepsBetween(const Reader& reader, uint64_t from_ticks, uint64_t to_ticks) {
  std::array<jobscope_step_info, kMaxRecentSteps> steps{};
  const size_t count = reader.recent_steps(steps.data(), steps.size());
  for (size_t i = 0; i < count; ++i) {
    if (steps[i].begin_ticks >= from_ticks && steps[i].begin_ticks <= to_ticks) return true;
  }
  const bool forgotten = count > 0 && reader.step_count() > count;
  return forgotten && steps[0].begin_ticks > from_ticks;
}

void FillStepWindow(const Reader& reader, const StepRange& wanted, CollectorReport* report) {
  jobscope_trigger_info trigger{};
  reader.trigger(&trigger);
  if (trigger.state != JOBSCOPE_TRIGGER_OPEN && trigger.state != JOBSCOPE_TRIGGER_CLOSED) return;
  report->steps_by_ordinal = wanted.by_ordinal;
  if (wanted.by_ordinal) {
    uint64_t first = 0;
    uint64_t last = 0;
    reader.trigger_ordinals(&first, &last);
    if (last == 0) last = reader.step_count();  // still in the window
    report->first_step = static_cast<int64_t>(first);
    report->last_step = static_cast<int64_t>(last);
  } else {
    report->first_step = trigger.first_step;
    report->last_step = trigger.last_step;
    if (trigger.state == JOBSCOPE_TRIGGER_OPEN) {
      std::array<jobscope_step_info, kMaxRecentSteps> steps{};
      const size_t count = reader.recent_steps(steps.data(), steps.size());
      report->last_step = count == 0 ? trigger.first_step : steps[count - 1].number;
    }
  }
  if (*report->first_step > wanted.first) {
    report->warnings.push_back(
        absl::StrFormat("step %d ended before recording could begin, or never came: recorded "
                        "from step %d on",
                        wanted.first, *report->first_step));
  }
}

bool AppendLoss(const CollectorReport& report, xspace::ItemSink* sink) {
  v1::Loss loss;
  loss.set_collector("host");
  Append(report.lost_by_cause, loss.mutable_causes());
  for (const CollectorReport::Thread& thread : report.threads) {
    v1::ThreadLoss* const entry = loss.add_threads();
    entry->set_tid(thread.tid);
    entry->set_name(thread.name);
    entry->set_attempted(thread.attempted);
    entry->set_in_trace(thread.in_trace);
    entry->set_lost(thread.lost);
    entry->set_outside(thread.outside);
  }
  return sink->Append(xspace::ItemKind::kLoss, loss.SerializeAsString());
}

}  // namespace jobscope::host
