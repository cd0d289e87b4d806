// SPDX-License-Identifier: Apache-2.0
#include "collectors/provider/trace_writer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/threads/thread_name.h"
#include "common/xspace/segment/event_names.h"
#include "common/xspace/segment/trace_planes.h"
#include "common/xspace/wire/absl_view.h"

namespace jobscope::provider {
namespace {

// Bounds the ids cached here; further names are looked up each time. Names itself is bounded by the
// store.
constexpr size_t kMaxKeptIds = 16384;

constexpr int64_t kMaxThreadId = INT32_MAX;

// Saturates differences and products of foreign times.
int64_t Clamp(__int128 value) {
  if (value > INT64_MAX) return INT64_MAX;
  if (value < INT64_MIN) return INT64_MIN;
  return static_cast<int64_t>(value);
}

int64_t PsSince(int64_t zero_ns, __int128 ns) { return Clamp((ns - zero_ns) * 1000); }

}  // namespace

TraceWriter::TraceWriter(std::string_view provider, int index, xspace::ItemSink* sink,
                         xspace::Names* names, const Window& window)
    : provider_(provider), index_(index), sink_(sink), names_(names), window_(window) {}

TraceWriter::Ids* TraceWriter::Host() {
  if (host_.plane == 0) host_.plane = names_->Plane(kHostPlaneName, kHostPlaneId);
  return &host_;
}

TraceWriter::Ids* TraceWriter::Own() {
  if (own_.plane == 0) {
    own_.plane =
        names_->Plane(absl::StrCat("/device:CUSTOM:", provider_), kProviderPlaneId + index_);
  }
  return &own_;
}

uint64_t TraceWriter::EventId(Ids* ids, std::string_view name) {
  const auto found = ids->events.find(xspace::AbslView(name));
  if (found != ids->events.end()) return found->second;
  // XProf interprets the names of events on the host's plane only.
  const std::string written = ids == &host_ ? xspace::SafeEventName(name) : std::string(name);
  const uint64_t id = names_->Event(ids->plane, written, written == name ? "" : name);
  if (id != 0 && ids->events.size() < kMaxKeptIds) ids->events.emplace(std::string(name), id);
  return id;
}

uint64_t TraceWriter::StatId(Ids* ids, std::string_view name) {
  const auto found = ids->stats.find(xspace::AbslView(name));
  if (found != ids->stats.end()) return found->second;
  const uint64_t id = names_->Stat(ids->plane, name);
  if (id != 0 && ids->stats.size() < kMaxKeptIds) ids->stats.emplace(std::string(name), id);
  return id;
}

uint64_t TraceWriter::KeyId(Ids* ids, std::string_view key) {
  return StatId(ids, xspace::SafeStatName(key));
}

std::unique_ptr<xspace::SegmentBuilder> TraceWriter::Open(xspace::LineDeclaration declare) const {
  return std::make_unique<xspace::SegmentBuilder>(
      sink_, kSourceProvider + static_cast<uint32_t>(index_), std::move(declare));
}

xspace::SegmentBuilder* TraceWriter::LineOf(const EventBatch& batch, const EventBatch::Event& event,
                                            Ids** ids) {
  if (event.is_counter) {
    *ids = Host();
    if (counters_ == nullptr) {
      counters_ = Open([this] {
        return xspace::LineKey{host_.plane,
                               names_->EnsureLine(host_.plane, kCountersLine, kCountersLineName)};
      });
    }
    return counters_.get();
  }
  const bool full = lines_.size() + threads_.size() >= kMaxLines;
  if (!event.has_line && event.thread_id > 0 && event.thread_id <= kMaxThreadId) {
    *ids = Host();
    const auto found = threads_.find(event.thread_id);
    if (found != threads_.end()) return found->second.get();
    if (full) return nullptr;
    auto declare = [this, id = event.thread_id, line = ThreadLineName(event.thread_id)] {
      return xspace::LineKey{host_.plane, names_->EnsureLine(host_.plane, id, line)};
    };
    return threads_.emplace(event.thread_id, Open(std::move(declare))).first->second.get();
  }
  *ids = Own();
  const std::string_view name = event.has_line ? batch.text(event.line) : provider_;
  const auto found = lines_.find(xspace::AbslView(name));
  if (found != lines_.end()) return found->second.get();
  if (full) return nullptr;
  const auto id = static_cast<int64_t>(lines_.size()) + 1;
  auto declare = [this, id, line = std::string(name)] {
    return xspace::LineKey{own_.plane, names_->Line(own_.plane, id, line)};
  };
  return lines_.emplace(std::string(name), Open(std::move(declare))).first->second.get();
}

void TraceWriter::Write(const EventBatch& batch, int64_t end_ns) {
  const int64_t end_ps = PsSince(window_.zero_ns, end_ns);
  for (const EventBatch::Event& event : batch.events()) WriteOne(batch, event, end_ps);
}

void TraceWriter::WriteOne(const EventBatch& batch, const EventBatch::Event& event,
                           int64_t end_ps) {
  const int64_t begin = PsSince(window_.zero_ns, event.begin_ns);
  const int64_t end =
      PsSince(window_.zero_ns, static_cast<__int128>(event.begin_ns) + event.duration_ns);
  if (end < window_.start_ps || begin > end_ps || (event.is_counter && begin < window_.start_ps)) {
    ++account_.outside;
    return;
  }
  Ids* ids = nullptr;
  xspace::SegmentBuilder* const line = LineOf(batch, event, &ids);
  if (line == nullptr) {
    ++account_.without_line;
    return;
  }
  stats_.Clear();
  const std::string_view name = batch.text(event.name);
  xspace::SegmentEvent written;
  written.metadata_id = EventId(ids, name);
  written.start_ps = std::max(begin, window_.start_ps);
  written.duration_ps = std::min(end, end_ps) - written.start_ps;
  if (event.is_counter) {
    stats_.Double(KeyId(ids, name), event.value);
    written.duration_ps = 1;
  } else {
    const EventBatch::Arg* const args = batch.args(event);
    for (size_t i = 0; i < event.arg_count; ++i) {
      const uint64_t id = KeyId(ids, batch.text(args[i].key));
      switch (args[i].type) {
        case JOBSCOPE_PROVIDER_INT64:
          stats_.Int64(id, args[i].int64_value);
          break;
        case JOBSCOPE_PROVIDER_UINT64:
          stats_.Uint64(id, static_cast<uint64_t>(args[i].int64_value));
          break;
        case JOBSCOPE_PROVIDER_DOUBLE:
          stats_.Double(id, args[i].double_value);
          break;
        default:
          stats_.String(id, batch.text(args[i].text));
      }
    }
    if (begin < window_.start_ps || end > end_ps) {
      stats_.Int64(StatId(ids, "truncated"), 1);
      if (begin < window_.start_ps) stats_.Int64(StatId(ids, "true_start_ns"), begin / 1000);
      if (end > end_ps) stats_.Int64(StatId(ids, "true_end_ns"), end / 1000);
    }
  }
  written.stats = stats_.bytes();
  line->Add(written);
}

void TraceWriter::Finish() {
  const auto finish = [this](xspace::SegmentBuilder* line) {
    line->Flush();
    account_.events += line->appended_events();
    account_.store_full += line->refused_events();
  };
  for (const auto& [name, line] : lines_) finish(line.get());
  for (const auto& [thread, line] : threads_) finish(line.get());
  if (counters_ != nullptr) finish(counters_.get());
  lines_.clear();
  threads_.clear();
  counters_.reset();
}

}  // namespace jobscope::provider
