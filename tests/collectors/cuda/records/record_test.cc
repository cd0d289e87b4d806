// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/records/record.h"

#include <gtest/gtest.h>

#include "tests/collectors/cuda/record_builder.h"

namespace jobscope::cuda {
namespace {

constexpr uint32_t kVersions[] = {13, 14, 15, 17, 18, 19, 20, 22, 24, 26, 28, 130000, 130400};

Activity Parse(const Bytes& bytes, uint32_t version) {
  Activity activity;
  EXPECT_EQ(ParseRecord(bytes.data(), bytes.size(), version, &activity), ParseResult::kOk);
  return activity;
}

TEST(RecordTest, EveryFieldOfTheNewestVersionComesBack) {
  for (const Activity& in : OneOfEach()) {
    SCOPED_TRACE(static_cast<int>(in.type));
    const Activity out = Parse(Encode(in, 130001), 130001);
    EXPECT_EQ(out.type, in.type);
    EXPECT_EQ(out.start_ns, in.start_ns);
    EXPECT_EQ(out.end_ns, in.type == ActivityType::kMemory ? in.start_ns : in.end_ns);
    EXPECT_EQ(out.correlation, in.type == ActivityType::kUnifiedMemory ? 0 : in.correlation);
    switch (in.type) {
      case ActivityType::kKernel:
        EXPECT_EQ(out.registers, in.registers);
        EXPECT_EQ(out.device, in.device);
        EXPECT_EQ(out.context, in.context);
        EXPECT_EQ(out.stream, in.stream);
        for (int i = 0; i < 3; ++i) {
          EXPECT_EQ(out.grid[i], in.grid[i]);
          EXPECT_EQ(out.block[i], in.block[i]);
          EXPECT_EQ(out.cluster[i], in.cluster[i]);
        }
        EXPECT_EQ(out.static_shared_bytes, in.static_shared_bytes);
        EXPECT_EQ(out.dynamic_shared_bytes, in.dynamic_shared_bytes);
        EXPECT_EQ(out.local_bytes_per_thread, in.local_bytes_per_thread);
        EXPECT_EQ(out.graph, in.graph);
        EXPECT_EQ(out.graph_node, in.graph_node);
        EXPECT_EQ(out.name, in.name);
        break;
      case ActivityType::kCopy:
        EXPECT_EQ(out.sub_kind, in.sub_kind);
        EXPECT_EQ(out.source_memory, in.source_memory);
        EXPECT_EQ(out.destination_memory, in.destination_memory);
        EXPECT_EQ(out.is_async, in.is_async);
        EXPECT_EQ(out.bytes, in.bytes);
        EXPECT_EQ(out.graph, in.graph);
        EXPECT_EQ(out.graph_node, in.graph_node);
        if (in.sub_kind == 10) {
          EXPECT_EQ(out.peer_source, in.peer_source);
          EXPECT_EQ(out.peer_destination, in.peer_destination);
        }
        break;
      case ActivityType::kSet:
        EXPECT_EQ(out.bytes, in.bytes);
        EXPECT_EQ(out.call, in.call);
        EXPECT_EQ(out.source_memory, in.source_memory);
        EXPECT_EQ(out.is_async, in.is_async);
        EXPECT_EQ(out.graph_node, in.graph_node);
        break;
      case ActivityType::kApi:
        EXPECT_EQ(out.call, in.call);
        EXPECT_EQ(out.thread, in.thread);
        EXPECT_EQ(out.result, in.result);
        break;
      case ActivityType::kSync:
        EXPECT_EQ(out.sub_kind, in.sub_kind);
        EXPECT_EQ(out.context, in.context);
        EXPECT_EQ(out.stream, in.stream);
        break;
      case ActivityType::kOverhead:
        EXPECT_EQ(out.call, in.call);
        EXPECT_EQ(out.thread, in.thread);
        break;
      case ActivityType::kMemory:
        EXPECT_EQ(out.sub_kind, in.sub_kind);
        EXPECT_EQ(out.source_memory, in.source_memory);
        EXPECT_EQ(out.address, in.address);
        EXPECT_EQ(out.bytes, in.bytes);
        EXPECT_EQ(out.device, in.device);
        break;
      case ActivityType::kUnifiedMemory:
        EXPECT_EQ(out.bytes, in.bytes);
        EXPECT_EQ(out.address, in.address);
        break;
    }
  }
}

TEST(RecordTest, FieldsThatAVersionLacksAreZero) {
  Activity kernel = OneOfEach()[0];
  EXPECT_EQ(Parse(Encode(kernel, kCupti11_0), kCupti11_0).graph, 0u);
  EXPECT_EQ(Parse(Encode(kernel, kCupti11_1), kCupti11_1).graph, kernel.graph);
  EXPECT_EQ(Parse(Encode(kernel, kCupti11_6), kCupti11_6).cluster[0], 0u);
  EXPECT_EQ(Parse(Encode(kernel, kCupti11_8), kCupti11_8).cluster[0], kernel.cluster[0]);
  Activity overhead = OneOfEach()[static_cast<size_t>(ActivityType::kOverhead)];
  overhead.details = &kernel;
  overhead.call = 6u << 16;
  EXPECT_EQ(Parse(Encode(overhead, kCupti12_2), kCupti12_2).correlation, 0u);
  EXPECT_EQ(Parse(Encode(overhead, kCupti12_3), kCupti12_3).correlation, overhead.correlation);
  EXPECT_EQ(Parse(Encode(overhead, kCupti12_3), kCupti12_3).details, nullptr);
  EXPECT_EQ(Parse(Encode(overhead, kCupti12_4), kCupti12_4).details, &kernel);
}

TEST(RecordTest, EveryCutIsSeen) {
  for (const uint32_t version : kVersions) {
    for (const Activity& in : OneOfEach()) {
      const Bytes bytes = Encode(in, version);
      if (bytes.empty()) continue;  // a kind that this version does not have
      for (size_t size = 0; size < bytes.size(); ++size) {
        const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
        Activity out;
        EXPECT_EQ(ParseRecord(cut.data(), cut.size(), version, &out), ParseResult::kTruncated);
      }
      EXPECT_EQ(Parse(bytes, version).start_ns, in.start_ns);
    }
  }
}

TEST(RecordTest, UnknownKindsAreSaidToBe) {
  Bytes bytes(512, 0xff);
  Activity out;
  EXPECT_EQ(ParseRecord(bytes.data(), bytes.size(), 130001, &out), ParseResult::kUnknown);
  const uint32_t marker = 12;
  std::memcpy(bytes.data(), &marker, sizeof(marker));
  EXPECT_EQ(ParseRecord(bytes.data(), bytes.size(), 130001, &out), ParseResult::kUnknown);
  // MEMORY2 came with 11.2.
  EXPECT_EQ(RecordBytes(kKindMemory, kCupti11_1), 0u);
}

TEST(RecordTest, RecordsOnlyGrow) {
  for (const uint32_t kind : {1u, 2u, 3u, 4u, 5u, 10u, 17u, 22u, 25u, 38u, 49u, 51u}) {
    size_t before = 0;
    for (const uint32_t version : kVersions) {
      const size_t bytes = RecordBytes(kind, version);
      EXPECT_GE(bytes, before) << "kind " << kind << " version " << version;
      EXPECT_EQ(bytes % 8, 0u);
      before = bytes;
    }
  }
}

TEST(RecordTest, AreCountedWithoutTheLibraryUpToAnUnknownOne) {
  for (const uint32_t version : {kCupti11_0, kCupti12_4, kCupti13_0}) {
    std::vector<Bytes> records;
    for (const Activity& activity : OneOfEach()) {
      Bytes record = Encode(activity, version);
      if (!record.empty()) records.push_back(std::move(record));
    }
    const uint64_t count = records.size();
    const Bytes last = records.back();
    Bytes all = Join(records);
    EXPECT_EQ(CountRecords(all.data(), all.size(), version), count);
    EXPECT_EQ(CountRecords(all.data(), all.size() - 1, version), count - 1);
    all = Join({all, Bytes(64, 0), last});
    EXPECT_EQ(CountRecords(all.data(), all.size(), version), count);
  }
}

}  // namespace
}  // namespace jobscope::cuda
