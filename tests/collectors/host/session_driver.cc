// SPDX-License-Identifier: Apache-2.0
#include "tests/collectors/host/session_driver.h"

#include <string_view>

#include "common/xspace/assemble/assembler.h"

namespace jobscope {
namespace {

using tensorflow::profiler::XPlane;
using tensorflow::profiler::XStat;

struct StringByteSink : xspace::ByteSink {
  absl::Status Write(std::string_view bytes, bool /*stable*/) override {
    text.append(bytes);
    return absl::OkStatus();
  }
  std::string text;
};

// The rate is measured once per process; a real session has samples of the server's start.
const TickMap& Map(bool uses_tsc) {
  static const TickMap map = [uses_tsc] {
    const ClockSample early = SampleClocks(uses_tsc);
    ClockSample late = early;
    while (late.monotonic_ns - early.monotonic_ns < 20'000'000) late = SampleClocks(uses_tsc);
    return TickMap::FromSamples(early, late);
  }();
  return map;
}

void ReadStat(const XPlane& plane, const XStat& stat, ReadEvent* read,
              std::map<std::string, std::string>* texts) {
  const auto metadata = plane.stat_metadata().find(stat.metadata_id());
  ASSERT_NE(metadata, plane.stat_metadata().end());
  const std::string& key = metadata->second.name();
  switch (stat.value_case()) {
    case XStat::kInt64Value:
      read->ints[key] = stat.int64_value();
      break;
    case XStat::kUint64Value:
      read->ints[key] = static_cast<int64_t>(stat.uint64_value());
      break;
    case XStat::kDoubleValue:
      read->doubles[key] = stat.double_value();
      break;
    case XStat::kStrValue:
      (*texts)[key] = stat.str_value();
      break;
    case XStat::kRefValue: {
      const auto value = plane.stat_metadata().find(static_cast<int64_t>(stat.ref_value()));
      ASSERT_NE(value, plane.stat_metadata().end());
      (*texts)[key] = value->second.name();
      break;
    }
    default:
      ADD_FAILURE() << "stat " << key << " has no value";
  }
}

}  // namespace

SessionDriver::SessionDriver(Collector* collector, bool uses_tsc, size_t store_bytes)
    : collector_(collector), uses_tsc_(uses_tsc), store_(store_bytes), names_(&store_) {
  request_.recording.host_tracer_level = 3;
  request_.sink = &store_;
  request_.names = &names_;
  request_.events = &events;
}

SessionDriver::~SessionDriver() = default;

absl::Status SessionDriver::StartAt(uint64_t ticks) {
  map_ = Map(uses_tsc_).WithZero(ticks);
  start_.start_ticks = ticks;
  start_.map = map_;
  return collector_->Start(start_);
}

const CollectorReport& SessionDriver::StopAt(uint64_t end_ticks) {
  EXPECT_TRUE(collector_->Stop(end_ticks).ok());
  report_ = collector_->Report();
  Read();
  return report_;
}

std::vector<ReadEvent> SessionDriver::Named(const std::string& name) const {
  std::vector<ReadEvent> found;
  for (const ReadEvent& event : read_) {
    if (event.name == name) found.push_back(event);
  }
  return found;
}

ReadEvent SessionDriver::One(const std::string& name) const {
  const std::vector<ReadEvent> found = Named(name);
  EXPECT_EQ(found.size(), 1u) << name;
  return found.empty() ? ReadEvent() : found[0];
}

void SessionDriver::ExpectIdentity() const {
  uint64_t lost = 0;
  for (const auto& [cause, events] : report_.lost_by_cause) lost += events;
  EXPECT_EQ(report_.attempted, report_.events + lost + report_.outside);
  for (const CollectorReport::Thread& thread : report_.threads) {
    EXPECT_EQ(thread.attempted, thread.in_trace + thread.lost + thread.outside)
        << "thread " << thread.tid << ": in trace " << thread.in_trace << ", lost " << thread.lost
        << ", outside " << thread.outside;
  }
  EXPECT_EQ(report_.events, read_.size());
}

void SessionDriver::Read() {
  const std::vector<xspace::ItemView> items = store_.Items();
  xspace::AssembleOptions options;
  options.hostname = "host";
  auto assembler = xspace::Assembler::Create(items, options);
  ASSERT_TRUE(assembler.ok()) << assembler.status();
  ASSERT_EQ(assembler->parts().size(), 1u);
  StringByteSink sink;
  ASSERT_TRUE(assembler->Write(0, &sink).ok());
  ASSERT_TRUE(space_.ParseFromString(sink.text));
  for (const auto& plane : space_.planes()) {
    for (const auto& line : plane.lines()) ReadLine(plane, line);
  }
}

void SessionDriver::ReadLine(const XPlane& plane, const tensorflow::profiler::XLine& line) {
  EXPECT_EQ(line.timestamp_ns(), 0);
  int64_t last_start = 0;
  for (const auto& event : line.events()) {
    ReadEvent read;
    read.plane = plane.name();
    read.line = line.name();
    read.line_id = line.id();
    const auto metadata = plane.event_metadata().find(event.metadata_id());
    ASSERT_NE(metadata, plane.event_metadata().end());
    read.name = metadata->second.name();
    read.display_name = metadata->second.display_name();
    read.start_ps = event.offset_ps();
    read.duration_ps = event.duration_ps();
    EXPECT_GE(read.duration_ps, 1);
    EXPECT_GE(read.start_ps, last_start);
    last_start = read.start_ps;
    for (const auto& stat : event.stats()) ReadStat(plane, stat, &read, &read.texts);
    for (const auto& stat : metadata->second.stats()) {
      ReadStat(plane, stat, &read, &read.metadata_texts);
    }
    read_.push_back(std::move(read));
  }
}

}  // namespace jobscope
