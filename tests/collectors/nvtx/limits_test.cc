// SPDX-License-Identifier: Apache-2.0
//
// Tests more of everything than the tables have room for, and more than a ring holds. Each test is
// a process of its own (CMakeLists.txt), because the tables live as long as a process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "collectors/nvtx/event.h"
#include "collectors/nvtx/handler.h"
#include "collectors/nvtx/names.h"
#include "common/xspace/segment/nvtx_place.h"
#include "tests/collectors/host/recorder/recorded.h"
#include "tests/collectors/nvtx/nvtx_unit.h"

namespace jobscope::nvtx_test {
namespace {

using recorder_test::Event;
using recorder_test::Record;
using recorder_test::Recording;
using Program = Unit<0>;

constexpr uint32_t kOn = JOBSCOPE_BIT_LEVEL1;

class Limits : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(Program::Attach(
        [](void* table) { return nvtx::Attach(jobscope_trace_writer(), table) ? 1 : 0; }));
  }
};

uint64_t DictionaryFull() {
  jobscope_totals totals = {};
  jobscope_trace_reader()->totals(&totals);
  return totals.dictionary_full;
}

std::string MessageOf(const Event& event) {
  for (size_t i = 0; i < event.args.size(); ++i) {
    if (i < event.keys.size() && event.keys[i] == "message") return event.args[i].text;
  }
  return "(none)";
}

TEST_F(Limits, MessagesBeyondTheRoomAreArguments) {
  const auto name = [](uint32_t i) { return "iteration " + std::to_string(i); };
  std::vector<Event> events;
  for (uint32_t from = 0; from < nvtx::kMaxSites + 1000; from += 500) {
    const auto some = Record(kOn, [&] {
      for (uint32_t i = from; i < from + 500; ++i) {
        Program::Push(name(i).c_str());
        Program::Push("inner");
        Program::Pop();
        Program::Pop();
      }
    });
    ASSERT_EQ(some.size(), 1000u);
    for (const Event& event : some) {
      if (event.name != "inner") events.push_back(event);
    }
  }
  ASSERT_GE(events.size(), nvtx::kMaxSites + 1000u);
  for (uint32_t i = 0; i < events.size(); ++i) {
    if (i < nvtx::kMaxSites - 10) {
      ASSERT_EQ(events[i].name, name(i));
    } else if (i > nvtx::kMaxSites) {
      ASSERT_EQ(events[i].name, kNvtxMoreNames);
      ASSERT_EQ(MessageOf(events[i]), name(i));
    }
  }
  EXPECT_EQ(DictionaryFull(), 0u) << "the room of others is left to them";

  // Payloads and start/end ranges, too.
  auto attributes = Message("one more");
  attributes.payload_type = abi::kPayloadInt64;
  attributes.payload.int64_value = 9;
  const auto more = Record(kOn, [&] {
    Program::Push(&attributes);
    Program::Pop();
    Program::Mark(nullptr, &attributes);
    Program::End(Program::Start(nullptr, &attributes));
  });
  ASSERT_EQ(more.size(), 4u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(more[i].name, kNvtxMoreNames);
    EXPECT_EQ(MessageOf(more[i]), "one more");
    EXPECT_EQ(more[i].args.back().AsInt64(), 9);
  }
}

TEST_F(Limits, StringsBeyondTheRoomShareAHandle) {
  const void* const first = Program::Register(nullptr, "the first");
  const void* last = nullptr;
  for (uint32_t i = 0; i < nvtx::kMaxStrings + 100; ++i) {
    last = Program::Register(nullptr, ("string " + std::to_string(i)).c_str());
    ASSERT_NE(last, nullptr);
  }
  EXPECT_EQ(Program::Register(nullptr, "the first"), first);
  const auto events = Record(kOn, [&] {
    const auto known = Registered(first), shared = Registered(last);
    Program::Push(&known);
    Program::Pop();
    Program::Push(&shared);
    Program::Pop();
  });
  EXPECT_EQ(events.at(0).name, "the first");
  EXPECT_EQ(events.at(1).name, "(more NVTX strings)");
}

TEST_F(Limits, DomainsAndCategoriesBeyondTheRoom) {
  const void* last = nullptr;
  for (uint32_t i = 0; i < nvtx::kMaxDomains + 20; ++i) {
    last = Program::CreateDomain(("domain " + std::to_string(i)).c_str());
    ASSERT_NE(last, nullptr);
  }
  for (uint32_t i = 0; i < nvtx::kMaxCategories + 20; ++i) {
    Program::NameCategory(nullptr, i, ("category " + std::to_string(i)).c_str());
  }
  const auto events = Record(kOn, [&] {
    auto message = Message("in one of them");
    Program::Push(last, &message);
    Program::Pop(last);
    message.category = nvtx::kMaxCategories + 10;
    Program::Push(&message);
    Program::Pop();
  });
  ASSERT_EQ(events.size(), 2u);
  jobscope_site_info info = {};
  ASSERT_EQ(jobscope_trace_reader()->site(events[0].site, &info), 0);
  EXPECT_EQ(ParseNvtxPlace(info.file).domain, "(more NVTX domains)");
  ASSERT_EQ(jobscope_trace_reader()->site(events[1].site, &info), 0);
  EXPECT_EQ(ParseNvtxPlace(info.file).category, std::to_string(nvtx::kMaxCategories + 10));
}

