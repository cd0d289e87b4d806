// SPDX-License-Identifier: Apache-2.0
//
// Measures the cost of an event from a drained record to its item, and the throughput of assembling
// and scanning. Budgets: docs/trace_format.md, Costs.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/xspace/assemble/assembler.h"
#include "common/xspace/assemble/scan.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/segment.h"
#include "common/xspace/segment/stats.h"
#include "common/xspace/segment/store.h"

namespace jobscope::xspace {
namespace {

constexpr size_t kStoreBytes = size_t{512} << 20;

// Discards items, to measure only the encoding.
class DroppingSink : public ItemSink {
 public:
  [[nodiscard]] bool Append(ItemKind, std::string_view body) override {
    bytes += body.size();
    return true;
  }
  bool Full() const override { return false; }
  uint64_t bytes = 0;
};

// Copies everything; real sinks copy to the page cache, or nothing at all (gRPC slices).
class CopyingSink : public ByteSink {
 public:
  explicit CopyingSink(size_t size) : buffer_(size) {}
  absl::Status Write(std::string_view bytes, bool) override {
    if (used_ + bytes.size() > buffer_.size()) return absl::InternalError("too small");
    std::memcpy(buffer_.data() + used_, bytes.data(), bytes.size());
    used_ += bytes.size();
    return absl::OkStatus();
  }
  void Rewind() { used_ = 0; }
  std::string_view text() const { return {buffer_.data(), used_}; }

