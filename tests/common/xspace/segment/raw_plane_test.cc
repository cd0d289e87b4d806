// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/segment/raw_plane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tensorflow/xplane.pb.h"
#include "tests/silent_protobuf.h"

namespace jobscope::xspace {
namespace {

using tensorflow::profiler::XPlane;

XPlane FrameworkPlane() {
  XPlane plane;
  plane.set_id(5);
  plane.set_name("/host:tf");
  auto& event = (*plane.mutable_event_metadata())[1];
  event.set_id(1);
  event.set_name("op");
  event.set_display_name("Op");
  event.add_child_id(300);
  event.add_stats()->set_str_value("of the metadata");
  auto& stat = (*plane.mutable_stat_metadata())[2];
  stat.set_id(2);
  stat.set_name("stat");
  stat.set_description("description");
  auto* const line = plane.add_lines();
  line->set_name("line");
  line->set_display_name("Line");
  line->add_events()->add_stats()->set_str_value("of the event");
  line->add_events()->set_num_occurrences(3);
  plane.add_stats()->set_str_value("of the plane");
  return plane;
}

TEST(RawPlaneTest, TakesWhatProtobufWrites) {
  const absl::StatusOr<RawPlaneInfo> info = CheckRawPlane(FrameworkPlane().SerializeAsString());
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->name, "/host:tf");
  EXPECT_EQ(info->events, 2U);
}

TEST(RawPlaneTest, EveryStringIsChecked) {
  for (const char* text : {"/host:tf", "Op", "of the metadata", "description", "line", "Line",
                           "of the event", "of the plane", "op"}) {
    std::string bytes = FrameworkPlane().SerializeAsString();
    bytes[bytes.find(text)] = '\xff';
    EXPECT_FALSE(CheckRawPlane(bytes).ok()) << text;
  }
}

// What passes, protobuf takes; there are bytes that protobuf takes and that do not pass (groups,
// for one).
TEST(RawPlaneTest, WhatPassesParses) {
  const SilentProtobuf silent;
  const std::string intact = FrameworkPlane().SerializeAsString();
  std::mt19937 random(11);
  int passed = 0;
  for (int i = 0; i < 50000; ++i) {
    std::string bytes = intact;
    for (int changes = 1 + static_cast<int>(random() % 2); changes > 0; --changes) {
      if (random() % 4 == 0) {
        bytes.insert(random() % bytes.size(), 1,
                     static_cast<char>(random() % 4 == 0 ? 0x80 : random()));
      } else {
        bytes[random() % bytes.size()] = static_cast<char>(random());
      }
    }
    const absl::StatusOr<RawPlaneInfo> info = CheckRawPlane(bytes);
    if (!info.ok()) continue;
    ++passed;
    XPlane plane;
    ASSERT_TRUE(plane.ParseFromString(bytes)) << i;
    EXPECT_EQ(plane.name(), info->name);
  }
  EXPECT_GT(passed, 1000);
}

}  // namespace
}  // namespace jobscope::xspace
