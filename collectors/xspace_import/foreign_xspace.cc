// SPDX-License-Identifier: Apache-2.0
#include "collectors/xspace_import/foreign_xspace.h"

#include <unistd.h>

#include <algorithm>
#include <protozero/exception.hpp>
#include <protozero/pbf_writer.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "collectors/inferred/compilations.h"
#include "collectors/xspace_import/foreign_xspace_plane.h"
#include "collectors/xspace_import/foreign_xspace_reader.h"
#include "common/containers/hash_table.h"
#include "common/text/utf8.h"
#include "common/threads/thread_name.h"
#include "common/xspace/segment/segment.h"
#include "common/xspace/segment/stats.h"
#include "common/xspace/segment/trace_planes.h"
#include "common/xspace/wire/absl_view.h"
#include "common/xspace/wire/fields.h"

namespace jobscope::framework {
namespace {

constexpr std::string_view kTaskEnvironment = "Task Environment";
constexpr absl::string_view kGpuPrefix = "/device:GPU:";

// Ids for lines that are not threads but have the id of one.
constexpr int64_t kMaxThreadId = int64_t{1} << 22;  // kernel limit
constexpr int64_t kNoThread = int64_t{1} << 33;

constexpr int64_t kDayNs = int64_t{86'400} * 1'000'000'000;

constexpr size_t kMaxWarnings = 32;
constexpr size_t kMaxTextBytes = 500;

// Orders the framework's events below scopes of the same start and length.
constexpr uint32_t kDepth = 1 << 16;

std::optional<int64_t> ThreadOfThisProcess(int64_t line_id) {
  if (line_id <= 0 || line_id > kMaxThreadId) return std::nullopt;
  if (access(absl::StrCat("/proc/self/task/", line_id).c_str(), F_OK) != 0) return std::nullopt;
  return line_id;
}

// Returns when the framework began, from its own `Task Environment`.
std::optional<int64_t> StartTimeOf(std::string_view plane_bytes) {
  const ForeignPlane plane = ReadForeignPlane(plane_bytes);
  for (const std::string_view bytes : plane.stats) {
    const ForeignStat stat = ReadForeignStat(bytes);
    if (plane.StatName(stat.metadata_id) == "profile_start_time" && stat.integer != 0) {
      return static_cast<int64_t>(stat.integer);
    }
  }
  return std::nullopt;
}

}  // namespace

// Encodes the events of one plane anew.
class ForeignXSpace::PlaneMerge {
 public:
  PlaneMerge(ForeignXSpace* owner, const ForeignPlane* foreign, const ForeignTime* time,
             const ForeignWindow* window, int64_t start_unix_ns)
      : owner_(owner),
        foreign_(foreign),
        time_(time),
        window_(window),
        start_unix_ns_(start_unix_ns),
        is_host_(foreign->name == kHostPlaneName) {}

  void Run() {
    (void)Plane();  // is declared even without events
    if (!is_host_) CopyPlaneStats();
    const bool marked = is_host_ && (owner_->account_.steps_marked || HasStepMarks(*foreign_));
    CallSteps steps;
    const std::optional<StepCalls>& calls = owner_->options_.step_calls;
    if (is_host_ && calls.has_value() && !owner_->options_.drop_steps && !marked) {
      steps = FindCallSteps(*foreign_, *calls, owner_->account_.inferred_from);
    }
    for (size_t i = 0; i < foreign_->lines.size(); ++i) {
      Line(ReadForeignLine(foreign_->lines[i]),
           !steps.call.empty() && i == steps.line ? &steps : nullptr);
    }
  }

 private:
  struct StatName {
    uint64_t as_key = 0;
    uint64_t as_text = 0;
    enum { kPlain, kRoot, kStepNumber, kLeftOut } kind = kPlain;
  };

  // What a full store refuses to declare is declared at its next use: the plane here, and below
  // stats, events and lines.
  xspace::PlaneKey Plane() {
    if (plane_ == 0) {
      plane_ = owner_->names_->Plane(foreign_->name, is_host_ ? kHostPlaneId : foreign_->id);
    }
    return plane_;
  }

  uint64_t Stat(std::string_view name) { return owner_->names_->Stat(Plane(), name); }

  StatName& Key(uint64_t foreign_id) {
    StatName& stat = stats_by_id_[foreign_id];
    if (stat.as_key != 0 || stat.kind == StatName::kLeftOut) return stat;
    const std::string_view name = foreign_->StatName(foreign_id);
    if (name == "_r") {
      stat.kind = StatName::kRoot;
    } else if (name == "step_num") {
      stat.kind = StatName::kStepNumber;
    } else if (name.empty() || name == "group_id") {
      // XProf does no grouping in a trace with group ids.
      stat.kind = StatName::kLeftOut;
      return stat;
    }
    stat.as_key = Stat(name);
    return stat;
  }

