// SPDX-License-Identifier: Apache-2.0
#include "collectors/host/encoding/async_pairs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/xspace/segment/trace_planes.h"

namespace jobscope::host {

// Writes one XLine. Its segments hold events of several threads, so it remembers their owners until
// the store has accepted or refused them.
struct AsyncPairs::Lane {
  Lane(xspace::ItemSink* sink, xspace::LineDeclaration declare)
      : builder(sink, kSourceAsync, std::move(declare)) {}

  void Add(const xspace::SegmentEvent& event, ThreadLine* line) {
    if (event.metadata_id == 0) {
      line->account.Lose(LossCause::kStoreFull);
      return;
    }
    owners.push_back(line);
    builder.Add(event);
    Settle();
  }

  // A closed segment holds the oldest pending events.
  void Settle() {
    const uint64_t taken = builder.appended_events() - appended;
    const uint64_t refused = builder.refused_events() - this->refused;
    for (uint64_t i = 0; i < taken + refused; ++i) {
      Account& account = owners[i]->account;
      if (taken > 0) {
        ++account.in_trace;
      } else {
        account.Lose(LossCause::kStoreFull);
      }
    }
    owners.erase(owners.begin(), owners.begin() + static_cast<std::ptrdiff_t>(taken + refused));
    appended += taken;
    this->refused += refused;
  }

