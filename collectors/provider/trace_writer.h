// SPDX-License-Identifier: Apache-2.0
//
// Encodes provider events as XPlane events.
#ifndef COLLECTORS_PROVIDER_TRACE_WRITER_H_
#define COLLECTORS_PROVIDER_TRACE_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "collectors/provider/event_batch.h"
#include "common/clock/clock.h"
#include "common/containers/hash_table.h"
#include "common/xspace/segment/item_sink.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/segment.h"
#include "common/xspace/segment/stats.h"

namespace jobscope::provider {

// Encodes provider events as XPlane events: on the lines of threads on /host:CPU, on its line of
// counters, and on the provider's own plane /device:CUSTOM:<provider>, which viewers draw and
// XProf's analysis ignores. Not thread-safe.
class TraceWriter {
 public:
  // Bounds the lines; each uses about 350 KiB of buffers once it is busy.
  static constexpr size_t kMaxLines = 128;

  // The window in ps since the zero, and the conversion of the provider's times.
  struct Window {
    int64_t zero_ns = 0;  // on the provider's clock
    int64_t start_ps = 0;
  };

  // `index` is unique among providers. `sink` and `names` must outlive the writer.
  TraceWriter(std::string_view provider, int index, xspace::ItemSink* sink, xspace::Names* names,
              const Window& window);
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // Encodes a batch. Events that begin after `end_ns` (on the provider's clock) count as outside;
  // those that end later are clipped.
  void Write(const EventBatch& batch, int64_t end_ns);
  // Appends the open segments. No Write may follow.
  void Finish();

  struct Account {
    uint64_t events = 0;      // in the trace; known after Finish
    uint64_t outside = 0;     // of the window
    uint64_t store_full = 0;  // known after Finish
    uint64_t without_line = 0;
  };
  const Account& account() const { return account_; }

 private:
  // Ids of one plane, by text.
  struct Ids {
    xspace::PlaneKey plane = 0;
    HashMap<std::string, uint64_t> events;
    HashMap<std::string, uint64_t> stats;
  };

  Ids* Host();
  Ids* Own();
  uint64_t EventId(Ids* ids, std::string_view name);
  uint64_t StatId(Ids* ids, std::string_view name);
  // Of a provider's own key.
  uint64_t KeyId(Ids* ids, std::string_view key);
  // Returns null if there are too many lines.
  xspace::SegmentBuilder* LineOf(const EventBatch& batch, const EventBatch::Event& event,
                                 Ids** ids);
  std::unique_ptr<xspace::SegmentBuilder> Open(xspace::LineDeclaration declare) const;
  void WriteOne(const EventBatch& batch, const EventBatch::Event& event, int64_t end_ps);

  const std::string provider_;
  const int index_;
  xspace::ItemSink* const sink_;
  xspace::Names* const names_;
  const Window window_;
  Account account_;
  Ids host_;
  Ids own_;
  HashMap<std::string, std::unique_ptr<xspace::SegmentBuilder>> lines_;
  HashMap<int64_t, std::unique_ptr<xspace::SegmentBuilder>> threads_;
  std::unique_ptr<xspace::SegmentBuilder> counters_;
  xspace::StatsEncoder stats_{xspace::StatsOf::kEvent};
};

}  // namespace jobscope::provider

#endif  // COLLECTORS_PROVIDER_TRACE_WRITER_H_