  uint64_t Text(uint64_t foreign_id) {
    StatName& stat = stats_by_id_[foreign_id];
    if (stat.as_text == 0) stat.as_text = Stat(foreign_->StatName(foreign_id));
    return stat.as_text;
  }

  void Encode(uint64_t key, const ForeignStat& stat, xspace::StatsEncoder* out) {
    switch (stat.type) {
      case ForeignStat::Type::kDouble:
        out->Double(key, stat.number);
        break;
      case ForeignStat::Type::kUint64:
        out->Uint64(key, stat.integer);
        break;
      case ForeignStat::Type::kInt64:
        out->Int64(key, static_cast<int64_t>(stat.integer));
        break;
      case ForeignStat::Type::kString:
        out->String(key, stat.text);
        break;
      case ForeignStat::Type::kBytes:
        out->Bytes(key, stat.text);
        break;
      case ForeignStat::Type::kRef:
        if (const uint64_t text = Text(stat.integer); text != 0) out->Ref(key, text);
        break;
      case ForeignStat::Type::kNone:
        break;
    }
  }

  void CopyPlaneStats() {
    xspace::StatsEncoder stats(xspace::StatsOf::kPlane);
    for (const std::string_view bytes : foreign_->stats) {
      const ForeignStat stat = ReadForeignStat(bytes);
      Encode(Key(stat.metadata_id).as_key, stat, &stats);
    }
    // Each XSpace of a session repeats these.
    std::string name(foreign_->name);
    if (owner_->planes_with_stats_.count(name) == 0 &&
        owner_->names_->AddPlaneStats(Plane(), stats.bytes())) {
      owner_->planes_with_stats_.insert(std::move(name));
    }
  }

  struct EventName {
    uint64_t id = 0;
    bool is_compilation = false;
  };

  EventName NameOf(uint64_t foreign_id) {
    EventName& event = event_names_[foreign_id];
    if (event.id != 0) return event;
    const ForeignEventMetadata metadata = foreign_->EventMetadata(foreign_id);
    xspace::StatsEncoder stats(xspace::StatsOf::kEventMetadata);
    for (const std::string_view bytes : metadata.stats) {
      const ForeignStat stat = ReadForeignStat(bytes);
      Encode(Key(stat.metadata_id).as_key, stat, &stats);
    }
    event.id = owner_->names_->Event(Plane(), metadata.name, metadata.display_name, stats.bytes());
    event.is_compilation = is_host_ && IsCompilation(metadata.name);
    return event;
  }

