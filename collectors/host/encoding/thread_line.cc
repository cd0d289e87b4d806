// SPDX-License-Identifier: Apache-2.0
#include "collectors/host/encoding/thread_line.h"

#include <algorithm>

#include "common/xspace/segment/trace_planes.h"

namespace jobscope::host {
namespace {

constexpr int kMaxRenames = 16;

std::string LineName(std::string_view thread_name, int64_t tid) {
  if (tid == 0) return std::string(thread_name);
  std::string name(thread_name.empty() ? "thread" : thread_name);
  return name.append("/").append(std::to_string(tid));
}

}  // namespace

ThreadLine::ThreadLine(xspace::ItemSink* sink, xspace::Names* names, xspace::PlaneKey plane,
                       int64_t tid, std::string_view name)
    : sink_(sink), names_(names), plane_(plane), tid_(tid), name_(name) {
  (void)Declare();
}

xspace::LineKey ThreadLine::Declare() {
  return {plane_,
          names_->Line(plane_, tid_ == 0 ? kOtherThreadsLine : tid_, LineName(name_, tid_))};
}

void ThreadLine::Rename(std::string_view name) {
  if (name == name_ || renames_ == kMaxRenames) return;
  ++renames_;
  name_ = std::string(name);
  (void)Declare();
}

void ThreadLine::CreateBuilder() {
  events_ =
      std::make_unique<xspace::SegmentBuilder>(sink_, kSourceScopes, [this] { return Declare(); });
  settled_appended_ = settled_refused_ = 0;
  seen_appended_ = seen_refused_ = added_ = 0;
}

void ThreadLine::AddStep(const xspace::SegmentEvent& event, uint32_t site) {
  if (!Open()) {
    account.Lose(LossCause::kStoreFull);
    return;
  }
  if (event.metadata_id != 0) {
    if (open_steps_.empty()) {
      seen_appended_ = events_->appended_events();
      seen_refused_ = events_->refused_events();
    }
    open_steps_.push_back({added_, site});
  }
  AddEvent(event);
}

void ThreadLine::AddCounter(const xspace::SegmentEvent& event) {
  if (!Open() || event.metadata_id == 0) {
    account.Lose(LossCause::kStoreFull);
    return;
  }
  if (counters_ == nullptr) {
    counters_ = std::make_unique<xspace::SegmentBuilder>(sink_, kSourceCounters, [this] {
      return xspace::LineKey{plane_, names_->Line(plane_, kCountersLine, kCountersLineName)};
    });
  }
  dirty_ = true;
  counters_->Add(event);
}

void ThreadLine::ResolveSteps() {
  const uint64_t appended = events_->appended_events();
  const uint64_t closed = appended + events_->refused_events();
  if (closed == seen_appended_ + seen_refused_) return;
  // One Add or Flush closes one segment: it was accepted or refused as a whole.
  const auto end =
      std::lower_bound(open_steps_.begin(), open_steps_.end(), closed,
                       [](const OpenStep& step, uint64_t index) { return step.index < index; });
  if (appended != seen_appended_) {
    std::for_each(open_steps_.begin(), end, [this](const OpenStep& step) { ++steps_[step.site]; });
  }
  open_steps_.erase(open_steps_.begin(), end);
  seen_appended_ = appended;
  seen_refused_ = closed - appended;
}

uint64_t ThreadLine::steps(uint32_t site) const {
  const auto found = steps_.find(site);
  return found == steps_.end() ? 0 : found->second;
}

void ThreadLine::Flush() {
  if (!dirty_) return;
  dirty_ = false;
  events_->Flush();
  if (!open_steps_.empty()) ResolveSteps();
  if (counters_ != nullptr) counters_->Flush();
  Settle();
}

void ThreadLine::Settle() {
  uint64_t appended = events_->appended_events();
  uint64_t refused = events_->refused_events();
  if (counters_ != nullptr) {
    appended += counters_->appended_events();
    refused += counters_->refused_events();
  }
  account.in_trace += appended - settled_appended_;
  account.Lose(LossCause::kStoreFull, refused - settled_refused_);
  settled_appended_ = appended;
  settled_refused_ = refused;
}

void ThreadLine::Retire() {
  Flush();
  events_.reset();
  counters_.reset();
}

}  // namespace jobscope::host
