// SPDX-License-Identifier: Apache-2.0
//
// Drives a collector through one session without the session machinery, and reads the trace back
// with the protobuf classes.
#ifndef TESTS_COLLECTORS_HOST_SESSION_DRIVER_H_
#define TESTS_COLLECTORS_HOST_SESSION_DRIVER_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectors/collector.h"
#include "common/clock/clock.h"
#include "common/xspace/assemble/assembler.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/store.h"
#include "jobscope/v1/item.pb.h"
#include "tensorflow/xplane.pb.h"

namespace jobscope {

// One event, with its names looked up.
struct ReadEvent {
  std::string plane, line, name, display_name;
  int64_t line_id = 0;
  int64_t start_ps = 0, duration_ps = 0;
  std::map<std::string, int64_t> ints;  // int64 and uint64 stats
  std::map<std::string, double> doubles;
  std::map<std::string, std::string> texts;  // strings and references
  std::map<std::string, std::string> metadata_texts;

  int64_t end_ps() const { return start_ps + duration_ps; }
  bool Contains(const ReadEvent& other) const {
    return start_ps <= other.start_ps && other.end_ps() <= end_ps();
  }
};

// What a collector tells of its step window.
class RecordingSessionEvents : public SessionEvents {
 public:
  void OnStepWindowOpened(uint64_t ticks) override { opened = ticks; }
  void OnStepWindowClosed(uint64_t ticks) override { closed = ticks; }
  void OnClockJumped(uint64_t last_good_ticks) override { clock_held_until = last_good_ticks; }
  std::optional<uint64_t> opened, closed, clock_held_until;
};

class SessionDriver {
 public:
  explicit SessionDriver(Collector* collector, bool uses_tsc, size_t store_bytes = 64 << 20)
      : collector_(collector), uses_tsc_(uses_tsc), store_(store_bytes), names_(&store_) {
    request_.recording.host_tracer_level = 3;
    request_.sink = &store_;
    request_.names = &names_;
    request_.events = &events;
  }

  ArmRequest& request() { return request_; }
  // Of the next Start.
  void set_steps(StepRange steps) { start_.steps = steps; }
  void set_planned_end(uint64_t ticks) { start_.end_ticks = ticks; }
  void set_keep_zero(bool keep_zero) { start_.keep_zero = keep_zero; }
  uint64_t Now() const { return SampleClocks(uses_tsc_, 1).ticks; }
  xspace::Store& store() { return store_; }

  absl::Status Arm() { return collector_->Arm(request_); }
  // The window begins at `ticks`.
  absl::Status StartAt(uint64_t ticks) {
    map_ = Map(uses_tsc_).WithZero(ticks);
    start_.start_ticks = ticks;
    start_.map = map_;
    return collector_->Start(start_);
  }
  absl::Status Start() { return StartAt(Now()); }
  absl::Duration Drain() { return collector_->Drain(); }
  // Ends at `end_ticks`, and reads the trace.
  const CollectorReport& StopAt(uint64_t end_ticks) {
    EXPECT_TRUE(collector_->Stop(end_ticks).ok());
    report_ = collector_->Report();
    Read();
    return report_;
  }
  const CollectorReport& Stop() { return StopAt(Now()); }

  const CollectorReport& report() const { return report_; }
  const tensorflow::profiler::XSpace& space() const { return space_; }
  const std::vector<ReadEvent>& events_read() const { return read_; }
  const TickMap& map() const { return map_; }

  std::vector<ReadEvent> Named(const std::string& name) const {
    std::vector<ReadEvent> found;
    for (const ReadEvent& event : read_) {
      if (event.name == name) found.push_back(event);
    }
    return found;
  }
  // The only event of that name.
  ReadEvent One(const std::string& name) const {
    const std::vector<ReadEvent> found = Named(name);
    EXPECT_EQ(found.size(), 1u) << name;
    return found.empty() ? ReadEvent() : found[0];
  }
  template <typename Message>
  std::vector<Message> Items(xspace::ItemKind kind) const {
    std::vector<Message> found;
    for (const xspace::ItemView& item : store_.Items()) {
      if (item.kind != kind) continue;
      Message message;
      EXPECT_TRUE(message.ParseFromArray(item.body.data(), static_cast<int>(item.body.size())));
      found.push_back(std::move(message));
    }
    return found;
  }

  // attempted = events + lost + outside, in total and per thread; and `events` is what the trace
  // holds.
  void ExpectIdentity() const {
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

  RecordingSessionEvents events;

 private:
  struct StringByteSink : xspace::ByteSink {
    absl::Status Write(std::string_view bytes, bool /*stable*/) override {
      text.append(bytes);
      return absl::OkStatus();
    }
    std::string text;
  };

  // The rate is measured once per process; a real session has samples of the server's start.
  static const TickMap& Map(bool uses_tsc) {
    static const TickMap map = [uses_tsc] {
      const ClockSample early = SampleClocks(uses_tsc);
      ClockSample late = early;
      while (late.monotonic_ns - early.monotonic_ns < 20'000'000) late = SampleClocks(uses_tsc);
      return TickMap::FromSamples(early, late);
    }();
    return map;
  }

  void Read() {
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

  void ReadLine(const tensorflow::profiler::XPlane& plane,
                const tensorflow::profiler::XLine& line) {
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

  static void ReadStat(const tensorflow::profiler::XPlane& plane,
                       const tensorflow::profiler::XStat& stat, ReadEvent* read,
                       std::map<std::string, std::string>* texts) {
    const auto metadata = plane.stat_metadata().find(stat.metadata_id());
    ASSERT_NE(metadata, plane.stat_metadata().end());
    const std::string& key = metadata->second.name();
    switch (stat.value_case()) {
      case tensorflow::profiler::XStat::kInt64Value:
        read->ints[key] = stat.int64_value();
        break;
      case tensorflow::profiler::XStat::kUint64Value:
        read->ints[key] = static_cast<int64_t>(stat.uint64_value());
        break;
      case tensorflow::profiler::XStat::kDoubleValue:
        read->doubles[key] = stat.double_value();
        break;
      case tensorflow::profiler::XStat::kStrValue:
        (*texts)[key] = stat.str_value();
        break;
      case tensorflow::profiler::XStat::kRefValue: {
        const auto value = plane.stat_metadata().find(static_cast<int64_t>(stat.ref_value()));
        ASSERT_NE(value, plane.stat_metadata().end());
        (*texts)[key] = value->second.name();
        break;
      }
      default:
        ADD_FAILURE() << "stat " << key << " has no value";
    }
  }

  Collector* const collector_;
  const bool uses_tsc_;
  xspace::Store store_;
  xspace::Names names_;
  ArmRequest request_;
  StartRequest start_;
  TickMap map_;
  CollectorReport report_;
  tensorflow::profiler::XSpace space_;
  std::vector<ReadEvent> read_;
};

}  // namespace jobscope

#endif  // TESTS_COLLECTORS_HOST_SESSION_DRIVER_H_
