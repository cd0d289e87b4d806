// SPDX-License-Identifier: Apache-2.0
//
// Encodes what a provider gives in one session.
#ifndef COLLECTORS_PROVIDER_SESSION_ENCODER_H_
#define COLLECTORS_PROVIDER_SESSION_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/collector.h"
#include "collectors/provider/event_batch.h"
#include "collectors/provider/trace_writer.h"
#include "common/clock/clock.h"
#include "common/xspace/segment/item_sink.h"
#include "common/xspace/segment/names.h"

namespace jobscope {
namespace framework {
class ForeignXSpace;
}  // namespace framework

namespace provider {

// An instant on the two clocks of which a provider uses one.
struct Instant {
  int64_t monotonic_ns = 0;
  int64_t realtime_ns = 0;
};
Instant InstantOf(const TickMap& map, uint64_t ticks);
Instant InstantNow();

// Holds events for a while before it encodes them, because an event that began after the session's
// end, which becomes known late, must not be in the trace. Not thread-safe.
class SessionEncoder {
 public:
  // A session's end reaches its collectors within milliseconds, unless the machine is starved;
  // events that began after the end and arrived within this time are detected.
  static constexpr absl::Duration kHoldFor = absl::Milliseconds(200);
  // Bounds the memory of held events: those above it are encoded earlier.
  static constexpr size_t kMaxHeldBytes = 4 << 20;

  // `index` is unique among providers. `sink` and `names` must outlive the calls from Begin on.
  SessionEncoder(std::string_view provider, int index, xspace::ItemSink* sink,
                 xspace::Names* names);
  ~SessionEncoder();

  // The provider is about to begin. `realtime`: its timestamps are CLOCK_REALTIME. `uses_tsc`: so
  // are the session's ticks.
  void Begin(const StartRequest& request, bool realtime, bool uses_tsc);
  bool begun() const { return writer_ != nullptr; }
  // Valid once it has begun.
  const TickMap& map() const { return map_; }
  // Lets the session end at this instant, unless it ends earlier.
  void EndAt(const Instant& end);

  // `now`: SteadyNow (common/clock/monotonic.h), here and below.
  void Hold(std::unique_ptr<EventBatch> batch, absl::Time now);
  // Encodes events that were held for long enough. Clips those that end later than now.
  void EncodeOld(absl::Time now);
  void EncodeAll();
  // Merges an XSpace of the provider. Takes time proportional to its size.
  absl::Status AddXSpace(std::string_view bytes);
  // Encodes everything and closes the account. No event may follow.
  void Finish();

  // Returns whether the session's store is full. Events then stay in the provider's buffer, which
  // counts losses.
  bool Full() const { return sink_->Full(); }
  // Frees what is left.
  void Discard();
  // Adds the account: of the events once this is finished, of the XSpaces always.
  void AddTo(CollectorReport* report) const;

 private:
  struct Held {
    absl::Time came;
    std::unique_ptr<EventBatch> batch;
  };

  int64_t OnItsClock(const Instant& instant) const {
    return realtime_ ? instant.realtime_ns : instant.monotonic_ns;
  }
  // Encodes events that came until `until`.
  void Encode(absl::Time until, int64_t end_ns);

  const std::string provider_;
  const int index_;
  xspace::ItemSink* const sink_;
  xspace::Names* const names_;
  TickMap map_;
  bool realtime_ = false;
  bool uses_tsc_ = false;
  int64_t end_ns_ = INT64_MAX;  // on the provider's clock, once known
  ClockSample before_;          // the clocks before the provider began
  TraceWriter::Window window_;
  std::deque<Held> held_;
  std::unique_ptr<TraceWriter> writer_;  // null: not begun, or finished
  TraceWriter::Account account_;
  std::unique_ptr<framework::ForeignXSpace> xspaces_;
};

}  // namespace provider
}  // namespace jobscope

#endif  // COLLECTORS_PROVIDER_SESSION_ENCODER_H_