 private:
  std::vector<char> buffer_;
  size_t used_ = 0;
};

// Returns a second of scopes in order of completion: a tree of `depth` levels with `fanout`
// children each, 50 to 250 ns for a leaf, 100 names.
std::vector<SegmentEvent> Completed(size_t count, uint32_t depth, uint32_t fanout) {
  std::mt19937_64 random(42);
  std::vector<SegmentEvent> events;
  int64_t now_ps = 1'000'000'000'000;  // a second after zero: starts of six bytes, the usual size
  const auto scope = [&](const auto& self, uint32_t level) -> void {
    const int64_t begin_ps = now_ps;
    now_ps += 20'000;
    if (level + 1 < depth) {
      for (uint32_t i = 0; i < fanout; ++i) self(self, level + 1);
    } else {
      now_ps += 50'000 + static_cast<int64_t>(random() % 200'000);
    }
    now_ps += 10'000;
    SegmentEvent event;
    event.start_ps = begin_ps;
    event.duration_ps = now_ps - begin_ps;
    event.metadata_id = 1 + random() % 100;
    event.depth = level;
    events.push_back(event);
  };
  while (events.size() < count) scope(scope, 0);
  return events;
}

void ReportEvents(benchmark::State* state, size_t events) {
  const auto items = static_cast<double>(state->iterations()) * static_cast<double>(events);
  state->SetItemsProcessed(static_cast<int64_t>(items));
  state->counters["time_per_event"] =
      benchmark::Counter(items, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void BM_AddAndEncode(benchmark::State& state) {
  const std::vector<SegmentEvent> events = Completed(
      1'000'000, static_cast<uint32_t>(state.range(0)), static_cast<uint32_t>(state.range(1)));
  DroppingSink sink;
  SegmentBuilder builder(&sink, 1, 1234, 1);
  for (auto _ : state) {
    for (const SegmentEvent& event : events) builder.Add(event);
    builder.Flush();
  }
  ReportEvents(&state, events.size());
  state.counters["bytes_per_event"] =
      static_cast<double>(sink.bytes) / static_cast<double>(builder.appended_events());
}
BENCHMARK(BM_AddAndEncode)
    ->ArgNames({"depth", "fanout"})
    ->Args({1, 1})
    ->Args({3, 4})
    ->Args({6, 2})
    ->Args({12, 1})
    ->Unit(benchmark::kMillisecond);

void BM_AddAndEncodeWithStats(benchmark::State& state) {
  const std::vector<SegmentEvent> events = Completed(1'000'000, 3, 4);
  DroppingSink sink;
  SegmentBuilder builder(&sink, 1, 1234, 1);
  StatsEncoder stats(StatsOf::kEvent);
  for (auto _ : state) {
    int64_t value = 0;
    for (SegmentEvent event : events) {
      stats.Clear();
      stats.Int64(3, ++value);
      event.stats = stats.bytes();
      builder.Add(event);
    }
    builder.Flush();
  }
  ReportEvents(&state, events.size());
}
BENCHMARK(BM_AddAndEncodeWithStats)->Unit(benchmark::kMillisecond);

void BM_AddIntoStore(benchmark::State& state) {
  const std::vector<SegmentEvent> events = Completed(1'000'000, 3, 4);
  for (auto _ : state) {
    Store store(kStoreBytes);
    SegmentBuilder builder(&store, 1, 1234, 1);
    for (const SegmentEvent& event : events) builder.Add(event);
    builder.Flush();
    if (store.Full()) state.SkipWithError("store full");
  }
  ReportEvents(&state, events.size());
}
BENCHMARK(BM_AddIntoStore)->Unit(benchmark::kMillisecond);

// Fills a store with 8 lines of `runs` runs each. `stretch` is the number of consecutive events
// from one run; with 1, the runs take turns event by event; with 0, each event is of a random run,
// which no branch predictor foresees.
void FillRuns(Store* store, int runs, int stretch) {
  Names names(store);
  const PlaneKey plane = names.Plane("/host:CPU", 0);
  uint64_t ids[100];
  for (int i = 0; i < 100; ++i) ids[i] = names.Event(plane, "scope " + std::to_string(i));
  std::mt19937_64 random(43);
  for (int line = 1; line <= 8; ++line) {
    const int64_t key = names.Line(plane, line, "thread");
    std::vector<SegmentBuilder> builders;
    for (int run = 0; run < runs; ++run) {
      builders.emplace_back(store, plane, key, static_cast<uint32_t>(run));
    }
    int64_t start_ps = 1'000'000'000'000;
    for (int i = 0; i < 1'000'000; ++i) {
      start_ps += 100'000 + static_cast<int64_t>(random() % 100'000);
      SegmentEvent event;
      event.start_ps = start_ps;
      event.duration_ps = 50'000 + static_cast<int64_t>(random() % 50'000);
      event.metadata_id = ids[random() % 100];
      builders[(stretch == 0 ? random() >> 32 : static_cast<uint64_t>(i / stretch)) %
               static_cast<uint64_t>(runs)]
          .Add(event);
    }
    for (SegmentBuilder& builder : builders) builder.Flush();
  }
}

void BM_Assemble(benchmark::State& state) {
  Store store(kStoreBytes);
  FillRuns(&store, static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  const std::vector<ItemView> items = store.Items();
  AssembleOptions options;
  options.part_limit_bytes = uint64_t{1900} << 20;
  uint64_t bytes = 0;
  CopyingSink sink(kStoreBytes);
  for (auto _ : state) {
    absl::StatusOr<Assembler> assembler = Assembler::Create(items, options);
    sink.Rewind();
    if (!assembler.ok() || !assembler->Write(0, &sink).ok()) state.SkipWithError("failed");
    bytes += sink.text().size();
  }
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
}
BENCHMARK(BM_Assemble)
    ->ArgNames({"runs", "stretch"})
    ->Args({1, 1})
    ->Args({2, 100})
    ->Args({8, 100})
    ->Args({2, 1})
    ->Args({8, 1})
    ->Args({8, 0})
    ->Unit(benchmark::kMillisecond);

void BM_AssembleIndexOnly(benchmark::State& state) {
  Store store(kStoreBytes);
  FillRuns(&store, 1, 1);
  const std::vector<ItemView> items = store.Items();
  uint64_t bytes = 0;
  AssembleOptions options;
  options.part_limit_bytes = uint64_t{1900} << 20;
  for (auto _ : state) {
    absl::StatusOr<Assembler> assembler = Assembler::Create(items, options);
    bytes += assembler->parts()[0].size_bytes;
  }
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
}
BENCHMARK(BM_AssembleIndexOnly)->Unit(benchmark::kMillisecond);

void BM_AssembleParts(benchmark::State& state) {
  Store store(kStoreBytes);
  FillRuns(&store, 2, 100);
  const std::vector<ItemView> items = store.Items();
  AssembleOptions options;
  options.part_limit_bytes = uint64_t{16} << 20;
  uint64_t bytes = 0;
  CopyingSink sink(kStoreBytes);
  for (auto _ : state) {
    absl::StatusOr<Assembler> assembler = Assembler::Create(items, options);
    sink.Rewind();
    for (size_t i = 0; i < assembler->parts().size(); ++i) {
      if (!assembler->Write(i, &sink).ok()) state.SkipWithError("failed");
    }
    bytes += sink.text().size();
    state.counters["parts"] = static_cast<double>(assembler->parts().size());
  }
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
}
BENCHMARK(BM_AssembleParts)->Unit(benchmark::kMillisecond);

void BM_Scan(benchmark::State& state) {
  Store store(kStoreBytes);
  FillRuns(&store, 1, 1);
  AssembleOptions options;
  options.part_limit_bytes = uint64_t{1900} << 20;
  const absl::StatusOr<Assembler> assembler = Assembler::Create(store.Items(), options);
  CopyingSink sink(kStoreBytes);
  if (!assembler.ok() || !assembler->Write(0, &sink).ok()) state.SkipWithError("failed");
  uint64_t bytes = 0;
  for (auto _ : state) {
    absl::StatusOr<XSpaceScan> scan = ScanXSpace(sink.text());
    benchmark::DoNotOptimize(scan->events);
    bytes += sink.text().size();
  }
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
}
BENCHMARK(BM_Scan)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace jobscope::xspace

BENCHMARK_MAIN();
