// SPDX-License-Identifier: Apache-2.0
#include "collectors/xspace_import/foreign_xspace_merge.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <protozero/exception.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectors/inferred/compilations.h"
#include "collectors/xspace_import/foreign_xspace_names.h"
#include "common/threads/thread_name.h"
#include "common/xspace/segment/segment.h"
#include "common/xspace/segment/stats.h"
#include "common/xspace/segment/trace_planes.h"
#include "common/xspace/wire/fields.h"

namespace jobscope::framework {
namespace {

// Ids for lines that are not threads but have the id of one.
constexpr int64_t kMaxThreadId = int64_t{1} << 22;  // kernel limit
constexpr int64_t kNoThread = int64_t{1} << 33;

// Orders the framework's events below scopes of the same start and length.
constexpr uint32_t kDepth = 1 << 16;

std::optional<int64_t> ThreadOfThisProcess(int64_t line_id) {
  if (line_id <= 0 || line_id > kMaxThreadId) return std::nullopt;
  if (access(absl::StrCat("/proc/self/task/", line_id).c_str(), F_OK) != 0) return std::nullopt;
  return line_id;
}

// Encodes the events of one plane anew.
class PlaneMerge {
 public:
  PlaneMerge(const ForeignPlane& foreign, const ForeignTime& time, const ForeignWindow& window,
             int64_t start_unix_ns, ForeignSession* session)
      : foreign_(foreign),
        time_(time),
        window_(window),
        start_unix_ns_(start_unix_ns),
        session_(session),
        names_(session->names, &foreign) {}

  void Run() {
    (void)names_.Plane();  // is declared even without events
    if (!names_.is_host()) CopyPlaneStats();
    const bool marked =
        names_.is_host() && (session_->account.steps_marked || HasStepMarks(foreign_));
    CallSteps steps;
    const std::optional<StepCalls>& calls = session_->options.step_calls;
    if (names_.is_host() && calls.has_value() && !session_->options.drop_steps && !marked) {
      steps = FindCallSteps(foreign_, *calls, session_->account.inferred_from);
    }
    for (size_t i = 0; i < foreign_.lines.size(); ++i) {
      Line(ReadForeignLine(foreign_.lines[i]),
           !steps.call.empty() && i == steps.line ? &steps : nullptr);
    }
  }

 private:
  using StatKey = ForeignPlaneNames::StatKey;

  void CopyPlaneStats() {
    xspace::StatsEncoder stats(xspace::StatsOf::kPlane);
    names_.Encode(foreign_.stats, &stats);
    std::string name(foreign_.name);
    if (session_->planes_with_stats.count(name) == 0 &&
        session_->names->AddPlaneStats(names_.Plane(), stats.bytes())) {
      session_->planes_with_stats.insert(std::move(name));
    }
  }

  int64_t DeclareLine(xspace::PlaneKey plane, const ForeignLine& line) {
    const std::string_view name = line.display_name.empty() ? line.name : line.display_name;
    if (!names_.is_host()) return session_->names->EnsureLine(plane, line.id, name);
    const auto& thread_of = session_->options.thread_of;
    const std::optional<int64_t> tid =
        thread_of ? thread_of(line.id) : ThreadOfThisProcess(line.id);
    if (tid.has_value()) return session_->names->EnsureLine(plane, *tid, ThreadLineName(*tid));
    const bool could_be = line.id >= 0 && line.id <= kMaxThreadId;
    return session_->names->EnsureLine(plane, could_be ? line.id + kNoThread : line.id,
                                       name.empty() ? session_->options.origin : name);
  }

  void Line(const ForeignLine& line, const CallSteps* steps) {
    if (line.events == 0) return;
    // As in profilers, a value that is not a time of day counts from the start. A line may begin
    // before the start, but not by a day.
    begin_ns_ = line.timestamp_ns;
    if (begin_ns_ < start_unix_ns_ - kDayNs &&
        __builtin_add_overflow(begin_ns_, start_unix_ns_, &begin_ns_)) {
      begin_ns_ = line.timestamp_ns;
    }
    xspace::SegmentBuilder builder(session_->sink, session_->options.segment_source, [&] {
      const xspace::PlaneKey plane = names_.Plane();
      return xspace::LineKey{plane, DeclareLine(plane, line)};
    });
    seen_appended_ = seen_refused_ = open_steps_ = 0;
    if (steps != nullptr) AddSteps(*steps, &builder);
    try {
      ForEachField(line.bytes, xspace::xline_field::kEvents,
                   [&](std::string_view bytes) { Event(ReadForeignEvent(bytes), &builder); });
    } catch (const protozero::exception&) {
      Close(&builder);
      throw;
    }
    Close(&builder);
  }

  // Adds an event; a step is counted once it is in the trace.
  void Add(const xspace::SegmentEvent& event, bool is_step, xspace::SegmentBuilder* builder) {
    if (event.metadata_id == 0 || !builder->IsDeclared()) {
      ++session_->account.lost_by_cause[LossCause::kStoreFull];
      return;
    }
    builder->Add(event);
    CountSteps(*builder);
    if (is_step) ++open_steps_;
  }

  // Counts the steps of a segment that was closed: it was accepted or refused as a whole.
  void CountSteps(const xspace::SegmentBuilder& builder) {
    const uint64_t appended = builder.appended_events();
    const uint64_t refused = builder.refused_events();
    if (appended == seen_appended_ && refused == seen_refused_) return;
    if (appended != seen_appended_ && open_steps_ > 0) {
      session_->account.steps = session_->account.steps.value_or(0) + open_steps_;
    }
    open_steps_ = 0;
    seen_appended_ = appended;
    seen_refused_ = refused;
  }

