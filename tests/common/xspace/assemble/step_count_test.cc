// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/assemble/step_count.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/xspace/assemble/assembler.h"
#include "common/xspace/assemble/read_meter.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/segment.h"
#include "common/xspace/segment/stats.h"
#include "common/xspace/segment/store.h"

namespace jobscope::xspace {
namespace {

// A client that counts the steps of a spool must not keep all of its pages.
TEST(StepCountTest, ReleasesWhatItHasRead) {
  Store store(size_t{64} << 20);
  Names names(&store);
  const PlaneKey plane = names.Plane("/host:CPU", 3);
  const uint64_t large = names.Stat(plane, "large");
  const uint64_t step = names.Stat(plane, "_r");
  SegmentBuilder builder(&store, plane, names.Line(plane, 42, "main"), 1);
  constexpr int kSteps = 900;  // 54 MB
  for (int i = 0; i < kSteps; ++i) {
    StatsEncoder stats(StatsOf::kEvent);
    stats.String(large, std::string(60'000, 'x'));
    stats.Int64(step, 1);
    SegmentEvent event;
    event.start_ps = i * int64_t{1'000'000};
    event.duration_ps = 1'000;
    event.metadata_id = names.Event(plane, "step");
    event.stats = stats.bytes();
    builder.Add(event);
  }
  builder.Flush();
  std::vector<std::vector<uintptr_t>> released;
  AssembleOptions options;
  options.release_pages = [&released](const std::vector<uintptr_t>& chunks) {
    released.push_back(chunks);
  };
  const std::vector<ItemView> items = store.Items();
  const absl::StatusOr<Assembler> assembler = Assembler::Create(items, options);
  ASSERT_TRUE(assembler.ok()) << assembler.status();
  released.clear();
  EXPECT_EQ(assembler->CountSteps(), static_cast<uint64_t>(kSteps));
  EXPECT_GE(released.size(), 2U) << "while it reads, and at the end";
  std::set<uintptr_t> all;
  for (const std::vector<uintptr_t>& chunks : released) {
    EXPECT_LE(chunks.size(), ReadMeter::kMaxChunks);
    all.insert(chunks.begin(), chunks.end());
  }
  const auto is_held = [&all](const ItemView& item) {
    const auto begin = reinterpret_cast<uintptr_t>(item.body.data());
    return item.kind == ItemKind::kEvents &&
           all.count(begin / ReadMeter::kChunkBytes * ReadMeter::kChunkBytes) == 0;
  };
  EXPECT_EQ(std::count_if(items.begin(), items.end(), is_held), 0);
}

}  // namespace
}  // namespace jobscope::xspace
