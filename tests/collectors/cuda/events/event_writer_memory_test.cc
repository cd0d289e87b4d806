// SPDX-License-Identifier: Apache-2.0
//
// The writer of events while allocations fail.
#include <gtest/gtest.h>
#include <pthread.h>

#include <cstdint>
#include <new>
#include <optional>
#include <string_view>

#include "tests/collectors/cuda/events/writer_rig.h"
#include "tests/failing_memory.h"

namespace jobscope::cuda {
namespace {

// Expects the only launch to have the number of that plane. Returns false if the trace lacks one of
// them: memory ran out as it was declared.
bool ComparesNumbers(const xspace::Store& store, std::string_view plane_name) {
  const tensorflow::profiler::XSpace space = SpaceOf(store);
  std::optional<int64_t> plane_number;
  std::optional<int64_t> launch_number;
  int64_t next = 0;
  for (const auto& plane : space.planes()) {
    if (plane.name().rfind("/device:GPU:", 0) == 0) {
      if (plane.name() == plane_name) plane_number = next;
      ++next;
    }
    if (plane.name() != "/host:CPU" || plane.lines_size() == 0) continue;
    for (const auto& stat : plane.lines(0).events(0).stats()) {
      if (plane.stat_metadata().at(stat.metadata_id()).name() == "device_id") {
        launch_number = stat.int64_value();
      }
    }
  }
  if (!plane_number.has_value() || !launch_number.has_value()) return false;
  EXPECT_EQ(*launch_number, *plane_number);
  return true;
}

// The session goes on, and flushes all lines at its end.
TEST(EventWriterMemory, EventsAreWrittenAsAWholeOrNotAtAll) {
  pthread_setname_np(pthread_self(), "jobscope-test");
  constexpr int kMostAllocations = 2'000;
  int at = 1;
  for (; at < kMostAllocations; ++at) {
    SCOPED_TRACE(at);
    WriterRig rig;
    (void)rig.kernels.Find("_Z3addv");
    EventWriter& writer = rig.writer;
    uint64_t written = 0;
    const auto write = [&](auto&& event) {
      try {
        event();
        ++written;
      } catch (const std::bad_alloc&) {
      }
    };
    FailAllocations(at, /*failures=*/1);
    write([&] { writer.Device(At(ActivityType::kKernel, 100), nullptr); });
    write([&] { writer.Device(At(ActivityType::kSet, 105), nullptr); });  // in a second lane
    write([&] { writer.Api(At(ActivityType::kApi, 100), nullptr, nullptr); });
    write([&] { writer.Memory(At(ActivityType::kMemory, 100)); });
    write([&] { writer.Other(At(ActivityType::kSync, 100)); });
    const bool met = StopFailing() == 0;
    writer.Flush();
    EXPECT_EQ(writer.appended() + writer.refused(), written);
    if (!met) break;  // it needs fewer allocations
  }
  EXPECT_GT(at, 20);
  EXPECT_LT(at, kMostAllocations);
}

// XProf finds the plane of a launch by its place among the GPUs' planes of the file.
TEST(EventWriterMemory, PlanesKeepTheirNumbers) {
  pthread_setname_np(pthread_self(), "jobscope-test");
  constexpr int kMostAllocations = 2'000;
  int at = 1;
  int compared = 0;
  for (; at < kMostAllocations; ++at) {
    SCOPED_TRACE(at);
    WriterRig rig;
    (void)rig.kernels.Find("_Z3addv");
    EventWriter& writer = rig.writer;
    FailAllocations(at, /*failures=*/1);
    try {
      writer.Device(At(ActivityType::kKernel, 100), nullptr);
    } catch (const std::bad_alloc&) {
    }
    const bool met = StopFailing() == 0;
    TimedActivity second = At(ActivityType::kKernel, 200);
    second.activity.device = 1;
    writer.Device(second, nullptr);
    writer.Device(At(ActivityType::kKernel, 300), nullptr);
    Launched launched;
    launched.device = 1;
    writer.Api(At(ActivityType::kApi, 50), &launched, nullptr);
    writer.Flush();
    compared += ComparesNumbers(rig.store, "/device:GPU:1") ? 1 : 0;
    if (!met) break;  // it needs fewer allocations
  }
  EXPECT_GT(compared, 2);
  EXPECT_LT(at, kMostAllocations);
}

}  // namespace
}  // namespace jobscope::cuda
