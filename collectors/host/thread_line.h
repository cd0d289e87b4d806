// SPDX-License-Identifier: Apache-2.0
//
// The line of one thread: its events, its counter samples, its account.
#ifndef COLLECTORS_HOST_THREAD_LINE_H_
#define COLLECTORS_HOST_THREAD_LINE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "collectors/host/account.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/segment.h"

namespace jobscope::host {

// One per OS thread id: a thread that gets the id of one that ended continues its line. Belongs to
// the thread that drains.
//
// Each line has a builder of its own for counter samples too (they all go to the line
// `_counters_`): so what the store refuses is known thread by thread.
class ThreadLine {
 public:
  ThreadLine(xspace::ItemSink* sink, xspace::Names* names, xspace::PlaneKey plane, int64_t tid,
             std::string_view name);

  int64_t tid() const { return tid_; }
  const std::string& name() const { return name_; }
  // Renames the line, in the trace too; at most 16 times, because each costs an item.
  void Rename(std::string_view name);

  void AddEvent(const xspace::SegmentEvent& event) {
    // The store has no room for the declaration of the line, or of the event's name.
    if ((events_ == nullptr && !Open()) || event.metadata_id == 0) {
      account.Lose(LossCause::kStoreFull);
      return;
    }
    dirty_ = true;
    ++added_;
    events_->Add(event);
    if (!open_steps_.empty()) ResolveSteps();
  }
  // A whole step: counted once it is in the trace.
  void AddStep(const xspace::SegmentEvent& event);
  void AddCounter(const xspace::SegmentEvent& event);

  // Appends what is collected, so that it is not held back by a thread that has gone quiet.
  void Flush();
  // Flushes, and gives the buffers back: the thread has ended.
  void Retire();
  bool dirty() const { return dirty_; }

  // After Flush: whole steps in the trace.
  uint64_t steps() const { return steps_; }
  // What the builders took and refused is added by Flush; the rest by those who drain.
  Account account;

 private:
  // Declares the line under its name. False: the store has no room.
  bool Declare();
  // Makes the builder; declares the line first if that was refused before. False: refused again.
  bool Open();
  void Settle();
  void ResolveSteps();

  xspace::ItemSink* const sink_;
  xspace::Names* const names_;
  const xspace::PlaneKey plane_;
  const int64_t tid_;
  int64_t key_ = 0;  // 0: not declared
  std::string name_;
  int renames_ = 0;
  bool dirty_ = false;
  std::unique_ptr<xspace::SegmentBuilder> events_;
  std::unique_ptr<xspace::SegmentBuilder> counters_;
  uint64_t settled_appended_ = 0;  // of events_ and counters_, already in `account`
  uint64_t settled_refused_ = 0;
  uint64_t added_ = 0;  // to events_
  uint64_t steps_ = 0;
  // Steps whose segment is still open, as their number among the events added to events_; and what
  // events_ had taken and refused when they were last looked at.
  std::vector<uint64_t> open_steps_;
  uint64_t seen_appended_ = 0;
  uint64_t seen_refused_ = 0;
};

// By thread id; 0: the threads beyond those that are accounted for one by one.
using ThreadLines = absl::flat_hash_map<int64_t, std::unique_ptr<ThreadLine>>;

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_THREAD_LINE_H_