TEST_F(Limits, SchemasWithoutRoomAreAcceptedAndNotRead) {
  ASSERT_TRUE(Program::AttachPayloads(
      [](void* module) { return nvtx::AttachExtension(jobscope_trace_writer(), module) ? 1 : 0; }));
  abi::SchemaEntry entry = {};
  entry.type = abi::kEntryInt;
  entry.name = "n";
  abi::SchemaAttributes schema = {};
  schema.field_mask = abi::kSchemaHasEntries | abi::kSchemaHasEntryCount;
  schema.entries = &entry;
  schema.entry_count = 1;
  using RegisterSchema = uint64_t (*)(const void*, const abi::SchemaAttributes*);
  const auto register_schema = Program::Payload<RegisterSchema>(abi::kSchemaRegister);
  const uint64_t first = register_schema(nullptr, &schema);
  uint64_t last = 0;
  for (uint32_t i = 0; i < nvtx::kMaxSchemas + 5; ++i) last = register_schema(nullptr, &schema);
  EXPECT_EQ(last, first + nvtx::kMaxSchemas + 5);
  const auto events = Record(kOn, [&] {
    const int value = 1;
    for (const uint64_t id : {first, last}) {
      const abi::PayloadData payload = {id, sizeof(value), &value};
      auto attributes = Message("payload");
      attributes.payload_type = abi::kPayloadExtended;
      attributes.payload_count = 1;
      attributes.payload.uint64_value = reinterpret_cast<uintptr_t>(&payload);
      Program::Push(&attributes);
      Program::Pop();
    }
  });
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].args.size(), 1u);
  EXPECT_EQ(events[1].args.size(), 0u);
}

// A million ranges through a ring of a thousand records: each is read or counted as lost.
TEST_F(Limits, LossIsExact) {
  constexpr uint64_t kRanges = 1'000'000;
  const struct jobscope_trace_reader* const reader = jobscope_trace_reader();
  ASSERT_EQ(reader->configure(1024, uint64_t{64} << 20), 0);
  Recording recording(kOn);
  std::atomic<uint64_t> serial{0};
  std::atomic<bool> go{false};
  std::thread thread([&] {
    serial = recorder_test::MySerial();
    while (!go) std::this_thread::yield();
    auto attributes = Message("numbered");
    attributes.payload_type = abi::kPayloadUint64;
    for (uint64_t i = 0; i < kRanges; ++i) {
      attributes.payload.uint64_value = i;
      Program::Push(&attributes);
      Program::Pop();
    }
  });
  while (serial == 0) std::this_thread::yield();
  const jobscope_thread_info info = recorder_test::FindThread(serial);
  jobscope_cursor cursor = {info.first_record, info.first_event};
  go = true;
  uint64_t read = 0, lost = 0, next = 0;
  while (read + lost < kRanges) {
    const auto some = recorder_test::ReadAll(serial, &cursor);
    ASSERT_EQ(some.status, 0);
    lost += some.lost;
    read += some.events.size();
    for (const Event& event : some.events) {
      ASSERT_EQ(event.name, "numbered");
      ASSERT_GE(event.args.at(0).bits, next);
      next = event.args[0].bits + 1;
    }
  }
  thread.join();
  EXPECT_EQ(read + lost, kRanges);
  EXPECT_GT(read, 0u);
  EXPECT_EQ(next, kRanges) << "the last one is always there";
}

// Names that come up on several threads at once are one.
TEST_F(Limits, ThreadsAddTheSameNames) {
  constexpr int kThreads = 4;
  constexpr int kNames = 500;
  std::vector<std::vector<const void*>> handles(kThreads);
  std::vector<uint64_t> serials(kThreads);
  std::atomic<int> ready{0};
  Recording recording(kOn);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      serials[t] = recorder_test::MySerial();
      ++ready;
      while (ready < kThreads) std::this_thread::yield();
      for (int i = 0; i < kNames; ++i) {
        handles[t].push_back(Program::Register(nullptr, ("name " + std::to_string(i)).c_str()));
        const auto attributes = Registered(handles[t].back());
        Program::Push(&attributes);
        Program::Pop();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<uint32_t> sites;
  for (int t = 0; t < kThreads; ++t) {
    EXPECT_EQ(handles[t], handles[0]);
    const jobscope_thread_info info = recorder_test::FindThread(serials[t]);
    jobscope_cursor cursor = {info.first_record, info.first_event};
    const auto events = recorder_test::ReadAll(serials[t], &cursor).events;
    ASSERT_EQ(events.size(), static_cast<size_t>(kNames));
    for (int i = 0; i < kNames; ++i) {
      EXPECT_EQ(events[i].name, "name " + std::to_string(i));
      if (t == 0) sites.push_back(events[i].site);
      EXPECT_EQ(events[i].site, sites[i]);
    }
  }
}

}  // namespace
}  // namespace jobscope::nvtx_test