  void Close(xspace::SegmentBuilder* builder) {
    builder->Flush();
    CountSteps(*builder);
    session_->account.events += builder->appended_events();
    if (builder->refused_events() > 0) {
      session_->account.lost_by_cause[LossCause::kStoreFull] += builder->refused_events();
    }
  }

  // The part of an event within the window, with stats about what was cut off.
  struct Clipped {
    int64_t start_ps, end_ps;
    bool whole;
  };
  Clipped Clip(int64_t start_ps, int64_t end_ps) {
    const Clipped clipped = {std::max(start_ps, window_.start_ps), std::min(end_ps, window_.end_ps),
                             start_ps >= window_.start_ps && end_ps <= window_.end_ps};
    if (clipped.whole) return clipped;
    encoded_.Int64(names_.Stat("truncated"), 1);
    if (start_ps != clipped.start_ps) encoded_.Int64(names_.Stat("true_start_ns"), start_ps / 1000);
    if (end_ps != clipped.end_ps) encoded_.Int64(names_.Stat("true_end_ns"), end_ps / 1000);
    return clipped;
  }

  void Event(const ForeignEvent& event, xspace::SegmentBuilder* builder) {
    ForeignAccount& account = session_->account;
    if (event.is_aggregate) {
      ++account.attempted;
      ++account.lost_by_cause[LossCause::kInvalid];
      return;
    }
    const int64_t start_ps = time_.ToPs(begin_ns_, event.offset_ps);
    int64_t end_offset = 0;
    if (__builtin_add_overflow(event.offset_ps, std::max<int64_t>(0, event.duration_ps),
                               &end_offset)) {
      end_offset = INT64_MAX;
    }
    const int64_t end_ps = time_.ToPs(begin_ns_, end_offset);
    if (end_ps < window_.start_ps || start_ps > window_.end_ps) {
      ++account.attempted;
      ++account.outside;
      return;
    }
    encoded_.Clear();
    const Clipped clipped = Clip(start_ps, end_ps);
    const bool step_allowed = clipped.whole && !session_->options.drop_steps;
    bool root = false;
    bool numbered = false;
    ForEachField(event.bytes, xspace::xevent_field::kStats, [&](std::string_view bytes) {
      const ForeignStat stat = ReadForeignStat(bytes);
      const StatKey key = names_.Key(stat.metadata_id);
      uint64_t id = key.id;
      if (key.kind == StatKey::kRoot) {
        if (!step_allowed) return;
        root = true;
      } else if (key.kind == StatKey::kStepNumber) {
        numbered = true;
        if (!step_allowed) id = names_.Stat(clipped.whole ? "framework_step" : "clipped_step");
      }
      names_.Encode(id, stat, &encoded_);
    });
    const ForeignPlaneNames::EventName name = names_.Event(event.metadata_id);
    if (name.is_compilation) encoded_.Int64(names_.Stat(kCompilationStat), 1);
    xspace::SegmentEvent out;
    out.start_ps = clipped.start_ps;
    out.duration_ps = clipped.end_ps - clipped.start_ps;
    out.metadata_id = name.id;
    out.depth = kDepth;
    out.stats = encoded_.bytes();
    Add(out, root && numbered, builder);
    // Counted only here: an event whose bytes are truncated is no event.
    ++account.attempted;
    if (root && numbered) account.steps_marked = true;
  }

  void AddSteps(const CallSteps& steps, xspace::SegmentBuilder* builder) {
    ForeignAccount& account = session_->account;
    account.inferred_from = steps.call;
    xspace::StatsEncoder metadata(xspace::StatsOf::kEventMetadata);
    metadata.Int64(names_.Stat("inferred"), 1);
    const uint64_t event_id = session_->names->Event(
        names_.Plane(), absl::StrCat(session_->options.origin, " step"), {}, metadata.bytes());
    for (size_t i = 0; i + 1 < steps.boundaries_ps.size(); ++i) {
      const int64_t start_ps = time_.ToPs(begin_ns_, steps.boundaries_ps[i]);
      const int64_t end_ps = time_.ToPs(begin_ns_, steps.boundaries_ps[i + 1]);
      const int64_t number = session_->next_step++;
      // Only whole steps: a clipped one is not a step, and its content is there anyway.
      if (start_ps < window_.start_ps || end_ps > window_.end_ps) continue;
      encoded_.Clear();
      encoded_.Int64(names_.Stat("_r"), 1);
      encoded_.Int64(names_.Stat("step_num"), number);
      encoded_.Ref(names_.Stat("inferred_from"), names_.Stat(steps.call));
      xspace::SegmentEvent out;
      out.start_ps = start_ps;
      out.duration_ps = end_ps - start_ps;
      out.metadata_id = event_id;
      out.depth = kDepth - 1;
      out.stats = encoded_.bytes();
      ++account.attempted;
      Add(out, /*is_step=*/true, builder);
    }
  }

  const ForeignPlane& foreign_;
  const ForeignTime& time_;
  const ForeignWindow& window_;
  const int64_t start_unix_ns_;
  ForeignSession* const session_;
  ForeignPlaneNames names_;
  xspace::StatsEncoder encoded_{xspace::StatsOf::kEvent};
  // Of the current line: its begin, since the epoch; the steps of its open segment; and what its
  // builder had accepted and refused when last checked.
  int64_t begin_ns_ = 0;
  uint64_t open_steps_ = 0;
  uint64_t seen_appended_ = 0;
  uint64_t seen_refused_ = 0;
};

}  // namespace

void MergePlane(const ForeignPlane& plane, const ForeignTime& time, const ForeignWindow& window,
                int64_t start_unix_ns, ForeignSession* session) {
  PlaneMerge(plane, time, window, start_unix_ns, session).Run();
}

}  // namespace jobscope::framework
