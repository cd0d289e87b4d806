// SPDX-License-Identifier: Apache-2.0
//
// Events of a provider into events of a trace.
#ifndef COLLECTORS_PROVIDER_TRACE_WRITER_H_
#define COLLECTORS_PROVIDER_TRACE_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "collectors/provider/event_batch.h"
#include "common/clock/clock.h"
#include "common/xspace/segment/item_sink.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/segment.h"
#include "common/xspace/segment/stats.h"

namespace jobscope::provider {

// Writes to the lines of threads on /host:CPU, to its line of counters, and to the provider's own
// plane /device:CUSTOM:<provider>, which viewers draw and XProf's analysis leaves alone. Not
// thread-safe.
class TraceWriter {
 public:
  // Each takes about 350 KiB of buffers once it is busy.
  static constexpr size_t kMaxLines = 128;

  // The window, in ps since the zero; and what turns the provider's times into such.
  struct Window {
    int64_t zero_ns = 0;  // on the provider's clock
    int64_t start_ps = 0;
  };

  // `index`: the provider's among all. `sink` and `names` outlive the writer.
  TraceWriter(std::string_view provider, int index, xspace::ItemSink* sink, xspace::Names* names,
              const Window& window);

  // What begins after `end_ns` (on the provider's clock) is outside, what ends later is clipped.
  void Write(const EventBatch& batch, int64_t end_ns);
  // Appends what is open. No Write after it.
  void Finish();

  struct Account {
    uint64_t events = 0;      // in the trace; known after Finish
    uint64_t outside = 0;     // of the window
    uint64_t store_full = 0;  // known after Finish
    uint64_t without_line = 0;
  };
  const Account& account() const { return account_; }

 private:
  // Of one plane: ids by text.
  struct Ids {
    xspace::PlaneKey plane = 0;
    absl::flat_hash_map<std::string, uint64_t> events;
    absl::flat_hash_map<std::string, uint64_t> stats;
  };

  Ids* Host();
  Ids* Own();
  uint64_t EventId(Ids* ids, std::string_view name);
  uint64_t StatId(Ids* ids, std::string_view name);
  // Null: there are too many.
  xspace::SegmentBuilder* LineOf(const EventBatch& batch, const EventBatch::Event& event,
                                 Ids** ids);
  std::unique_ptr<xspace::SegmentBuilder> Open(const Ids& ids, int64_t line) const;
  void WriteOne(const EventBatch& batch, const EventBatch::Event& event, int64_t end_ps);

  const std::string provider_;
  const int index_;
  xspace::ItemSink* const sink_;
  xspace::Names* const names_;
  const Window window_;
  Account account_;
  Ids host_;
  Ids own_;
  absl::flat_hash_map<std::string, std::unique_ptr<xspace::SegmentBuilder>> lines_;
  absl::flat_hash_map<int64_t, std::unique_ptr<xspace::SegmentBuilder>> threads_;
  std::unique_ptr<xspace::SegmentBuilder> counters_;
  xspace::StatsEncoder stats_{xspace::StatsOf::kEvent};
};

}  // namespace jobscope::provider

#endif  // COLLECTORS_PROVIDER_TRACE_WRITER_H_
