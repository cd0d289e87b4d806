// SPDX-License-Identifier: Apache-2.0
//
// Random sessions, assembled and parsed by protobuf, against the same trace as plain objects.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/xspace/assemble/assembler.h"
#include "common/xspace/assemble/scan.h"
#include "tests/common/xspace/assemble/random_trace.h"
#include "tests/common/xspace/assemble/trace_util.h"
#include "tests/silent_protobuf.h"

namespace jobscope::xspace {
namespace {

using tensorflow::profiler::XEvent;

constexpr uint64_t kNoLimit = uint64_t{1} << 30;

std::vector<std::string> SortedEvents(const XPlane& plane, const XLine& line) {
  std::vector<std::string> texts;
  for (const XEvent& event : line.events()) texts.push_back(Describe(plane, event));
  std::sort(texts.begin(), texts.end());
  return texts;
}

std::vector<std::string> PlaneStats(const XPlane& plane) {
  std::vector<std::string> texts;
  for (const auto& stat : plane.stats()) texts.push_back(Describe(plane, stat));
  return texts;
}

// R3, R4, R6, R7, and that every id resolves.
void CheckLine(const XPlane& plane, const XLine& line) {
  EXPECT_EQ(line.timestamp_ns(), 0);
  int64_t start_ps = 0;
  int64_t duration_ps = std::numeric_limits<int64_t>::max();
  for (const XEvent& event : line.events()) {
    EXPECT_GE(event.duration_ps(), 1);
    EXPECT_TRUE(event.offset_ps() > start_ps ||
                (event.offset_ps() == start_ps && event.duration_ps() <= duration_ps))
        << "line " << line.id() << " is not sorted at " << Describe(plane, event);
    start_ps = event.offset_ps();
    duration_ps = event.duration_ps();
  }
}

// A foreign plane's events need not be sorted.
bool IsRaw(const RandomTrace& trace, const XPlane& plane) {
  return std::any_of(trace.raw_planes.begin(), trace.raw_planes.end(),
                     [&](const XPlane& raw) { return raw.name() == plane.name(); });
}

void CheckSpace(const RandomTrace& trace, const XSpace& space) {
  std::map<std::string, int> names;
  for (const XPlane& plane : space.planes()) {
    EXPECT_EQ(++names[plane.name()], 1) << plane.name();  // R1
    if (IsRaw(trace, plane)) continue;
    for (const auto& [key, metadata] : plane.event_metadata()) EXPECT_EQ(metadata.id(), key);  // R5
    for (const auto& [key, metadata] : plane.stat_metadata()) EXPECT_EQ(metadata.id(), key);
    for (const XLine& line : plane.lines()) CheckLine(plane, line);
  }
}

// All parts of a trace, put together again.
XSpace Join(const std::vector<XSpace>& parts) {
  XSpace whole;
  for (const XSpace& part : parts) {
    for (const XPlane& plane : part.planes()) {
      XPlane* joined = nullptr;
      for (XPlane& candidate : *whole.mutable_planes()) {
        if (candidate.name() == plane.name()) joined = &candidate;
      }
      if (joined == nullptr) {
        *whole.add_planes() = plane;
        continue;
      }
      EXPECT_EQ(joined->event_metadata_size(), plane.event_metadata_size());
      EXPECT_EQ(joined->stat_metadata_size(), plane.stat_metadata_size());
      EXPECT_EQ(PlaneStats(*joined), PlaneStats(plane));
      EXPECT_EQ(joined->lines_size(), plane.lines_size());
      for (int i = 0; i < plane.lines_size(); ++i) {
        EXPECT_EQ(joined->lines(i).id(), plane.lines(i).id());
        joined->mutable_lines(i)->mutable_events()->MergeFrom(plane.lines(i).events());
      }
    }
  }
  return whole;
}

void ExpectSameAsReference(const RandomTrace& trace, const XSpace& space) {
  for (const XPlane& expected : trace.reference.planes()) {
    SCOPED_TRACE(expected.name());
    const XPlane* const plane = FindPlane(space, expected.name());
    int events = 0;
    for (const XLine& line : expected.lines()) events += line.events_size();
    if (plane == nullptr) {
      EXPECT_TRUE(expected.name() == "/device:GPU:0" && events == 0) << "plane is missing";  // R8
      continue;
    }
    EXPECT_EQ(plane->id(), expected.id());
    EXPECT_EQ(PlaneStats(*plane), PlaneStats(expected));
    ASSERT_EQ(plane->lines_size(), expected.lines_size());
    for (int i = 0; i < expected.lines_size(); ++i) {
      EXPECT_EQ(plane->lines(i).id(), expected.lines(i).id());
      EXPECT_EQ(plane->lines(i).name(), expected.lines(i).name());
      ASSERT_EQ(SortedEvents(*plane, plane->lines(i)), SortedEvents(expected, expected.lines(i)));
    }
  }
  for (const XPlane& expected : trace.raw_planes) {
    const XPlane* const plane = FindPlane(space, expected.name());
    ASSERT_NE(plane, nullptr);
    EXPECT_EQ(plane->SerializeAsString(), expected.SerializeAsString());
  }
}

// What one part may take: events of one start stay together, so they may exceed the limit; nothing
// else may.
void CheckPartSizes(absl::Span<const ItemView> items, const AssembleOptions& options,
                    const std::vector<XSpace>& parts) {
  const absl::StatusOr<Assembler> assembler = Assembler::Create(items, options);
  ASSERT_TRUE(assembler.ok());
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part& part = assembler->parts()[i];
    EXPECT_EQ(part.begin_ps, i == 0 ? 0 : assembler->parts()[i - 1].end_ps);
    std::map<int64_t, int> starts;
    for (const XPlane& plane : parts[i].planes()) {
      for (const XLine& line : plane.lines()) {
        for (const XEvent& event : line.events()) {
          if (plane.event_metadata().count(event.metadata_id()) == 0) continue;
          if (plane.event_metadata().at(event.metadata_id()).name() == "foreign") continue;
          EXPECT_GE(event.offset_ps(), part.begin_ps);
          EXPECT_LT(event.offset_ps(), part.end_ps);
          ++starts[event.offset_ps()];
        }
      }
    }
    if (starts.size() > 1) {
      EXPECT_LE(part.size_bytes, options.part_limit_bytes) << "part " << i;
    }
  }
  EXPECT_EQ(assembler->parts().back().end_ps, std::numeric_limits<int64_t>::max());
}

class PropertyTest : public ::testing::TestWithParam<int> {};

// Each round of 50 seeds; the seed is in the trace of a failure.
TEST_P(PropertyTest, AssembledTraceIsTheReference) {
  for (int i = 0; i < 50; ++i) {
    const auto seed = static_cast<uint64_t>(GetParam()) * 1000 + static_cast<uint64_t>(i);
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomTraceOptions trace_options;
    trace_options.seed = seed;
    trace_options.events = i % 10 == 9 ? 8000 : static_cast<size_t>(10 + i * 13);
    const RandomTrace trace = MakeRandomTrace(trace_options);
    const std::vector<ItemView> items = trace.store->Items();
    AssembleOptions options;
    options.hostname = "host_1";
    options.part_limit_bytes = kNoLimit;
    std::vector<XSpace> parts = AssembleAll(items, options);
    ASSERT_EQ(parts.size(), 1U);
    EXPECT_EQ(parts[0].hostnames(0), "host_1");
    CheckSpace(trace, parts[0]);
    ExpectSameAsReference(trace, parts[0]);

    options.part_limit_bytes = uint64_t{64} << 10;
    if (i % 5 == 4) options.part_limit_bytes = 1 + seed * 7919 % 200'000;
    parts = AssembleAll(items, options);
    for (const XSpace& part : parts) CheckSpace(trace, part);
    ExpectSameAsReference(trace, Join(parts));
    if (options.part_limit_bytes >= uint64_t{64} << 10) CheckPartSizes(items, options, parts);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Rounds, PropertyTest, ::testing::Range(1, 7));

class PrefixTest : public ::testing::TestWithParam<int> {};

TEST_P(PrefixTest, AnyPrefixAssembles) {
  RandomTraceOptions trace_options;
  trace_options.seed = static_cast<uint64_t>(GetParam());
  trace_options.events = 1500;
  SCOPED_TRACE("seed " + std::to_string(trace_options.seed));
  const RandomTrace trace = MakeRandomTrace(trace_options);
  const std::vector<ItemView> items = trace.store->Items();
  ASSERT_GT(items.size(), 60U);
  AssembleOptions options;
  uint64_t events = 0;
  for (size_t n = 0; n <= items.size(); ++n) {
    const XSpace space = AssembleOne(absl::MakeSpan(items).subspan(0, n), options);
    CheckSpace(trace, space);
    uint64_t events_now = 0;
    for (const XPlane& plane : space.planes()) {
      for (const XLine& line : plane.lines()) {
        events_now += static_cast<uint64_t>(line.events_size());
        if (IsRaw(trace, plane)) continue;
        for (const XEvent& event : line.events()) Describe(plane, event);
      }
      if (!IsRaw(trace, plane)) PlaneStats(plane);
    }
    EXPECT_GE(events_now, events);
    events = events_now;
    EXPECT_EQ(FindPlane(space, "Task Environment") != nullptr, n + 1 >= items.size());
    if (HasFailure()) {
      FAIL() << "with the first " << n << " items";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PrefixTest, ::testing::Range(1, 6));

// What ScanXSpace says about a trace is what is in it.
TEST(ScanPropertyTest, CountsWhatProtobufCounts) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomTraceOptions trace_options;
    trace_options.seed = seed;
    trace_options.events = 500;
    const RandomTrace trace = MakeRandomTrace(trace_options);
    AssembleOptions options;
    options.hostname = "h";
    const absl::StatusOr<Assembler> assembler = Assembler::Create(trace.store->Items(), options);
    ASSERT_TRUE(assembler.ok());
    StringSink sink;
    ASSERT_TRUE(assembler->Write(0, &sink).ok());
    const absl::StatusOr<XSpaceScan> scan = ScanXSpace(sink.text);
    ASSERT_TRUE(scan.ok()) << scan.status();
    XSpace space;
    ASSERT_TRUE(space.ParseFromString(sink.text));
    EXPECT_EQ(scan->planes, static_cast<uint64_t>(space.planes_size()));
    uint64_t lines = 0;
    for (const XPlane& plane : space.planes()) lines += static_cast<uint64_t>(plane.lines_size());
    EXPECT_EQ(scan->lines, lines);
    EXPECT_EQ(scan->events, assembler->events());
    EXPECT_EQ(scan->hostnames, std::vector<std::string>{"h"});
    EXPECT_EQ(scan->warnings.size(), static_cast<size_t>(space.warnings_size()));
    EXPECT_EQ(scan->summary, trace.summary.SerializeAsString());
    EXPECT_EQ(scan->profile_start_time_ns, 1'700'000'000'000'000'000U);
    EXPECT_EQ(scan->profile_stop_time_ns, 1'700'000'003'000'000'000U);
  }
}

// Whatever is done to the bytes: an error, or a trace that protobuf reads; never a crash.
TEST(DamagedItemsTest, GiveAnErrorOrAValidTrace) {
  const SilentProtobuf silent;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomTraceOptions trace_options;
    trace_options.seed = seed;
    trace_options.events = 200;
    const RandomTrace trace = MakeRandomTrace(trace_options);
    const std::vector<OwnedItem> intact = Copies(trace.store->Items());
    std::mt19937_64 random(seed);
    int errors = 0;
    for (int round = 0; round < 60; ++round) {
      std::vector<OwnedItem> items = intact;
      std::string& body = items[random() % items.size()].body;
      if (body.empty()) continue;
      switch (random() % 3) {
        case 0:
          body[random() % body.size()] = static_cast<char>(random());
          break;
        case 1:
          body.resize(random() % body.size());
          break;
        default:
          body.insert(random() % body.size(), 1, static_cast<char>(random()));
      }
      const absl::StatusOr<Assembler> assembler = Assembler::Create(Views(items), {});
      if (!assembler.ok()) {
        EXPECT_EQ(assembler.status().code(), absl::StatusCode::kInvalidArgument);
        ++errors;
        continue;
      }
      StringSink sink;
      ASSERT_TRUE(assembler->Write(0, &sink).ok());
      XSpace space;
      ASSERT_TRUE(space.ParseFromString(sink.text)) << "round " << round;
      ASSERT_TRUE(ScanXSpace(sink.text).ok());
    }
    EXPECT_GT(errors, 0);
  }
}

}  // namespace
}  // namespace jobscope::xspace