  int64_t DeclareLine(xspace::PlaneKey plane, const ForeignLine& line) {
    const std::string_view name = line.display_name.empty() ? line.name : line.display_name;
    if (!is_host_) return owner_->names_->EnsureLine(plane, line.id, name);
    const auto& thread_of = owner_->options_.thread_of;
    const std::optional<int64_t> tid =
        thread_of ? thread_of(line.id) : ThreadOfThisProcess(line.id);
    if (tid.has_value()) return owner_->names_->EnsureLine(plane, *tid, ThreadLineName(*tid));
    const bool could_be = line.id >= 0 && line.id <= kMaxThreadId;
    return owner_->names_->EnsureLine(plane, could_be ? line.id + kNoThread : line.id,
                                      name.empty() ? owner_->options_.origin : name);
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
    xspace::SegmentBuilder builder(owner_->sink_, owner_->options_.segment_source, [&] {
      const xspace::PlaneKey plane = Plane();
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
      ++owner_->account_.lost_by_cause[LossCause::kStoreFull];
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
      owner_->account_.steps = owner_->account_.steps.value_or(0) + open_steps_;
    }
    open_steps_ = 0;
    seen_appended_ = appended;
    seen_refused_ = refused;
  }

  void Close(xspace::SegmentBuilder* builder) {
    builder->Flush();
    CountSteps(*builder);
    owner_->account_.events += builder->appended_events();
    if (builder->refused_events() > 0) {
      owner_->account_.lost_by_cause[LossCause::kStoreFull] += builder->refused_events();
    }
  }

  // The part of an event within the window, with stats about what was cut off.
  struct Clipped {
    int64_t start_ps, end_ps;
    bool whole;
  };
  Clipped Clip(int64_t start_ps, int64_t end_ps) {
    const Clipped clipped = {std::max(start_ps, window_->start_ps),
                             std::min(end_ps, window_->end_ps),
                             start_ps >= window_->start_ps && end_ps <= window_->end_ps};
    if (clipped.whole) return clipped;
    encoded_.Int64(Stat("truncated"), 1);
    if (start_ps != clipped.start_ps) encoded_.Int64(Stat("true_start_ns"), start_ps / 1000);
    if (end_ps != clipped.end_ps) encoded_.Int64(Stat("true_end_ns"), end_ps / 1000);
    return clipped;
  }

  void Event(const ForeignEvent& event, xspace::SegmentBuilder* builder) {
    ForeignAccount& account = owner_->account_;
    if (event.is_aggregate) {
      ++account.attempted;
      ++account.lost_by_cause[LossCause::kInvalid];
      return;
    }
    const int64_t start_ps = time_->ToPs(begin_ns_, event.offset_ps);
    int64_t end_offset = 0;
    if (__builtin_add_overflow(event.offset_ps, std::max<int64_t>(0, event.duration_ps),
                               &end_offset)) {
      end_offset = INT64_MAX;
    }
    const int64_t end_ps = time_->ToPs(begin_ns_, end_offset);
    if (end_ps < window_->start_ps || start_ps > window_->end_ps) {
      ++account.attempted;
      ++account.outside;
      return;
    }
    encoded_.Clear();
    const Clipped clipped = Clip(start_ps, end_ps);
    const bool step_allowed = clipped.whole && !owner_->options_.drop_steps;
    bool root = false;
    bool numbered = false;
    ForEachField(event.bytes, xspace::xevent_field::kStats, [&](std::string_view bytes) {
      const ForeignStat stat = ReadForeignStat(bytes);
      const StatName& key = Key(stat.metadata_id);
      uint64_t id = key.as_key;
      if (key.kind == StatName::kRoot) {
        if (!step_allowed) return;
        root = true;
      } else if (key.kind == StatName::kStepNumber) {
        numbered = true;
        if (!step_allowed) id = Stat(clipped.whole ? "framework_step" : "clipped_step");
      }
      Encode(id, stat, &encoded_);
    });
    const EventName name = NameOf(event.metadata_id);
    if (name.is_compilation) encoded_.Int64(Stat(kCompilationStat), 1);
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
    ForeignAccount& account = owner_->account_;
    account.inferred_from = steps.call;
    xspace::StatsEncoder metadata(xspace::StatsOf::kEventMetadata);
    metadata.Int64(Stat("inferred"), 1);
    const uint64_t event_id = owner_->names_->Event(
        Plane(), absl::StrCat(owner_->options_.origin, " step"), {}, metadata.bytes());
    for (size_t i = 0; i + 1 < steps.boundaries_ps.size(); ++i) {
      const int64_t start_ps = time_->ToPs(begin_ns_, steps.boundaries_ps[i]);
      const int64_t end_ps = time_->ToPs(begin_ns_, steps.boundaries_ps[i + 1]);
      const int64_t number = owner_->next_step_++;
      // Only whole steps: a clipped one is not a step, and its content is there anyway.
      if (start_ps < window_->start_ps || end_ps > window_->end_ps) continue;
      encoded_.Clear();
      encoded_.Int64(Stat("_r"), 1);
      encoded_.Int64(Stat("step_num"), number);
      encoded_.Ref(Stat("inferred_from"), Stat(steps.call));
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

  ForeignXSpace* const owner_;
  const ForeignPlane* const foreign_;
  const ForeignTime* const time_;
  const ForeignWindow* const window_;
  const int64_t start_unix_ns_;
  const bool is_host_;
  xspace::PlaneKey plane_ = 0;
  HashMap<uint64_t, StatName> stats_by_id_;
  HashMap<uint64_t, EventName> event_names_;
  xspace::StatsEncoder encoded_{xspace::StatsOf::kEvent};
  // Of the current line: its begin, since the epoch; the steps of its open segment; and what its
  // builder had accepted and refused when last checked.
  int64_t begin_ns_ = 0;
  uint64_t open_steps_ = 0;
  uint64_t seen_appended_ = 0;
  uint64_t seen_refused_ = 0;
};

ForeignXSpace::ForeignXSpace(xspace::ItemSink* sink, xspace::Names* names, ForeignOptions options)
    : sink_(sink), names_(names), options_(std::move(options)) {}

ForeignXSpace::~ForeignXSpace() = default;

absl::Status ForeignXSpace::Merge(std::string_view bytes, const ForeignTime& time,
                                  const ForeignWindow& window) {
  try {
    MergePlanes(bytes, time, window);
  } catch (const protozero::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("what ", options_.origin, " recorded is not a complete XSpace (", error.what(),
                     "); what precedes the error is in the trace"));
  }
  return absl::OkStatus();
}

void ForeignXSpace::MergePlanes(std::string_view bytes, const ForeignTime& time,
                                const ForeignWindow& window) {
  const ForeignSpace space = ReadForeignSpace(bytes);
  TakeTexts(space.errors);
  TakeTexts(space.warnings);
  if (time.stepped()) {
    Warn(absl::StrCat("the system's clock was set while ", options_.origin,
                      " recorded: its events may have wrong times"));
  }
  int64_t start_unix_ns = time.start_unix_ns();
  for (const std::string_view plane : space.planes) {
    if (ReadForeignPlaneName(plane) != kTaskEnvironment) continue;
    const int64_t told = StartTimeOf(plane).value_or(start_unix_ns);
    // A start on another day than this recording cannot be right.
    const __int128 apart = __int128{told} - time.start_unix_ns();
    if (apart >= -kDayNs && apart <= kDayNs) start_unix_ns = told;
  }
  uint64_t gpu_events = 0;
  for (const std::string_view plane_bytes : space.planes) {
    const ForeignPlane plane = ReadForeignPlane(plane_bytes);
    if (plane.name == kTaskEnvironment) continue;
    const bool is_gpu = absl::StartsWith(xspace::AbslView(plane.name), kGpuPrefix);
    if (is_gpu && (options_.drop_gpu_planes || plane.lines.empty())) {
      for (const std::string_view line : plane.lines) gpu_events += ReadForeignLine(line).events;
    } else if (plane.lines.empty() && plane.name != kHostPlaneName) {
      KeepRaw(plane.name, plane_bytes);
    } else {
      PlaneMerge(this, &plane, &time, &window, start_unix_ns).Run();
    }
  }
  if (gpu_events > 0) {
    Warn(absl::StrCat(gpu_events, " GPU events of ", options_.origin,
                      " were left out: this capture has its own"));
  }
}

void ForeignXSpace::TakeTexts(const std::vector<std::string_view>& texts) {
  for (const std::string_view text : texts) {
    Warn(absl::StrCat(options_.origin, ": ", xspace::AbslView(text.substr(0, kMaxTextBytes))));
  }
}

void ForeignXSpace::Warn(std::string_view text) {
  std::vector<std::string>& warnings = account_.warnings;
  if (warnings.size() >= kMaxWarnings) return;
  std::string scratch;
  std::string clean(ToUtf8(text.substr(0, kMaxTextBytes), &scratch));
  if (std::find(warnings.begin(), warnings.end(), clean) == warnings.end()) {
    warnings.push_back(std::move(clean));
  }
}

void ForeignXSpace::KeepRaw(std::string_view name, std::string_view bytes) {
  size_t left_out = 0;
  std::string copied = CopyRawPlane(bytes, kMaxRawPlaneBytes, &left_out);
  if (left_out > 0) {
    Warn(absl::StrCat(left_out, " entries of ", options_.origin, "'s plane ",
                      xspace::AbslView(name), " were left out: it is larger than ",
                      kMaxRawPlaneBytes >> 20, " MiB"));
  }
  // A framework repeats everything it knows each time.
  std::string& kept = raw_planes_[std::string(name)];
  if (copied.size() < kept.size()) return;
  if (raw_bytes_ - kept.size() + copied.size() > kMaxRawBytes) {
    Warn(absl::StrCat(options_.origin, "'s plane ", xspace::AbslView(name),
                      " was left out: such planes are larger than ", kMaxRawBytes >> 20,
                      " MiB in all"));
    return;
  }
  raw_bytes_ += copied.size() - kept.size();
  kept = std::move(copied);
}

void ForeignXSpace::Finish() {
  for (const auto& [name, bytes] : raw_planes_) {
    if (bytes.empty()) continue;  // already left out
    std::string item;
    protozero::pbf_writer(item).add_bytes(xspace::raw_plane_field::kPlane, bytes);
    if (!sink_->Append(xspace::ItemKind::kRawPlane, item)) {
      Warn(absl::StrCat("the store had no room for ", options_.origin, "'s plane ", name));
    }
  }
  raw_planes_.clear();
  raw_bytes_ = 0;
}

}  // namespace jobscope::framework
