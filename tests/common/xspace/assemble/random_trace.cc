// SPDX-License-Identifier: Apache-2.0
#include "tests/common/xspace/assemble/random_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/segment.h"
#include "common/xspace/segment/stats.h"

namespace jobscope::xspace {
namespace {

using tensorflow::profiler::XEvent;
using tensorflow::profiler::XLine;
using tensorflow::profiler::XPlane;
using tensorflow::profiler::XStat;

constexpr size_t kStoreBytes = size_t{64} << 20;

// One plane: what Names and the reference know about it.
struct Plane {
  PlaneKey key = 0;
  XPlane* reference = nullptr;
  // Ids of the reference are made here, in another order than those of Names.
  std::map<std::string, int64_t> event_ids;
  std::map<std::string, int64_t> stat_ids;

  int64_t EventId(const std::string& name, const std::string& display_name) {
    const auto [found, added] =
        event_ids.emplace(name + '\0' + display_name, 1000 + event_ids.size());
    if (added) {
      auto& metadata = (*reference->mutable_event_metadata())[found->second];
      metadata.set_id(found->second);
      metadata.set_name(name);
      metadata.set_display_name(display_name);
    }
    return found->second;
  }
  int64_t StatId(const std::string& name) {
    const auto [found, added] = stat_ids.emplace(name, 5000 + stat_ids.size());
    if (added) {
      auto& metadata = (*reference->mutable_stat_metadata())[found->second];
      metadata.set_id(found->second);
      metadata.set_name(name);
    }
    return found->second;
  }
};

class Generator {
 public:
  explicit Generator(const RandomTraceOptions& options) : options_(options), random_(options.seed) {
    trace_.store = std::make_unique<Store>(kStoreBytes);
    names_ = std::make_unique<Names>(trace_.store.get());
  }

  RandomTrace Make() {
    const char* const plane_names[] = {"/host:CPU", "/device:GPU:0", "/device:CUSTOM:x",
                                       "g\u00fcr"};
    const size_t planes = 1 + Below(4);
    for (size_t i = 0; i < planes; ++i) MakePlane(plane_names[i], static_cast<int64_t>(i * 3));
    if (options_.with_extras && Below(2) == 0) MakeRawPlane();
    while (made_ < options_.events) MakeBurst();
    for (Line& line : lines_) {
      for (SegmentBuilder& builder : line.builders) builder.Flush();
    }
    if (options_.with_extras) MakeExtras();
    return std::move(trace_);
  }

 private:
  struct Line {
    size_t plane = 0;
    XLine* reference = nullptr;
    std::vector<SegmentBuilder> builders;  // one per source
    int64_t now_ps = 0;
    int shape = 0;
  };

  uint64_t Below(uint64_t limit) { return random_() % limit; }

  void MakePlane(const std::string& name, int64_t id) {
    Plane plane;
    plane.key = names_->Plane(name, id);
    plane.reference = trace_.reference.add_planes();
    plane.reference->set_name(name);
    plane.reference->set_id(id);
    if (Below(2) == 0) {
      StatsEncoder stats(StatsOf::kPlane);
      AddStats(&plane, &stats, plane.reference->mutable_stats());
      EXPECT_TRUE(names_->AddPlaneStats(plane.key, stats.bytes()));
    }
    planes_.push_back(std::move(plane));
    const size_t lines = 1 + Below(4);
    for (size_t i = 0; i < lines; ++i) MakeLine(planes_.size() - 1, static_cast<int64_t>(100 + i));
  }

  void MakeLine(size_t plane, int64_t id) {
    Line line;
    line.plane = plane;
    line.reference = planes_[plane].reference->add_lines();
    line.reference->set_id(id);
    line.reference->set_name(absl::StrCat("thread ", id));
    if (Below(3) == 0) names_->Line(planes_[plane].key, id, "an earlier name");
    EXPECT_EQ(names_->Line(planes_[plane].key, id, line.reference->name()), id);
    const size_t sources = 1 + Below(4);
    for (size_t source = 0; source < sources; ++source) {
      line.builders.emplace_back(trace_.store.get(), planes_[plane].key, id,
                                 static_cast<uint32_t>(source));
    }
    line.now_ps = static_cast<int64_t>(Below(1'000'000));
    line.shape = static_cast<int>(Below(4));
    lines_.push_back(std::move(line));
  }

