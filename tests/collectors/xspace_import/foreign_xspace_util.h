// SPDX-License-Identifier: Apache-2.0
//
// Makes XSpaces as frameworks do, merges them, and reads the trace back with the protobuf classes.
#ifndef TESTS_COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_UTIL_H_
#define TESTS_COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_UTIL_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "collectors/xspace_import/foreign_xspace.h"
#include "common/xspace/assemble/assembler.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/store.h"
#include "tensorflow/xplane.pb.h"
#include "tests/collectors/gated_sink.h"

namespace jobscope::framework {

using tensorflow::profiler::XEvent;
using tensorflow::profiler::XLine;
using tensorflow::profiler::XPlane;
using tensorflow::profiler::XSpace;

// The instant at which the framework began, which is also the session's zero.
inline constexpr int64_t kStartUnixNs = 1'800'000'000'000'000'000;
inline constexpr uint64_t kStartTicks = 5'000'000'000;

// The clocks this long after the start; a tick is a nanosecond. REALTIME runs fast by `fast_ppm`.
inline ClockSample ClocksAfter(int64_t ns, double fast_ppm = 0) {
  ClockSample sample;
  sample.ticks = sample.monotonic_ns = kStartTicks + static_cast<uint64_t>(ns);
  const auto fast_ns = static_cast<int64_t>(static_cast<double>(ns) * fast_ppm * 1e-6);
  sample.realtime_ns = static_cast<uint64_t>(kStartUnixNs + ns + fast_ns);
  return sample;
}

inline TickMap MapOfTest() {
  return TickMap::FromSamples(ClocksAfter(-1'000'000'000), ClocksAfter(0)).WithZero(kStartTicks);
}

inline ForeignTime TimeOfTest() {
  return {MapOfTest(), ClocksAfter(0), ClocksAfter(1'000'000'000)};
}

// Builds one plane; ids are given by name.
class PlaneMaker {
 public:
  explicit PlaneMaker(XPlane* plane, const std::string& name) : plane_(plane) {
    plane->set_name(name);
  }

  XLine* Line(int64_t id, const std::string& name) {
    XLine* const line = plane_->add_lines();
    line->set_id(id);
    line->set_name(name);
    return line;
  }
  int64_t StatId(const std::string& name) {
    for (const auto& [id, metadata] : plane_->stat_metadata()) {
      if (metadata.name() == name) return id;
    }
    const int64_t id = 100 + plane_->stat_metadata_size();
    auto& metadata = (*plane_->mutable_stat_metadata())[id];
    metadata.set_id(id);
    metadata.set_name(name);
    return id;
  }
  int64_t EventId(const std::string& name) {
    for (const auto& [id, metadata] : plane_->event_metadata()) {
      if (metadata.name() == name) return id;
    }
    const int64_t id = 1000 + plane_->event_metadata_size();
    auto& metadata = (*plane_->mutable_event_metadata())[id];
    metadata.set_id(id);
    metadata.set_name(name);
    return id;
  }
  XEvent* Event(XLine* line, const std::string& name, int64_t offset_ns, int64_t duration_ns) {
    XEvent* const event = line->add_events();
    event->set_metadata_id(EventId(name));
    event->set_offset_ps(offset_ns * 1000);
    event->set_duration_ps(duration_ns * 1000);
    return event;
  }
  void Int(XEvent* event, const std::string& stat, int64_t value) {
    auto* const out = event->add_stats();
    out->set_metadata_id(StatId(stat));
    out->set_int64_value(value);
  }

 private:
  XPlane* const plane_;
};

// With the time at which the framework began, as its profiler says it.
inline XSpace SpaceOfTest() {
  XSpace space;
  PlaneMaker environment(space.add_planes(), "Task Environment");
  auto* const stat = space.mutable_planes(0)->add_stats();
  stat->set_metadata_id(environment.StatId("profile_start_time"));
  stat->set_uint64_value(kStartUnixNs);
  return space;
}

struct StringSink : xspace::ByteSink {
  absl::Status Write(std::string_view bytes, bool /*stable*/) override {
    text.append(bytes);
    return absl::OkStatus();
  }
  std::string text;
};

struct ReadEvent {
  std::string plane, line, name;
  int64_t line_id = 0;
  int64_t start_ps = 0, duration_ps = 0;
  std::map<std::string, int64_t> ints;
  std::map<std::string, double> doubles;
  std::map<std::string, std::string> texts;  // strings, references, bytes
  int64_t end_ps() const { return start_ps + duration_ps; }
};

// One session that takes nothing but foreign XSpaces.
class Merged {
 public:
  explicit Merged(ForeignOptions options = {}, size_t store_bytes = 64 << 20)
      : store_(store_bytes), names_(&sink_), merge_(&sink_, &names_, Named(std::move(options))) {}

  ForeignXSpace* operator->() { return &merge_; }
  GatedSink& sink() { return sink_; }
  absl::Status Merge(const XSpace& space, ForeignWindow window = {}) {
    return merge_.Merge(space.SerializeAsString(), TimeOfTest(), window);
  }

  // Ends the session and reads its trace.
  const XSpace& Read() {
    merge_.Finish();
    xspace::AssembleOptions options;
    options.hostname = "host";
    const std::vector<xspace::ItemView> items = store_.Items();
    auto assembler = xspace::Assembler::Create(items, options);
    EXPECT_TRUE(assembler.ok()) << assembler.status();
    if (!assembler.ok()) return space_;
    StringSink sink;
    EXPECT_TRUE(assembler->Write(0, &sink).ok());
    EXPECT_TRUE(space_.ParseFromString(sink.text));
    uint64_t events = 0;
    for (const XPlane& plane : space_.planes()) {
      for (const XLine& line : plane.lines()) {
        EXPECT_EQ(line.timestamp_ns(), 0);
        events += static_cast<uint64_t>(line.events_size());
      }
    }
    ExpectIdentity();
    EXPECT_EQ(events, merge_.account().events);
    return space_;
  }
  void ExpectIdentity() {
    const ForeignAccount& account = merge_.account();
    uint64_t lost = 0;
    for (const auto& [cause, count] : account.lost_by_cause) lost += count;
    EXPECT_EQ(account.attempted, account.events + account.outside + lost);
  }

  std::vector<ReadEvent> Events() const {
    std::vector<ReadEvent> found;
    for (const XPlane& plane : space_.planes()) {
      for (const XLine& line : plane.lines()) {
        for (const XEvent& event : line.events()) found.push_back(ReadOne(plane, line, event));
      }
    }
    return found;
  }
  std::vector<ReadEvent> Named(const std::string& name) const {
    std::vector<ReadEvent> found;
    for (ReadEvent& event : Events()) {
      if (event.name == name) found.push_back(std::move(event));
    }
    return found;
  }
  ReadEvent One(const std::string& name) const {
    const std::vector<ReadEvent> found = Named(name);
    EXPECT_EQ(found.size(), 1u) << name;
    return found.empty() ? ReadEvent() : found[0];
  }
  std::vector<const XPlane*> Planes(const std::string& name) const {
    std::vector<const XPlane*> found;
    for (const XPlane& plane : space_.planes()) {
      if (plane.name() == name) found.push_back(&plane);
    }
    return found;
  }

 private:
  static ForeignOptions Named(ForeignOptions options) {
    if (options.origin.empty()) options.origin = "Frame";
    options.segment_source = 77;
    return options;
  }
  static ReadEvent ReadOne(const XPlane& plane, const XLine& line, const XEvent& event) {
    ReadEvent read;
    read.plane = plane.name();
    read.line = line.name();
    read.line_id = line.id();
    read.name = plane.event_metadata().at(event.metadata_id()).name();
    read.start_ps = event.offset_ps();
    read.duration_ps = event.duration_ps();
    for (const auto& stat : event.stats()) {
      const std::string& key = plane.stat_metadata().at(stat.metadata_id()).name();
      if (stat.has_int64_value()) read.ints[key] = stat.int64_value();
      if (stat.has_uint64_value()) read.ints[key] = static_cast<int64_t>(stat.uint64_value());
      if (stat.has_double_value()) read.doubles[key] = stat.double_value();
      if (stat.has_str_value()) read.texts[key] = stat.str_value();
      if (stat.has_bytes_value()) read.texts[key] = stat.bytes_value();
      if (stat.has_ref_value()) {
        read.texts[key] = plane.stat_metadata().at(static_cast<int64_t>(stat.ref_value())).name();
      }
    }
    return read;
  }

  xspace::Store store_;
  GatedSink sink_{&store_};
  xspace::Names names_;
  ForeignXSpace merge_;
  XSpace space_;
};

}  // namespace jobscope::framework

#endif  // TESTS_COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_UTIL_H_
