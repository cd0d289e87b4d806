// SPDX-License-Identifier: Apache-2.0
#include "collectors/provider/session_encoder.h"

#include <algorithm>
#include <utility>

#include "collectors/xspace_import/foreign_xspace.h"
#include "common/xspace/segment/trace_planes.h"

namespace jobscope::provider {
namespace {

int64_t Signed(uint64_t value) {
  return static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX));
}

}  // namespace

Instant InstantOf(const TickMap& map, uint64_t ticks) {
  return {Signed(map.ToMonotonicNs(ticks)), map.ToUnixNs(ticks)};
}

Instant InstantNow() { return {Signed(WorkerMonotonicNs()), RealtimeNs()}; }

SessionEncoder::SessionEncoder(std::string_view provider, int index, xspace::ItemSink* sink,
                               xspace::Names* names)
    : provider_(provider), index_(index), sink_(sink), names_(names) {}

SessionEncoder::~SessionEncoder() = default;

void SessionEncoder::Begin(const StartRequest& request, bool realtime, bool uses_tsc) {
  map_ = request.map;
  realtime_ = realtime;
  uses_tsc_ = uses_tsc;
  window_.zero_ns = OnItsClock(InstantOf(map_, map_.zero_ticks()));
  window_.start_ps = map_.ToPs(request.start_ticks);
  if (request.end_ticks != UINT64_MAX) EndAt(InstantOf(map_, request.end_ticks));
  writer_ = std::make_unique<TraceWriter>(provider_, index_, sink_, names_, window_);
  before_ = SampleClocks(uses_tsc_);
}

void SessionEncoder::EndAt(const Instant& end) { end_ns_ = std::min(end_ns_, OnItsClock(end)); }

void SessionEncoder::Hold(std::unique_ptr<EventBatch> batch, absl::Time now) {
  if (batch != nullptr) held_.push_back({now, std::move(batch)});
}

void SessionEncoder::Encode(absl::Time until, int64_t end_ns) {
  while (!held_.empty() && held_.front().came <= until) {
    // No longer held when writing throws: it would be written twice.
    const std::unique_ptr<EventBatch> batch = std::move(held_.front().batch);
    held_.pop_front();
    if (writer_ != nullptr) writer_->Write(*batch, end_ns);
  }
}

void SessionEncoder::EncodeOld(absl::Time now) {
  size_t held_bytes = 0;
  for (const Held& held : held_) held_bytes += held.batch->bytes();
  Encode(held_bytes > kMaxHeldBytes ? now : now - kHoldFor,
         std::min(end_ns_, OnItsClock(InstantNow())));
}

void SessionEncoder::EncodeAll() { Encode(absl::InfiniteFuture(), end_ns_); }

absl::Status SessionEncoder::AddXSpace(std::string_view bytes) {
  if (xspaces_ == nullptr) {
    framework::ForeignOptions options;
    options.origin = provider_;
    options.segment_source = kSourceProviderXSpace + static_cast<uint32_t>(index_);
    options.drop_steps = true;  // only the program's own marks remain
    xspaces_ = std::make_unique<framework::ForeignXSpace>(sink_, names_, std::move(options));
  }
  framework::ForeignWindow window;
  window.start_ps = window_.start_ps;
  window.end_ps = (end_ns_ - window_.zero_ns) * 1000;
  const framework::ForeignTime time(map_, before_, SampleClocks(uses_tsc_));
  return xspaces_->Merge(bytes, time, window);
}

void SessionEncoder::Finish() {
  EncodeAll();
  if (xspaces_ != nullptr) xspaces_->Finish();
  writer_->Finish();
  account_ = writer_->account();
  writer_.reset();
}

void SessionEncoder::Discard() {
  held_.clear();
  writer_.reset();
  xspaces_.reset();
}

void SessionEncoder::AddTo(CollectorReport* report) const {
  const auto lost = [report](LossCause cause, uint64_t events) {
    if (events > 0) report->lost_by_cause[cause] += events;
  };
  report->events += account_.events;
  report->outside += account_.outside;
  lost(LossCause::kStoreFull, account_.store_full);
  lost(LossCause::kTooManyLines, account_.without_line);
  if (xspaces_ == nullptr) return;
  const framework::ForeignAccount& account = xspaces_->account();
  report->attempted += account.attempted;
  report->events += account.events;
  report->outside += account.outside;
  for (const auto& [cause, events] : account.lost_by_cause) lost(cause, events);
  report->warnings.insert(report->warnings.end(), account.warnings.begin(), account.warnings.end());
}

}  // namespace jobscope::provider
