// SPDX-License-Identifier: Apache-2.0
//
// Drives a collector through one session without the session machinery, and reads the trace back
// with the protobuf classes.
#ifndef TESTS_COLLECTORS_HOST_SESSION_DRIVER_H_
#define TESTS_COLLECTORS_HOST_SESSION_DRIVER_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectors/collector.h"
#include "common/clock/clock.h"
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
  explicit SessionDriver(Collector* collector, bool uses_tsc, size_t store_bytes = 64 << 20);
  ~SessionDriver();

  ArmRequest& request() { return request_; }
  // Of the next Start.
  void set_steps(StepRange steps) { start_.steps = steps; }
  void set_planned_end(uint64_t ticks) { start_.end_ticks = ticks; }
  void set_keep_zero(bool keep_zero) { start_.keep_zero = keep_zero; }
  uint64_t Now() const { return SampleClocks(uses_tsc_, 1).ticks; }
  xspace::Store& store() { return store_; }

  absl::Status Arm() { return collector_->Arm(request_); }
  // The window begins at `ticks`.
  absl::Status StartAt(uint64_t ticks);
  absl::Status Start() { return StartAt(Now()); }
  absl::Duration Drain() { return collector_->Drain(); }
  // Ends at `end_ticks`, and reads the trace.
  const CollectorReport& StopAt(uint64_t end_ticks);
  const CollectorReport& Stop() { return StopAt(Now()); }

  const CollectorReport& report() const { return report_; }
  const tensorflow::profiler::XSpace& space() const { return space_; }
  const std::vector<ReadEvent>& events_read() const { return read_; }
  const TickMap& map() const { return map_; }

  std::vector<ReadEvent> Named(const std::string& name) const;
  // The only event of that name.
  ReadEvent One(const std::string& name) const;
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
  void ExpectIdentity() const;

  RecordingSessionEvents events;

 private:
  void Read();
  void ReadLine(const tensorflow::profiler::XPlane& plane, const tensorflow::profiler::XLine& line);

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
