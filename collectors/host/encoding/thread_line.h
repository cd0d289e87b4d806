// SPDX-License-Identifier: Apache-2.0
//
// Writes the line of one thread: its events, its counter samples, its account.
#ifndef COLLECTORS_HOST_ENCODING_THREAD_LINE_H_
#define COLLECTORS_HOST_ENCODING_THREAD_LINE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collectors/host/encoding/account.h"
#include "common/containers/hash_table.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/segment.h"

namespace jobscope::host {

// Writes the line of one OS thread id, and its account. A thread that gets the id of an ended one
// continues its line. Belongs to the thread that drains.
//
// Each line also has its own builder for counter samples (they all go to the line `_counters_`), so
// that refusals of the store are known by thread.
class ThreadLine {
 public:
  ThreadLine(xspace::ItemSink* sink, xspace::Names* names, xspace::PlaneKey plane, int64_t tid,
             std::string_view name);
  ThreadLine(const ThreadLine&) = delete;
  ThreadLine& operator=(const ThreadLine&) = delete;

  int64_t tid() const { return tid_; }
  const std::string& name() const { return name_; }
  // Renames the line, also in the trace; at most 16 times, because each costs an item.
  void Rename(std::string_view name);

  void AddEvent(const xspace::SegmentEvent& event) {
    // The store has no space to declare the line or the event's name.
    if (!Open() || event.metadata_id == 0) {
      account.Lose(LossCause::kStoreFull);
      return;
    }
    dirty_ = true;
    ++added_;
    events_->Add(event);
    if (!open_steps_.empty()) ResolveSteps();
  }
  // Adds a whole step of a site; it is counted once it is in the trace.
  void AddStep(const xspace::SegmentEvent& event, uint32_t site);
  void AddCounter(const xspace::SegmentEvent& event);

  // Appends the open segments, so that a quiet thread does not hold them back.
  void Flush();
  // Flushes and frees the buffers: the thread has ended.
  void Retire();

  // Returns the number of the site's whole steps in the trace; valid after Flush.
  uint64_t steps(uint32_t site) const;
  // Flush adds what the builders accepted and refused; the draining code adds the rest.
  Account account;

 private:
  // Declares the line under its name.
  xspace::LineKey Declare();
  // Creates the builder of the events, unless it exists. False: the line is not declared.
  bool Open() {
    if (events_ == nullptr) CreateBuilder();
    return events_->IsDeclared();
  }
  void CreateBuilder();
  void Settle();
  void ResolveSteps();

  xspace::ItemSink* const sink_;
  xspace::Names* const names_;
  const xspace::PlaneKey plane_;
  const int64_t tid_;
  std::string name_;
  int renames_ = 0;
  bool dirty_ = false;
  std::unique_ptr<xspace::SegmentBuilder> events_;
  std::unique_ptr<xspace::SegmentBuilder> counters_;
  uint64_t settled_appended_ = 0;  // of events_ and counters_: already in `account`
  uint64_t settled_refused_ = 0;
  uint64_t added_ = 0;  // to events_
  // By site: another one may become the source of steps later.
  HashMap<uint32_t, uint64_t> steps_;
  // Steps in open segments, by their indices among the events added to events_; and what events_
  // had accepted and refused when last checked.
  struct OpenStep {
    uint64_t index;
    uint32_t site;
  };
  std::vector<OpenStep> open_steps_;
  uint64_t seen_appended_ = 0;
  uint64_t seen_refused_ = 0;
};

// By thread id; 0: threads without an account of their own.
using ThreadLines = HashMap<int64_t, std::unique_ptr<ThreadLine>>;

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_ENCODING_THREAD_LINE_H_