  // A few events of one line from one source; sometimes its segment ends after them.
  void MakeBurst() {
    Line& line = lines_[Below(lines_.size())];
    const size_t source = Below(line.builders.size());
    const size_t count = 1 + Below(40);
    for (size_t i = 0; i < count; ++i) {
      switch (line.shape) {
        case 0:  // a nested tree, in completion order
          Nested(&line, source, 0);
          break;
        case 1:  // overlapping
          Add(&line, source, line.now_ps + static_cast<int64_t>(Below(50'000)),
              static_cast<int64_t>(Below(100'000)), 0);
          line.now_ps += static_cast<int64_t>(Below(1000));
          break;
        case 2:  // many at one instant, some of no length
          Add(&line, source, line.now_ps, static_cast<int64_t>(Below(3)),
              static_cast<uint32_t>(Below(3)));
          if (Below(10) == 0) line.now_ps += 5;
          break;
        default:  // anywhere at all, some from before the zero
          Add(&line, source, static_cast<int64_t>(Below(3'000'000'000'000)) - 1000,
              static_cast<int64_t>(Below(1'000'000'000)), 0);
      }
    }
    if (Below(8) == 0) line.builders[source].Flush();
  }

  void Nested(Line* line, size_t source, uint32_t depth) {
    const int64_t begin_ps = line->now_ps;
    line->now_ps += static_cast<int64_t>(Below(3)) * 1000;
    if (depth < 5) {
      for (size_t children = Below(3); children > 0; --children) Nested(line, source, depth + 1);
    }
    line->now_ps += static_cast<int64_t>(Below(3)) * 1000;
    Add(line, source, begin_ps, line->now_ps - begin_ps, depth);
  }

  void Add(Line* line, size_t source, int64_t start_ps, int64_t duration_ps, uint32_t depth) {
    Plane* const plane = &planes_[line->plane];
    ++made_;
    const std::string name = absl::StrCat("event ", Below(20));
    const std::string display_name = Below(10) == 0 ? "shown" : "";
    SegmentEvent event;
    event.start_ps = start_ps;
    event.duration_ps = duration_ps;
    event.depth = depth;
    event.metadata_id = names_->Event(plane->key, name, display_name);
    XEvent* const reference = line->reference->add_events();
    reference->set_metadata_id(plane->EventId(name, display_name));
    const int64_t end_ps = start_ps + duration_ps;
    reference->set_offset_ps(std::max<int64_t>(start_ps, 0));
    reference->set_duration_ps(std::max<int64_t>(end_ps - reference->offset_ps(), 1));
    StatsEncoder stats(StatsOf::kEvent);
    if (Below(3) == 0) AddStats(plane, &stats, reference->mutable_stats());
    event.stats = stats.bytes();
    line->builders[source].Add(event);
  }

  void AddStats(Plane* plane, StatsEncoder* stats,
                google::protobuf::RepeatedPtrField<XStat>* references) {
    const size_t count = 1 + Below(3);
    for (size_t i = 0; i < count; ++i) {
      const std::string name = absl::StrCat("stat ", Below(6));
      const uint64_t id = names_->Stat(plane->key, name);
      XStat* const reference = references->Add();
      reference->set_metadata_id(plane->StatId(name));
      switch (Below(6)) {
        case 0: {
          const auto value = static_cast<int64_t>(random_());
          stats->Int64(id, value);
          reference->set_int64_value(value);
          break;
        }
        case 1: {
          const uint64_t value = Below(1000);
          stats->Uint64(id, value);
          reference->set_uint64_value(value);
          break;
        }
        case 2: {
          const double value = static_cast<double>(Below(1000)) / 7;
          stats->Double(id, value);
          reference->set_double_value(value);
          break;
        }
        case 3: {
          const std::string value(Below(200), 's');
          stats->String(id, value);
          reference->set_str_value(value);
          break;
        }
        case 4: {
          const std::string value(Below(20), '\xfe');
          stats->Bytes(id, value);
          reference->set_bytes_value(value);
          break;
        }
        default: {
          const std::string value = absl::StrCat("value ", Below(5));
          stats->Ref(id, names_->Stat(plane->key, value));
          reference->set_ref_value(static_cast<uint64_t>(plane->StatId(value)));
        }
      }
    }
  }

  void MakeRawPlane() {
    XPlane raw;
    raw.set_name(Below(2) == 0 ? "/host:metadata" : "/device:CUSTOM:y");
    (*raw.mutable_event_metadata())[9].set_name("foreign");
    XLine* const line = raw.add_lines();
    for (size_t i = Below(50); i > 0; --i) line->add_events()->set_metadata_id(9);
    trace_.raw_planes.push_back(raw);
    v1::RawPlane item;
    item.set_plane(raw.SerializeAsString());
    EXPECT_TRUE(trace_.store->Append(ItemKind::kRawPlane, item.SerializeAsString()));
  }

  void MakeExtras() {
    v1::Loss loss;
    loss.set_collector("host");
    v1::LossByCause* const cause = loss.add_causes();
    cause->set_cause("overwritten");
    cause->set_events(17);
    EXPECT_TRUE(trace_.store->Append(ItemKind::kLoss, loss.SerializeAsString()));
    v1::Clock clock;
    clock.set_ticks(123);
    EXPECT_TRUE(trace_.store->Append(ItemKind::kClock, clock.SerializeAsString()));
    trace_.summary.set_schema(1);
    trace_.summary.set_zero_unix_ns(1'700'000'000'000'000'000);
    trace_.summary.set_duration_ns(3'000'000'000);
    trace_.summary.set_attempted(made_ + 17);
    trace_.summary.set_events(made_);
    trace_.summary.set_lost(17);
    *trace_.summary.add_lost_by_cause() = *cause;
    EXPECT_TRUE(trace_.store->Append(ItemKind::kSummary, trace_.summary.SerializeAsString()));
  }

  const RandomTraceOptions options_;
  std::mt19937_64 random_;
  RandomTrace trace_;
  std::unique_ptr<Names> names_;
  std::vector<Plane> planes_;
  std::vector<Line> lines_;
  size_t made_ = 0;
};

std::string StatName(const XPlane& plane, int64_t id) {
  const auto found = plane.stat_metadata().find(id);
  if (found == plane.stat_metadata().end()) {
    ADD_FAILURE() << "stat id " << id << " of plane " << plane.name() << " does not resolve";
    return "?";
  }
  EXPECT_EQ(found->second.id(), id);
  return found->second.name();
}

}  // namespace

RandomTrace MakeRandomTrace(const RandomTraceOptions& options) { return Generator(options).Make(); }

std::string Describe(const XPlane& plane, const XStat& stat) {
  const std::string name = StatName(plane, stat.metadata_id());
  switch (stat.value_case()) {
    case XStat::kDoubleValue:
      return absl::StrCat(name, "=double ", stat.double_value());
    case XStat::kUint64Value:
      return absl::StrCat(name, "=uint64 ", stat.uint64_value());
    case XStat::kInt64Value:
      return absl::StrCat(name, "=int64 ", stat.int64_value());
    case XStat::kStrValue:
      return absl::StrCat(name, "=str ", stat.str_value());
    case XStat::kBytesValue:
      return absl::StrCat(name, "=bytes ", stat.bytes_value());
    case XStat::kRefValue:
      return absl::StrCat(name, "=ref ", StatName(plane, static_cast<int64_t>(stat.ref_value())));
    case XStat::VALUE_NOT_SET:
      break;
  }
  return absl::StrCat(name, "=nothing");
}

std::string Describe(const XPlane& plane, const XEvent& event) {
  const auto found = plane.event_metadata().find(event.metadata_id());
  if (found == plane.event_metadata().end()) {
    ADD_FAILURE() << "event id " << event.metadata_id() << " of plane " << plane.name()
                  << " does not resolve";
    return "?";
  }
  EXPECT_EQ(found->second.id(), event.metadata_id());
  std::string text = absl::StrCat(event.offset_ps(), "+", event.duration_ps(), " ",
                                  found->second.name(), "/", found->second.display_name());
  for (const XStat& stat : event.stats()) absl::StrAppend(&text, " ", Describe(plane, stat));
  return text;
}

}  // namespace jobscope::xspace
