// SPDX-License-Identifier: Apache-2.0
//
// Tests the attributes of NVTX events: messages, categories, colours, plain payloads; also missing
// and invalid ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "collectors/nvtx/abi.h"
#include "collectors/nvtx/text.h"
#include "tests/collectors/nvtx/handler_fixture.h"

namespace jobscope::nvtx_test {
namespace {

TEST_F(Handler, Messages) {
  const std::string longest(nvtx::kMaxTextBytes, 'x');
  const std::string longer(1000, 'y');
  const void* const registered = Program::Register(nullptr, "registered");
  const void* const wide = Plugin::Register(nullptr, L"wide \u00e9");
  EXPECT_EQ(Program::Register(nullptr, "registered"), registered);
  const auto events = Record(kOn, [&] {
    Program::Push(L"A\u00df\u2192\U0001F600");
    Program::Pop();
    const auto wide_message = Message(L"wide");
    Program::Push(&wide_message);
    Program::Pop();
    const auto by_handle = Registered(registered);
    Program::Push(&by_handle);
    Program::Pop();
    const auto by_wide_handle = Registered(wide);
    Program::Push(&by_wide_handle);
    Program::Pop();
    Program::Push(longest.c_str());
    Program::Pop();
    Program::Push(longer.c_str());
    Program::Pop();
    Program::Push((std::string(123, 'z') + "\u00e9\u00e9\u00e9").c_str());
    Program::Pop();
    Program::Push(std::wstring(200, L'\u2192').c_str());
    Program::Pop();
  });
  ASSERT_EQ(events.size(), 8u);
  EXPECT_EQ(events[0].name, "A\u00df\u2192\U0001F600");
  EXPECT_EQ(events[1].name, "wide");
  EXPECT_EQ(events[2].name, "registered");
  EXPECT_EQ(events[3].name, "wide \u00e9");
  EXPECT_EQ(events[4].name, longest);
  EXPECT_EQ(events[5].name, std::string(124, 'y') + "\u2026");
  EXPECT_EQ(events[6].name, std::string(123, 'z') + "\u2026") << "cut between two characters";
  std::string arrows;
  for (int i = 0; i < 41; ++i) arrows += "\u2192";
  EXPECT_EQ(events[7].name, arrows + "\u2026");
}

// What is missing or makes no sense. The application's pointers are believed: NVTX gives no way to
// check them.
TEST_F(Handler, MissingAndForeignThings) {
  int not_ours = 0;
  const auto events = Record(kOn, [&] {
    Program::Push(static_cast<const char*>(nullptr));
    Program::Pop();
    Program::Push(static_cast<const wchar_t*>(nullptr));
    Program::Pop();
    Program::Push(static_cast<const abi::EventAttributes*>(nullptr));
    Program::Pop();
    const auto none = Message(static_cast<const char*>(nullptr));
    Program::Push(&none);
    Program::Pop();
    const auto foreign_string = Registered(&not_ours);
    Program::Push(&foreign_string);
    Program::Pop();
    auto unknown_type = Message("never read");
    unknown_type.message_type = 77;
    unknown_type.payload_type = 77;
    Program::Push(&unknown_type);
    Program::Pop();
    Program::End(0);
    Program::End(12345);
  });
  ASSERT_EQ(events.size(), 6u);
  for (const auto& event : events) {
    EXPECT_EQ(event.name, "(no message)");
    EXPECT_THAT(event.args, testing::IsEmpty());
  }
  const auto in_foreign_domain = Record(kOn, [&] {
    const auto message = Message("somewhere");
    EXPECT_EQ(Program::Push(&not_ours, &message), 0);
    EXPECT_EQ(Program::Pop(), 0) << "the default domain's";
  });
  EXPECT_EQ(in_foreign_domain.size(), 1u);
}

TEST_F(Handler, OnlyWhatLiesWithinTheStructIsRead) {
  const auto events = Record(kOn, [&] {
    for (const size_t size :
         {size_t{0}, offsetof(abi::EventAttributes, category),
          offsetof(abi::EventAttributes, payload), offsetof(abi::EventAttributes, message),
          sizeof(abi::EventAttributes)}) {
      auto attributes = Message("whole");
      attributes.size = static_cast<uint16_t>(size);
      attributes.category = 5;
      attributes.payload_type = abi::kPayloadInt64;
      attributes.payload.int64_value = 1;
      Program::Push(&attributes);
      Program::Pop();
    }
    auto newer = Message("newer");
    newer.version = 9;
    newer.size = 200;
    Program::Push(&newer);
    Program::Pop();
  });
  ASSERT_THAT(NamesOf(events), testing::ElementsAre("(no message)", "(no message)", "(no message)",
                                                    "(no message)", "whole", "newer"));
  EXPECT_EQ(PlaceOf(FileOf(events[1])).category, "");
  EXPECT_EQ(PlaceOf(FileOf(events[2])).category, "5");
  EXPECT_THAT(events[2].args, testing::IsEmpty());
  EXPECT_EQ(events[3].args.size(), 1u);
}

TEST_F(Handler, CategoriesAndColours) {
  const void* const domain = Program::CreateDomain("categories");
  const auto push = [=](uint32_t category) {
    auto attributes = Message("categorised");
    attributes.category = category;
    attributes.color_type = abi::kColorArgb;
    attributes.color = 0xff00a0ff;
    Program::Push(domain, &attributes);
    Program::Pop(domain);
  };
  const auto events = Record(kOn, [=] {
    push(7);
    Program::NameCategory(domain, 7, "input\toutput");
    push(7);
    Program::NameCategory(domain, 7, "renamed, with a name that is longer than what is kept of it");
    push(7);
    push(8);
    Program::NameCategory(nullptr, 8, "of the default domain");
    push(8);
  });
  ASSERT_EQ(events.size(), 5u);
  std::vector<std::string> categories;
  for (const auto& event : events) {
    const std::string file = FileOf(event);
    const NvtxPlace place = PlaceOf(file);
    EXPECT_EQ(place.color, "#00a0ff");
    EXPECT_EQ(place.domain, "categories");
    categories.emplace_back(place.category);
  }
  EXPECT_THAT(categories, testing::ElementsAre("7", "input output",
                                               "renamed, with a name that is lo", "8", "8"));
}

template <typename Set>
abi::EventAttributes WithPayload(abi::PayloadType type, Set set) {
  auto attributes = Message("payload");
  // What a narrow value leaves of the union is not to be read.
  attributes.payload.uint64_value = 0xABABABABABABABAB;
  attributes.payload_type = type;
  set(&attributes);
  return attributes;
}

TEST_F(Handler, PlainPayloads) {
  const auto events = Record(kOn, [] {
    for (const auto& attributes :
         {WithPayload(abi::kPayloadUint64, [](auto* a) { a->payload.uint64_value = UINT64_MAX; }),
          WithPayload(abi::kPayloadInt64, [](auto* a) { a->payload.int64_value = -5; }),
          WithPayload(abi::kPayloadDouble, [](auto* a) { a->payload.double_value = 2.5; }),
          WithPayload(abi::kPayloadUint32, [](auto* a) { a->payload.uint32_value = 4000000000u; }),
          WithPayload(abi::kPayloadInt32, [](auto* a) { a->payload.int32_value = -7; }),
          WithPayload(abi::kPayloadFloat, [](auto* a) { a->payload.float_value = 0.5f; })}) {
      Program::Push(&attributes);
      Program::Pop();
    }
  });
  ASSERT_EQ(events.size(), 6u);
  for (const auto& event : events) {
    ASSERT_EQ(event.args.size(), 1u);
    EXPECT_THAT(event.keys, testing::ElementsAre("payload"));
  }
  EXPECT_EQ(events[0].args[0].bits, UINT64_MAX);
  EXPECT_EQ(events[1].args[0].AsInt64(), -5);
  EXPECT_EQ(events[2].args[0].AsDouble(), 2.5);
  EXPECT_EQ(events[3].args[0].bits, 4000000000u);
  EXPECT_EQ(events[4].args[0].AsInt64(), -7);
  EXPECT_EQ(events[5].args[0].AsDouble(), 0.5);
}

}  // namespace
}  // namespace jobscope::nvtx_test
