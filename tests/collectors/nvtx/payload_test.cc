// SPDX-License-Identifier: Apache-2.0
//
// Tests extended payloads: the fields that a schema describes become arguments.
#include "collectors/nvtx/payload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/collectors/nvtx/handler_fixture.h"

namespace jobscope::nvtx_test {
namespace {

using RegisterSchema = uint64_t (*)(const void*, const abi::SchemaAttributes*);
using RegisterEnum = uint64_t (*)(const void*, const abi::EnumAttributes*);
using WithPayloads = int (*)(const void*, const abi::PayloadData*, size_t);
using MarkPayloads = void (*)(const void*, const abi::PayloadData*, size_t);

abi::SchemaEntry Entry(uint64_t type, const char* name, uint64_t offset = 0, uint64_t flags = 0) {
  abi::SchemaEntry entry = {};
  entry.flags = flags;
  entry.type = type;
  entry.name = name;
  entry.offset = offset;
  return entry;
}

abi::SchemaAttributes Schema(const std::vector<abi::SchemaEntry>& entries, uint64_t id,
                             size_t static_size = 0) {
  abi::SchemaAttributes attributes = {};
  attributes.field_mask = abi::kSchemaHasName | abi::kSchemaHasEntries | abi::kSchemaHasEntryCount;
  attributes.name = "a schema";
  attributes.entries = entries.data();
  attributes.entry_count = entries.size();
  if (id != 0) {
    attributes.field_mask |= abi::kSchemaHasId;
    attributes.schema_id = id;
  }
  if (static_size != 0) {
    attributes.field_mask |= abi::kSchemaHasStaticSize;
    attributes.static_size = static_size;
  }
  return attributes;
}

abi::EventAttributes Extended(const abi::PayloadData* payloads, int32_t count) {
  abi::EventAttributes attributes = Message("extended");
  attributes.payload_type = abi::kPayloadExtended;
  attributes.payload_count = count;
  attributes.payload.uint64_value = reinterpret_cast<uintptr_t>(payloads);
  return attributes;
}

class Payloads : public Handler {
 protected:
  static void SetUpTestSuite() {
    Handler::SetUpTestSuite();
    domain = Program::CreateDomain("payloads");
  }
  static uint64_t Register(const abi::SchemaAttributes& attributes) {
    return Program::Payload<RegisterSchema>(abi::kSchemaRegister)(domain, &attributes);
  }
  // What one range with these payloads records.
  static recorder_test::Event Range(const abi::PayloadData* payloads, int32_t count) {
    const auto events = Record(kOn, [=] {
      const auto attributes = Extended(payloads, count);
      Program::Push(domain, &attributes);
      Program::Pop(domain);
    });
    EXPECT_EQ(events.size(), 1u);
    return events.empty() ? recorder_test::Event() : events[0];
  }
  static inline const void* domain = nullptr;
};

// As NCCL describes its calls: scalars at given offsets, an enum among them.
struct Collective {
  uint64_t communicator;
  int32_t rank;
  uint8_t kind;
  double ratio;
};

TEST_F(Payloads, FieldsAreArguments) {
  abi::EnumAttributes kinds = {};
  kinds.field_mask = abi::kEnumHasSize | abi::kEnumHasId;
  kinds.size_of_enum = 1;
  kinds.schema_id = (1 << 24) + 1;
  EXPECT_EQ(Program::Payload<RegisterEnum>(abi::kEnumRegister)(domain, &kinds), kinds.schema_id);
  const std::vector<abi::SchemaEntry> entries = {
      Entry(abi::kEntryUint64, "communicator", offsetof(Collective, communicator)),
      Entry(abi::kEntryInt32, "rank", offsetof(Collective, rank)),
      Entry(kinds.schema_id, "kind", offsetof(Collective, kind)),
      Entry(abi::kEntryDouble, "ratio", offsetof(Collective, ratio)),
  };
  const uint64_t id = (1 << 24) + 2;
  EXPECT_EQ(Register(Schema(entries, id)), id);
  const Collective value = {UINT64_MAX, -3, 200, 0.25};
  const abi::PayloadData payload = {id, sizeof(value), &value};
  const auto event = Range(&payload, 1);
  EXPECT_THAT(event.keys, testing::ElementsAre("communicator", "rank", "kind", "ratio"));
  ASSERT_EQ(event.args.size(), 4u);
  EXPECT_EQ(event.args[0].bits, UINT64_MAX);
  EXPECT_EQ(event.args[1].AsInt64(), -3);
  EXPECT_EQ(event.args[2].AsInt64(), static_cast<int8_t>(200));
  EXPECT_EQ(event.args[3].AsDouble(), 0.25);
}

TEST_F(Payloads, OffsetsThatAreNotGivenFollowTheCompiler) {
  const std::vector<abi::SchemaEntry> entries = {
      Entry(abi::kEntryUint64, "communicator"), Entry(abi::kEntryInt, "rank"),
      Entry(abi::kEntryUchar, "kind"), Entry(abi::kEntryFloat64, "ratio")};
  const uint64_t id = Register(Schema(entries, 0, sizeof(Collective)));
  EXPECT_GE(id, abi::kFirstDynamicSchema);
  const Collective value = {7, -3, 200, 0.25};
  const abi::PayloadData payload = {id, SIZE_MAX, &value};
  const auto event = Range(&payload, 1);
  ASSERT_EQ(event.args.size(), 4u);
  EXPECT_EQ(event.args[0].bits, 7u);
  EXPECT_EQ(event.args[1].AsInt64(), -3);
  EXPECT_EQ(event.args[2].bits, 200u);
  EXPECT_EQ(event.args[3].AsDouble(), 0.25);
}

TEST_F(Payloads, WhatIsNoNumberIsLeftOut) {
  const std::vector<abi::SchemaEntry> entries = {
      Entry(abi::kEntryInt, "first"),
      Entry(75, "text"),                          // char*
      Entry(abi::kEntryInt, "no place", 0),       // behind something of unknown size
      Entry(abi::kEntryInt, "array", 8, 1 << 4),  // of a fixed size
      Entry(abi::kEntryInt, "hidden", 8, 1 << 9),
      Entry(abi::kEntryInt, "last", 12),
  };
  const uint64_t id = Register(Schema(entries, 0));
  const int values[] = {1, 2, 3, 4};
  const abi::PayloadData payload = {id, sizeof(values), values};
  const auto event = Range(&payload, 1);
  EXPECT_THAT(event.keys, testing::ElementsAre("first", "last"));
  ASSERT_EQ(event.args.size(), 2u);
  EXPECT_EQ(event.args[0].AsInt64(), 1);
  EXPECT_EQ(event.args[1].AsInt64(), 4);
}

TEST_F(Payloads, NothingBehindThePayloadIsRead) {
  const std::vector<abi::SchemaEntry> entries = {
      Entry(abi::kEntryInt, "a"), Entry(abi::kEntryInt, "b"),
      Entry(abi::kEntryInt, "far", uint64_t{1} << 40), Entry(abi::kEntryInt, "c", 4)};
  const uint64_t id = Register(Schema(entries, 0));
  const int values[] = {1, 2};
  const abi::PayloadData half = {id, sizeof(int), values};
  const auto event = Range(&half, 1);
  EXPECT_THAT(event.keys, testing::ElementsAre("a", "b", "c"));
  ASSERT_EQ(event.args.size(), 1u);
  EXPECT_EQ(event.args[0].AsInt64(), 1);
  const abi::PayloadData unknown_size = {id, SIZE_MAX, values};
  EXPECT_THAT(Range(&unknown_size, 1).args, testing::IsEmpty());
  const abi::PayloadData missing = {id, sizeof(values), nullptr};
  EXPECT_THAT(Range(&missing, 1).args, testing::IsEmpty());
  EXPECT_THAT(Range(nullptr, 1).args, testing::IsEmpty());
  EXPECT_THAT(Range(&half, -1).args, testing::IsEmpty());
  EXPECT_THAT(Range(&half, 1 << 20).args, testing::IsEmpty());
  const abi::PayloadData unknown = {12345678, sizeof(values), values};
  EXPECT_THAT(Range(&unknown, 1).args, testing::IsEmpty());
}

TEST_F(Payloads, PredefinedTypesNeedNoSchema) {
  const float value = 1.5f;
  const abi::PayloadData payloads[] = {{1023, 3, "raw"}, {abi::kEntryFloat, sizeof(value), &value}};
  const auto event = Range(payloads, 2);
  EXPECT_THAT(event.keys, testing::ElementsAre("payload"));
  ASSERT_EQ(event.args.size(), 1u);
  EXPECT_EQ(event.args[0].AsDouble(), 1.5);
}

TEST_F(Payloads, EventsWithoutAttributes) {
  struct Value {
    const void* message;
    int32_t count;
  };
  const std::vector<abi::SchemaEntry> entries = {
      Entry(abi::kEntryRegisteredString, "message", 0, abi::kEntryMessage),
      Entry(abi::kEntryInt, "count", offsetof(Value, count))};
  const uint64_t id = Register(Schema(entries, 0));
  const Value named = {Program::Register(domain, "from the payload"), 4};
  const Value nameless = {nullptr, 5};
  const abi::PayloadData payload = {id, sizeof(named), &named};
  const abi::PayloadData without = {id, sizeof(nameless), &nameless};
  const auto events = Record(kOn, [&] {
    EXPECT_EQ(Program::Payload<WithPayloads>(abi::kRangePushPayload)(domain, &payload, 1), 0);
    EXPECT_EQ(Program::Payload<WithPayloads>(abi::kRangePopPayload)(domain, nullptr, 0), 0);
    Program::Payload<MarkPayloads>(abi::kMarkPayload)(domain, &without, 1);
  });
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].name, "from the payload");
  EXPECT_EQ(events[0].args.at(0).AsInt64(), 4);
  EXPECT_EQ(events[1].name, "a schema");
  EXPECT_EQ(Program::Payload<uint8_t (*)(const void*)>(abi::kDomainIsEnabled)(domain), 1);
}

}  // namespace
}  // namespace jobscope::nvtx_test