  xspace::SegmentBuilder builder;
  std::vector<ThreadLine*> owners;  // owners of the open segment's events, in the order of Add
  uint64_t appended = 0;
  uint64_t refused = 0;
  int64_t end_ps = 0;  // of its last event
};

AsyncPairs::AsyncPairs(const Reader* reader, xspace::ItemSink* sink, xspace::Names* names,
                       const Window* window, SiteTable* host_sites)
    : reader_(reader), sink_(sink), names_(names), window_(window), host_sites_(host_sites) {}

AsyncPairs::~AsyncPairs() = default;

SiteTable* AsyncPairs::sites() {
  // Without a plane (the store had no space for it) there are no names either: retry.
  if (sites_ == nullptr || sites_->plane() == 0) {
    sites_ =
        std::make_unique<SiteTable>(reader_, names_, names_->Plane(kAsyncPlaneName, kAsyncPlaneId));
  }
  return sites_.get();
}

void AsyncPairs::Begin(uint64_t id, AsyncHalf half) {
  const auto found = open_.find(id);
  if (found != open_.end() && found->second.is_end) {
    // Two records, one event: it belongs to the thread that began it.
    --found->second.half.line->account.attempted;
    const uint64_t end_ticks = found->second.half.ticks;
    open_.erase(found);
    Complete(id, std::move(half), end_ticks, /*ended=*/true);
    return;
  }
  if (found != open_.end()) {  // a second begin of one id: the first one never ended
    const uint64_t until = std::max(found->second.half.ticks, half.ticks);
    Complete(id, std::move(found->second.half), until, /*ended=*/false);
    found->second.half = std::move(half);
    return;
  }
  if (open_.size() >= kMaxOpen) DropOldestEnd();
  if (open_.size() >= kMaxOpen) {
    const uint64_t ticks = half.ticks;
    Complete(id, std::move(half), ticks, /*ended=*/false);
    return;
  }
  open_.emplace(id, Open{std::move(half), false, 0});
}

void AsyncPairs::End(uint64_t id, const AsyncHalf& half) {
  const auto found = open_.find(id);
  if (found != open_.end() && !found->second.is_end) {
    --half.line->account.attempted;
    AsyncHalf begin = std::move(found->second.half);
    open_.erase(found);
    Complete(id, std::move(begin), half.ticks, /*ended=*/true);
    return;
  }
  if (found != open_.end()) {  // a second end of one id
    PlaceEnd(id, half);
    return;
  }
  if (open_.size() >= kMaxOpen) DropOldestEnd();
  if (open_.size() >= kMaxOpen) {
    PlaceEnd(id, half);
    return;
  }
  // An end is read before its begin if its thread is; this is common, so matched ends are removed.
  if (ends_.size() >= 2 * kMaxOpen) {
    ends_.erase(std::remove_if(ends_.begin(), ends_.end(),
                               [this](const WaitingEnd& end) { return !Waits(end); }),
                ends_.end());
  }
  ends_.push_back({id, ++last_order_});
  open_.emplace(id, Open{half, true, last_order_});
}

bool AsyncPairs::Waits(const WaitingEnd& end) const {
  const auto found = open_.find(end.id);
  return found != open_.end() && found->second.is_end && found->second.order == end.order;
}

void AsyncPairs::DropOldestEnd() {
  while (!ends_.empty()) {
    const WaitingEnd oldest = ends_.front();
    ends_.pop_front();
    if (!Waits(oldest)) continue;
    const auto found = open_.find(oldest.id);
    PlaceEnd(oldest.id, found->second.half);
    open_.erase(found);
    return;
  }
}

void AsyncPairs::Complete(uint64_t id, AsyncHalf begin, uint64_t end_ticks, bool ended) {
  done_.push_back({id, std::move(begin), end_ticks, ended});
  if (done_.size() >= kMaxDone) PlaceDone();
}

void AsyncPairs::PlaceDone() {
  std::sort(done_.begin(), done_.end(),
            [](const Done& a, const Done& b) { return a.begin.ticks < b.begin.ticks; });
  for (const Done& done : done_) Place(done);
  done_.clear();
}

void AsyncPairs::Place(const Done& done) {
  const AsyncHalf& begin = done.begin;
  const uint64_t end_ticks = done.end_ticks;
  Account& account = begin.line->account;
  if (end_ticks < begin.ticks) {  // its id was used twice, or clocks differ
    account.Lose(LossCause::kInvalid);
    return;
  }
  if (!window_->Intersects(begin.ticks, end_ticks)) {
    ++account.outside;
    return;
  }
  SiteTable* const table = sites();  // a second call could replace it
  const Site* const site = table->Find(begin.site);
  if (site == nullptr) {
    account.Lose(LossCause::kInvalid);
    return;
  }
  const CommonStats& common = table->common();
  const Clipped clipped = window_->Clip(begin.ticks, end_ticks);
  stats_.Clear();
  stats_.Uint64(common.async_id, done.id);
  if (clipped.at_start) {
    stats_.Int64(common.true_start_ns, window_->map.ToPs(begin.ticks) / 1000);
  }
  if (clipped.at_start || clipped.at_end || !done.ended) stats_.Int64(common.truncated, 1);
  xspace::SegmentEvent event;
  event.start_ps = clipped.start_ps;
  event.duration_ps = std::max<int64_t>(1, clipped.duration_ps);
  event.metadata_id = site->event_id;
  std::string stats(stats_.bytes());
  stats.append(begin.stats);
  event.stats = stats;
  Lane* const lane = LaneFor(table, begin.site, event.start_ps);
  lane->end_ps = std::max(lane->end_ps, event.start_ps + event.duration_ps);
  lane->Add(event, begin.line);
}

void AsyncPairs::PlaceEnd(uint64_t id, const AsyncHalf& end) {
  Account& account = end.line->account;
  const Site* const site = host_sites_->Find(end.site);
  if (site == nullptr) {
    account.Lose(LossCause::kInvalid);
    return;
  }
  if (!window_->Intersects(end.ticks, end.ticks)) {
    ++account.outside;
    return;
  }
  stats_.Clear();
  stats_.Uint64(host_sites_->common().async_end, id);
  xspace::SegmentEvent event;
  event.start_ps = window_->map.ToPs(end.ticks);
  event.duration_ps = 1;
  event.metadata_id = site->event_id;
  event.depth = UINT32_MAX;
  event.stats = stats_.bytes();
  end.line->AddEvent(event);
}

AsyncPairs::Lane* AsyncPairs::LaneFor(SiteTable* table, uint32_t site, int64_t start_ps) {
  std::vector<std::unique_ptr<Lane>>& lanes = lanes_[site];
  // The lane that has been free for the shortest time: this needs the fewest lanes.
  Lane* best = nullptr;
  for (const auto& lane : lanes) {
    if (lane->end_ps <= start_ps && (best == nullptr || lane->end_ps > best->end_ps)) {
      best = lane.get();
    }
  }
  if (best != nullptr) return best;
  if (lanes.size() >= kMaxLanes) return lanes.back().get();
  std::string name = table->Find(site)->name;
  if (!lanes.empty()) absl::StrAppend(&name, " (", lanes.size() + 1, ")");
  auto declare = [names = names_, id = lane_count_ + 1, name = std::move(name)] {
    const xspace::PlaneKey plane = names->Plane(kAsyncPlaneName, kAsyncPlaneId);
    return xspace::LineKey{plane, names->Line(plane, id, name)};
  };
  lanes.push_back(std::make_unique<Lane>(sink_, std::move(declare)));
  ++lane_count_;
  return lanes.back().get();
}

void AsyncPairs::Finish() {
  for (auto& [id, open] : open_) {
    if (open.is_end) {
      PlaceEnd(id, open.half);
    } else {
      const uint64_t until = std::max(open.half.ticks, window_->end_ticks);
      done_.push_back({id, std::move(open.half), until, /*ended=*/false});
    }
  }
  open_.clear();
  ends_.clear();
  PlaceDone();
}

void AsyncPairs::Flush() {
  for (auto& [site, lanes] : lanes_) {
    for (const auto& lane : lanes) {
      lane->builder.Flush();
      lane->Settle();
    }
  }
}

}  // namespace jobscope::host
