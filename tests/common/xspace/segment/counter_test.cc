// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/segment/counter.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/xspace/segment/item_sink.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/segment.h"
#include "jobscope/v1/item.pb.h"
#include "tensorflow/xplane.pb.h"

namespace jobscope::xspace {
namespace {

// Keeps the events; takes or refuses all other items.
class EventsSink : public ItemSink {
 public:
  [[nodiscard]] bool Append(ItemKind kind, std::string_view body) override {
    if (kind != ItemKind::kEvents) return !refuses_names;
    v1::Events item;
    EXPECT_TRUE(item.ParseFromArray(body.data(), static_cast<int>(body.size())));
    tensorflow::profiler::XLine line;
    EXPECT_TRUE(line.ParseFromString(item.events()));
    for (const auto& event : line.events()) events.push_back(event);
    return true;
  }
  bool Full() const override { return false; }

  bool refuses_names = false;
  std::vector<tensorflow::profiler::XEvent> events;
};

TEST(CounterTest, ASampleIsAnEventWithOneStatistic) {
  EventsSink sink;
  Names names(&sink);
  const PlaneKey plane = names.Plane("/host:CPU", 1);
  Counter counter;
  counter.Declare(&names, plane, "load");
  ASSERT_TRUE(counter.declared());
  SegmentBuilder builder(&sink, plane, 7, 1);
  counter.AddSample(1000, 0.5, &builder);
  builder.Flush();
  ASSERT_EQ(sink.events.size(), 1U);
  const tensorflow::profiler::XEvent& event = sink.events[0];
  EXPECT_EQ(event.offset_ps(), 1000);
  EXPECT_EQ(event.duration_ps(), 1);
  EXPECT_EQ(static_cast<uint64_t>(event.metadata_id()), names.Event(plane, "load"));
  ASSERT_EQ(event.stats_size(), 1);
  EXPECT_EQ(static_cast<uint64_t>(event.stats(0).metadata_id()), names.Stat(plane, "load"));
  EXPECT_EQ(event.stats(0).double_value(), 0.5);
}

TEST(CounterTest, IsDeclaredOnceThereIsRoom) {
  EventsSink sink;
  Names names(&sink);
  const PlaneKey plane = names.Plane("/host:CPU", 1);
  Counter counter;
  EXPECT_FALSE(counter.declared());
  sink.refuses_names = true;
  counter.Declare(&names, plane, "load");
  EXPECT_FALSE(counter.declared());
  sink.refuses_names = false;
  counter.Declare(&names, plane, "load");
  EXPECT_TRUE(counter.declared());
}

}  // namespace
}  // namespace jobscope::xspace
