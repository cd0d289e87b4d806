// SPDX-License-Identifier: Apache-2.0
//
// Items as a worker makes them, and messages that carry them.
#ifndef TESTS_CLIENT_FAKE_ITEMS_H_
#define TESTS_CLIENT_FAKE_ITEMS_H_

#include <cstddef>
#include <cstdint>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/xspace/segment/item_sink.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/segment.h"
#include "jobscope/v1/item.pb.h"
#include "tests/client/fake_traces.h"

namespace jobscope {

struct FakeItem {
  uint64_t number = 0;
  xspace::ItemKind kind = xspace::ItemKind::kEvents;
  std::string body;
};

// Keeps what a session would put into its store.
class FakeItems : public xspace::ItemSink {
 public:
  bool Append(xspace::ItemKind kind, std::string_view body) override {
    items.push_back({items.size() + 1, kind, std::string(body)});
    return true;
  }
  bool Full() const override { return false; }

  std::vector<FakeItem> items;
};

// `segments` on each of `lines` lines, each with `events` events of 1 us, 2 us apart; then the
// summary.
inline std::vector<FakeItem> MakeItems(int lines, int segments, int events,
                                       bool with_summary = true) {
  FakeItems sink;
  xspace::Names names(&sink);
  const xspace::PlaneKey plane = names.Plane("/host:CPU", 1);
  for (int segment = 0; segment < segments; ++segment) {
    for (int i = 0; i < lines; ++i) {
      const int64_t line = names.Line(plane, 100 + i, absl::StrCat("thread ", i));
      xspace::SegmentBuilder builder(&sink, plane, line, 1);
      for (int k = 0; k < events; ++k) {
        xspace::SegmentEvent event;
        event.start_ps = (int64_t{segment} * events + k) * 2'000'000;
        event.duration_ps = 1'000'000;
        event.metadata_id = names.Event(plane, absl::StrCat("work ", k % 7));
        builder.Add(event);
      }
      builder.Flush();
    }
  }
  if (with_summary) {
    const v1::Summary summary =
        MakeSummary(static_cast<uint64_t>(lines) * static_cast<uint64_t>(segments) *
                    static_cast<uint64_t>(events));
    (void)sink.Append(xspace::ItemKind::kSummary, summary.SerializeAsString());
  }
  return std::move(sink.items);
}

inline void AppendItem(const FakeItem& item, std::string* items) {
  std::string bytes;
  protozero::pbf_writer writer(bytes);
  writer.add_uint64(1, item.number);
  writer.add_bytes(static_cast<uint32_t>(item.kind), item.body);
  protozero::pbf_writer(*items).add_message(1, bytes);
}

// A jobscope.v1.Items.
inline std::string ItemsBytes(const std::vector<FakeItem>& items, size_t begin = 0,
                              size_t end = SIZE_MAX) {
  std::string bytes;
  for (size_t i = begin; i < std::min(end, items.size()); ++i) AppendItem(items[i], &bytes);
  return bytes;
}

// A jobscope.v1.CaptureResponse that holds it.
inline std::string ItemsMessage(const std::vector<FakeItem>& items, size_t begin = 0,
                                size_t end = SIZE_MAX) {
  std::string message;
  protozero::pbf_writer(message).add_message(4, ItemsBytes(items, begin, end));
  return message;
}

}  // namespace jobscope

#endif  // TESTS_CLIENT_FAKE_ITEMS_H_
