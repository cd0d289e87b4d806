// SPDX-License-Identifier: Apache-2.0
//
// Resolves the names of a plane once: what each event id means for the report.
#ifndef ANALYSIS_TRACE_PLANE_EVENTS_H_
#define ANALYSIS_TRACE_PLANE_EVENTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analysis/trace/event_kinds.h"
#include "analysis/trace/name_table.h"
#include "analysis/trace/xspace_reader.h"

namespace jobscope::analysis {

// Facts about one event, from its stats.
struct EventFacts {
  bool root = false;  // `_r`
  std::optional<int64_t> step;
  bool clipped_step = false;  // a step that the recording cuts
  std::optional<int64_t> not_running_ns;
  std::optional<int64_t> cpu_ns;
  bool input = false;  // a stage of an input pipeline
  bool compilation = false;
  bool enqueue = false;     // IsEnqueue
  bool collective = false;  // has the mark of collectives, `process_group`, and is one itself
  std::string_view group;
  std::optional<int64_t> group_number;
  std::optional<int64_t> sequence;
  std::optional<uint64_t> bytes;
  uint32_t group_size = 0;
};

// Resolved metadata of an event.
struct EventMeaning {
  uint32_t name = 0;  // in the table
  EventKind kind = EventKind::kScope;
  EventFacts facts;                  // from the metadata's stats
  bool launches_collective = false;  // a launch of the kernel of a collective
};

// Resolves the events of one plane. Thread-compatible. The plane's bytes and the table must outlive
// it.
class PlaneEvents {
 public:
  // `of_device`: the names are those of kernels.
  PlaneEvents(PlaneNames names, NameTable* table, bool of_device);

  // The result is valid until the next call.
  const EventMeaning& MeaningOf(uint64_t metadata_id);
  // Returns the facts of the event itself, added to those of its metadata.
  EventFacts FactsOf(const RawEvent& event, const EventFacts& of_metadata) const;
  // Returns the number that a launch and what it launched have in common.
  std::optional<int64_t> CorrelationOf(const RawEvent& event) const;
  const PlaneNames& names() const { return names_; }

 private:
  enum class Fact : uint8_t {
    kNone,
    kRoot,
    kStep,
    kClippedStep,
    kRunDelay,
    kCpu,
    kStage,
    kCompilation,
    kGroup,
    kSequence,
    kBytes,
    kGroupSize,
  };

  void Take(const Stat& stat, EventFacts* facts) const;
  // Returns quickly whether none of these XEvent.stats fields contains a fact; false if unknown.
  bool HasNoFacts(std::string_view stats) const;
  Fact FactOf(uint64_t stat_id) const;
  EventMeaning Resolve(uint64_t metadata_id) const;

  PlaneNames names_;
  NameTable* table_;
  const bool of_device_;
  bool any_facts_ = false;
  std::vector<Fact> facts_;  // by stat id, for small ids
  absl::flat_hash_map<uint64_t, Fact> far_facts_;
  std::vector<std::optional<EventMeaning>> meanings_;  // by metadata id, for small ids
  absl::flat_hash_map<uint64_t, EventMeaning> far_meanings_;
  uint64_t source_stat_ = 0;
  uint64_t correlation_stat_ = 0;
};

}  // namespace jobscope::analysis

#endif  // ANALYSIS_TRACE_PLANE_EVENTS_H_
