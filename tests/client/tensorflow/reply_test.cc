// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "client/tensorflow/reply_file.h"
#include "client/tensorflow/reply_index.h"
#include "common/run/run_directory.h"
#include "tests/client/fake_traces.h"
#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The bytes that the index points at.
std::string Trace(const std::string& reply, const ReplyIndex& index) {
  std::string trace;
  for (const ReplyRange& range : index.xspace) trace += reply.substr(range.begin, range.size);
  return trace;
}

TEST(ReplyIndex, FindsTheTraceWhereverTheSlicesEnd) {
  tensorflow::ProfileResponse response;
  *response.mutable_xspace() = MakeTrace(3, "h");
  tensorflow::ProfileToolData& other = *response.add_tool_data();
  other.set_name("trace.json.gz");
  other.set_data("zip");
  const std::string bytes = response.SerializeAsString();
  for (size_t size = 1; size <= bytes.size(); ++size) {
    const absl::StatusOr<ReplyIndex> index = IndexReply(Slices(bytes, size));
    ASSERT_TRUE(index.ok()) << index.status();
    EXPECT_EQ(Trace(bytes, *index), response.xspace().SerializeAsString());
    EXPECT_THAT(index->other_tools, ElementsAre("trace.json.gz"));
    EXPECT_FALSE(index->empty_trace);
  }
}

TEST(ReplyIndex, TakesToolDataWhereThereIsNoXSpace) {
  tensorflow::ProfileResponse response;
  response.add_tool_data()->set_name("x");
  tensorflow::ProfileToolData& trace = *response.add_tool_data();
  trace.set_data("first");
  trace.set_name("host.xplane.pb");
  response.set_empty_trace(true);
  const std::string bytes = response.SerializeAsString();
  const absl::StatusOr<ReplyIndex> index = IndexReply(Slices(bytes, 3));
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(Trace(bytes, *index), "first");
  EXPECT_TRUE(index->empty_trace);
}

TEST(ReplyIndex, PartsOfOneFieldAreOneMessage) {
  tensorflow::ProfileResponse first;
  tensorflow::ProfileResponse second;
  first.mutable_xspace()->add_hostnames("a");
  second.mutable_xspace()->add_planes()->set_name("b");
  const std::string bytes = first.SerializeAsString() + second.SerializeAsString();
  tensorflow::profiler::XSpace space;
  ASSERT_TRUE(space.ParseFromString(Trace(bytes, IndexReply(Slices(bytes, 2)).value())));
  EXPECT_EQ(space.hostnames(0), "a");
  EXPECT_EQ(space.planes(0).name(), "b");
}

TEST(ReplyIndex, AnyBytesAreSafe) {
  std::minstd_rand random(1);
  tensorflow::ProfileResponse response;
  *response.mutable_xspace() = MakeTrace(2, "h");
  response.add_tool_data()->set_name("xplane.pb");
  response.set_empty_trace(true);
  const std::string good = response.SerializeAsString();
  for (int round = 0; round < 100'000; ++round) {
    std::string bytes = good.substr(0, random() % (good.size() + 1));
    for (int flips = 0; flips < 3 && !bytes.empty(); ++flips) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const absl::StatusOr<ReplyIndex> index = IndexReply(Slices(bytes, 1 + random() % 50));
    if (!index.ok()) continue;
    for (const ReplyRange& range : index->xspace) {
      ASSERT_LE(range.begin, bytes.size());
      ASSERT_LE(range.size, bytes.size() - range.begin);
    }
  }
}

class WriteReplyTest : public ::testing::Test {
 protected:
  WorkerOutcome Write(const std::string& bytes, ReplyContext context = {true, false}) {
    account_ = {};
    grpc::ByteBuffer reply = Buffer(bytes, 100);
    return WriteReply(directory_, "w_1", context, &reply, &account_);
  }

  TemporaryDirectory logdir_;
  RunDirectory directory_ = RunDirectory::Create({logdir_.path(), "r", 0}).value();
  ManifestWorker account_;
};

TEST_F(WriteReplyTest, OursIsOk) {
  const v1::Summary summary = MakeSummary(1000, 3);
  tensorflow::ProfileResponse response;
  *response.mutable_xspace() = MakeTrace(1000, "w_1", &summary);
  const WorkerOutcome outcome = Write(response.SerializeAsString());
  EXPECT_STREQ(Name(outcome.kind), "ok");
  EXPECT_EQ(account_.events, 1000u);
  EXPECT_EQ(account_.lost, 3u);
  EXPECT_EQ(account_.rank, 3);
  ASSERT_EQ(account_.files.size(), 1u);
  EXPECT_EQ(account_.files[0].path, "w_1.xplane.pb");
  const std::string file = ReadAll(directory_.path() + "/w_1.xplane.pb");
  EXPECT_EQ(file, response.xspace().SerializeAsString());
  EXPECT_EQ(account_.files[0].bytes, file.size());
  EXPECT_THAT(List(directory_.path()), ElementsAre("w_1.xplane.pb"));
  EXPECT_THAT(account_.warnings, IsEmpty());
}

TEST_F(WriteReplyTest, ACountThatIsWrongIsReported) {
  const v1::Summary summary = MakeSummary(1001);
  tensorflow::ProfileResponse response;
  *response.mutable_xspace() = MakeTrace(1000, "w_1", &summary);
  Write(response.SerializeAsString());
  EXPECT_EQ(account_.events, 1000u);
  EXPECT_THAT(account_.warnings,
              ElementsAre(HasSubstr("counted 1001 events, the file holds 1000")));
}

