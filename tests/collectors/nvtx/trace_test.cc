// SPDX-License-Identifier: Apache-2.0
//
// Tests NVTX calls in a trace: handler, recorder and host collector together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "collectors/host/host_collector.h"
#include "collectors/nvtx/event.h"
#include "collectors/nvtx/handler.h"
#include "tests/collectors/host/session_driver.h"
#include "tests/collectors/nvtx/nvtx_unit.h"

namespace jobscope::nvtx_test {
namespace {

using testing::Contains;

using testing::Pair;
using testing::UnorderedElementsAre;

using Program = Unit<0>;

class NvtxTrace : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(Program::Attach(
        [](void* table) { return nvtx::Attach(jobscope_trace_writer(), table) ? 1 : 0; }));
  }
  static const host::Reader* reader() { return ::jobscope_trace_reader(); }

  HostCollector collector_{reader()};
  SessionDriver session_{&collector_, reader()->uses_tsc != 0};
};

TEST_F(NvtxTrace, WhatASiteStandsForIsSaidOnce) {
  ASSERT_TRUE(session_.Arm().ok());
  ASSERT_TRUE(session_.Start().ok());
  const void* const domain = Program::CreateDomain("NCCL");
  Program::NameCategory(domain, 4, "collectives");
  auto attributes = Message("ncclAllReduce");
  attributes.category = 4;
  attributes.color_type = abi::kColorArgb;
  attributes.color = 0xff76b900;
  attributes.payload_type = abi::kPayloadUint64;
  attributes.payload.uint64_value = 4096;
  Program::Push(domain, &attributes);
  Program::Push("plain");
  Program::Mark("mark");
  Program::Pop();
  Program::Pop(domain);
  session_.Stop();
  session_.ExpectIdentity();
  EXPECT_EQ(session_.report().events, 3u);

  const ReadEvent reduce = session_.One("ncclAllReduce");
  EXPECT_THAT(reduce.metadata_texts,
              UnorderedElementsAre(Pair("nvtx_domain", "NCCL"), Pair("category", "collectives"),
                                   Pair("color", "#76b900")));
  EXPECT_THAT(reduce.ints, Contains(Pair("payload", 4096)));
  EXPECT_THAT(reduce.texts, Contains(Pair("tf_op", "ncclAllReduce:NCCL")));
  const ReadEvent plain = session_.One("plain");
  EXPECT_TRUE(reduce.Contains(plain));
  EXPECT_THAT(plain.metadata_texts, UnorderedElementsAre(Pair("nvtx_domain", "default")));
  EXPECT_THAT(plain.texts, Contains(Pair("tf_op", "plain:NVTX")));
  EXPECT_TRUE(plain.Contains(session_.One("mark")));
}

TEST_F(NvtxTrace, NamesThatXProfWouldMisreadAreShownAsTheyAre) {
  ASSERT_TRUE(session_.Arm().ok());
  ASSERT_TRUE(session_.Start().ok());
  Program::Push("train step");
  Program::Pop();
  session_.Stop();
  EXPECT_EQ(session_.One("scope/train step").display_name, "train step");
}

TEST_F(NvtxTrace, StartAndEndAreOneEvent) {
  ASSERT_TRUE(session_.Arm().ok());
  ASSERT_TRUE(session_.Start().ok());
  auto attributes = Message("request");
  attributes.payload_type = abi::kPayloadInt32;
  attributes.payload.int32_value = -2;
  Program::End(Program::Start(nullptr, &attributes));
  session_.Stop();
  session_.ExpectIdentity();
  const ReadEvent request = session_.One("request");
  EXPECT_EQ(request.plane, "/device:CUSTOM:async");
  EXPECT_THAT(request.ints, Contains(Pair("payload", -2)));
  EXPECT_EQ(request.ints.count("truncated"), 0u);
  EXPECT_THAT(request.metadata_texts, Contains(Pair("nvtx_domain", "default")));
}

TEST_F(NvtxTrace, RangeThatIsOpenAtTheEndReachesToIt) {
  ASSERT_TRUE(session_.Arm().ok());
  ASSERT_TRUE(session_.Start().ok());
  Program::Push("hangs");
  session_.Stop();
  Program::Pop();
  EXPECT_THAT(session_.One("hangs").ints, Contains(Pair("truncated", 1)));
}

// In a process of its own (CMakeLists.txt): the table of sites stays full.
TEST_F(NvtxTrace, MessagesWithoutAPlaceOfTheirOwnNameTheirEvents) {
  for (uint32_t i = 0; i < nvtx::kMaxSites; i += 1000) {
    SessionDriver filling(&collector_, reader()->uses_tsc != 0);
    ASSERT_TRUE(filling.Arm().ok());
    ASSERT_TRUE(filling.Start().ok());
    for (uint32_t j = i; j < i + 1000; ++j) {
      Program::Push(("filler " + std::to_string(j)).c_str());
      Program::Pop();
    }
    filling.Stop();
  }
  ASSERT_TRUE(session_.Arm().ok());
  ASSERT_TRUE(session_.Start().ok());
  auto attributes = Message("iteration 1");
  attributes.payload_type = abi::kPayloadInt64;
  attributes.payload.int64_value = 1;
  Program::Push(&attributes);
  Program::Pop();
  Program::Push("iteration 2");
  Program::Pop();
  Program::Push("iteration 1");
  Program::Pop();
  Program::Push("train 3");
  Program::Pop();
  Program::End(Program::Start("request 4"));
  session_.Stop();
  session_.ExpectIdentity();
  EXPECT_EQ(session_.report().events, 5u);
  const std::vector<ReadEvent> first = session_.Named("iteration 1");
  ASSERT_EQ(first.size(), 2u);
  EXPECT_THAT(first[0].ints, Contains(Pair("payload", 1)));
  EXPECT_EQ(first[0].texts.count("message"), 0u) << "it is the name";
  EXPECT_THAT(first[0].metadata_texts, Contains(Pair("nvtx_domain", "default")));
  session_.One("iteration 2");
  EXPECT_EQ(session_.One("scope/train 3").display_name, "train 3");
  EXPECT_THAT(session_.One("(more NVTX names)").texts, Contains(Pair("message", "request 4")));
}

}  // namespace
}  // namespace jobscope::nvtx_test
