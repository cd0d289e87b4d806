// SPDX-License-Identifier: Apache-2.0
//
// Provides sinks that keep what they receive, and XSpaces as protobuf objects, for the tests of
// this folder.
#ifndef TESTS_COMMON_XSPACE_ASSEMBLE_TRACE_UTIL_H_
#define TESTS_COMMON_XSPACE_ASSEMBLE_TRACE_UTIL_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/xspace/assemble/assembler.h"
#include "common/xspace/segment/item_sink.h"
#include "common/xspace/segment/store.h"
#include "jobscope/v1/item.pb.h"
#include "tensorflow/xplane.pb.h"

namespace jobscope::xspace {

using tensorflow::profiler::XLine;
using tensorflow::profiler::XPlane;
using tensorflow::profiler::XSpace;

// Keeps everything.
class StringSink : public ByteSink {
 public:
  absl::Status Write(std::string_view bytes, bool stable) override {
    (stable ? stable_bytes : copied_bytes) += bytes.size();
    text.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  std::string text;
  uint64_t stable_bytes = 0;
  uint64_t copied_bytes = 0;
};

// Items that own their bytes: for tests that change them.
struct OwnedItem {
  ItemKind kind;
  std::string body;
};

inline std::vector<ItemView> Views(const std::vector<OwnedItem>& items) {
  std::vector<ItemView> views;
  for (const OwnedItem& item : items) views.push_back({views.size() + 1, item.kind, item.body});
  return views;
}

inline std::vector<OwnedItem> Copies(const std::vector<ItemView>& views) {
  std::vector<OwnedItem> items;
  for (const ItemView& view : views) items.push_back({view.kind, std::string(view.body)});
  return items;
}

// Assembles, writes and parses all parts; fails the test where sizes or counts are not what was
// promised.
inline std::vector<XSpace> AssembleAll(absl::Span<const ItemView> items,
                                       const AssembleOptions& options) {
  std::vector<XSpace> spaces;
  absl::StatusOr<Assembler> assembler = Assembler::Create(items, options);
  if (!assembler.ok()) {
    ADD_FAILURE() << assembler.status();
    return spaces;
  }
  uint64_t events = 0;
  for (size_t i = 0; i < assembler->parts().size(); ++i) {
    StringSink sink;
    const absl::Status status = assembler->Write(i, &sink);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(sink.text.size(), assembler->parts()[i].size_bytes);
    XSpace space;
    EXPECT_TRUE(space.ParseFromString(sink.text)) << "part " << i << " does not parse";
    uint64_t events_in_part = 0;
    for (const XPlane& plane : space.planes()) {
      for (const XLine& line : plane.lines()) events_in_part += line.events_size();
    }
    EXPECT_EQ(events_in_part, assembler->parts()[i].events);
    events += events_in_part;
    spaces.push_back(std::move(space));
  }
  EXPECT_EQ(events, assembler->events());
  return spaces;
}

inline XSpace AssembleOne(absl::Span<const ItemView> items, const AssembleOptions& options = {}) {
  std::vector<XSpace> spaces = AssembleAll(items, options);
  EXPECT_EQ(spaces.size(), 1U);
  return spaces.empty() ? XSpace() : std::move(spaces.front());
}

inline const XPlane* FindPlane(const XSpace& space, std::string_view name) {
  const XPlane* found = nullptr;
  for (const XPlane& plane : space.planes()) {
    if (plane.name() != name) continue;
    EXPECT_EQ(found, nullptr) << "two planes are called " << name;
    found = &plane;
  }
  return found;
}

}  // namespace jobscope::xspace

#endif  // TESTS_COMMON_XSPACE_ASSEMBLE_TRACE_UTIL_H_