TEST_F(WriteReplyTest, StockIsCountedAndNotAligned) {
  tensorflow::ProfileResponse response;
  *response.mutable_xspace() = MakeTrace(5, "stock");
  const WorkerOutcome outcome = Write(response.SerializeAsString(), {false, false});
  EXPECT_STREQ(Name(outcome.kind), "ok");
  EXPECT_EQ(account_.events, 5u);
  EXPECT_FALSE(account_.lost.has_value());
  EXPECT_EQ(account_.aligned, false);
  EXPECT_EQ(account_.duration_ns, 1'000'000'000u);
  EXPECT_EQ(account_.host, "stock");
}

TEST_F(WriteReplyTest, StockTextsAreBounded) {
  tensorflow::ProfileResponse response;
  *response.mutable_xspace() = MakeTrace(5, "stock");
  for (int i = 0; i < 1'000; ++i) {
    response.mutable_xspace()->add_warnings("warning " + std::to_string(i));
    response.mutable_xspace()->add_errors("error " + std::to_string(i));
  }
  Write(response.SerializeAsString(), {false, false});
  ASSERT_EQ(account_.warnings.size(), 201u);
  EXPECT_EQ(account_.warnings[199], "warning 199");
  EXPECT_EQ(account_.warnings[200], "more of them were left out");
  ASSERT_EQ(account_.errors.size(), 201u);
  EXPECT_EQ(account_.errors[0], "error 0");
}

TEST_F(WriteReplyTest, EmptyTruncatedAndStopped) {
  tensorflow::ProfileResponse response;
  response.set_empty_trace(true);
  EXPECT_STREQ(Name(Write(response.SerializeAsString()).kind), "empty");
  EXPECT_THAT(List(directory_.path()), IsEmpty());

  v1::Summary summary = MakeSummary(1);
  summary.set_truncated(true);
  summary.set_ended_by("shutdown");
  *response.mutable_xspace() = MakeTrace(1, "w_1", &summary);
  const WorkerOutcome truncated = Write(response.SerializeAsString());
  EXPECT_STREQ(Name(truncated.kind), "truncated");
  EXPECT_THAT(truncated.reason, HasSubstr("ended by shutdown after 1000 ms"));

  *response.mutable_xspace() = MakeTrace(1, "w_1");
  EXPECT_STREQ(Name(Write(response.SerializeAsString(), {false, true}).kind), "truncated");
}

TEST_F(WriteReplyTest, GarbageLeavesNoFile) {
  tensorflow::ProfileResponse response;
  tensorflow::ProfileToolData& trace = *response.add_tool_data();
  trace.set_name("xplane.pb");
  trace.set_data(std::string(100'000, '\xff'));
  const WorkerOutcome outcome = Write(response.SerializeAsString());
  EXPECT_STREQ(Name(outcome.kind), "failed");
  EXPECT_STREQ(Name(outcome.phase), "transfer");
  EXPECT_THAT(List(directory_.path()), IsEmpty());

  EXPECT_THAT(Write(std::string(1000, '\xff')).reason, HasSubstr("not a ProfileResponse"));
  EXPECT_THAT(List(directory_.path()), IsEmpty());
}

TEST_F(WriteReplyTest, AnAnswerWithoutTraceIsAFailure) {
  const WorkerOutcome outcome = Write("");
  EXPECT_STREQ(Name(outcome.kind), "failed");
  EXPECT_THAT(outcome.reason, HasSubstr("wrote it on its own disk"));
}

TEST_F(WriteReplyTest, WhatIsPlantedInTheRunHoldsNobodyUp) {
  const std::string path = directory_.path() + "/w_1.xplane.pb";
  ASSERT_EQ(mkfifo(path.c_str(), 0666), 0);
  EXPECT_THAT(Write("").reason, HasSubstr("not a regular file"));
  ASSERT_EQ(unlink(path.c_str()), 0);
  ASSERT_EQ(symlink("/dev/zero", path.c_str()), 0);
  EXPECT_THAT(Write("").reason, HasSubstr("symbolic link"));
}

TEST_F(WriteReplyTest, AWorkerThatWroteIntoASharedLogdirDelivers) {
  tensorflow::profiler::XSpace space = MakeTrace(4, "w");
  std::ofstream(directory_.path() + "/w_1.xplane.pb") << space.SerializeAsString();
  const WorkerOutcome outcome = Write("", {false, false});
  EXPECT_STREQ(Name(outcome.kind), "ok");
  EXPECT_EQ(account_.events, 4u);
  EXPECT_EQ(account_.files.size(), 1u);
}

// What a stock worker leaves behind if it cannot serialise its trace. Its answer is OK.
TEST_F(WriteReplyTest, AnEmptyFileInASharedLogdirIsATraceThatWasTooLarge) {
  std::ofstream(directory_.path() + "/w_1.xplane.pb").close();
  const WorkerOutcome outcome = Write("", {false, false});
  EXPECT_STREQ(Name(outcome.kind), "failed");
  EXPECT_THAT(outcome.reason, HasSubstr("w_1.xplane.pb: its trace exceeds 2 GiB"));
  EXPECT_THAT(account_.files, IsEmpty());
  tensorflow::ProfileResponse nothing;
  nothing.set_empty_trace(true);
  EXPECT_STREQ(Name(Write(nothing.SerializeAsString(), {false, false}).kind), "empty");
}

TEST_F(WriteReplyTest, ADirectoryThatIsGoneIsAWriteFailure) {
  std::filesystem::remove_all(directory_.path());
  tensorflow::ProfileResponse response;
  *response.mutable_xspace() = MakeTrace(1, "w_1");
  const WorkerOutcome outcome = Write(response.SerializeAsString());
  EXPECT_STREQ(Name(outcome.kind), "failed");
  EXPECT_STREQ(Name(outcome.phase), "write");
}

}  // namespace
}  // namespace jobscope
