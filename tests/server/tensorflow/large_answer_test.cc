// SPDX-License-Identifier: Apache-2.0
//
// Unary answers of the largest size that a worker gives. Takes 6 GiB of memory, 4 GiB of disk, and
// a minute of a busy machine.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/xspace/assemble/scan.h"
#include "server/limits.h"
#include "tests/server/native/native_fixture.h"
#include "tests/subprocess.h"
#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20;
// Above what options and environment allow: their cap keeps every answer below the limit.
constexpr uint64_t kStoreBytes = 2'200 * kMiB;
constexpr uint64_t kSegmentBytes = 64 << 10;
// Leaves 64 MiB of an answer for a raw plane, with which tests set its size.
constexpr uint64_t kSegments = (limits::kMaxAnswerBytes - 64 * kMiB) / (kSegmentBytes + 64);
// Of a raw plane; the length of one of up to 256 MiB takes as many bytes.
constexpr uint64_t kLeastPlaneBytes = 4 * kMiB;
// The summary of a capture tells times: their numbers differ by a few bytes between two captures.
constexpr uint64_t kDifferenceBytes = 256;

class LargeAnswerTest : public NativeFixture {
 protected:
  void Serve(uint64_t store_bytes) {
    GrpcServerOptions options = Options();
    options.store_bytes = store_bytes;
    StartFlood(std::move(options));
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);  // as stock clients do
    stub_ = tensorflow::ProfilerService::NewStub(grpc::CreateCustomChannel(
        server_->address(), grpc::InsecureChannelCredentials(), arguments));
  }

  // Ends the capture that runs now once the whole flood is in it.
  void EndWhenRecorded() {
    const absl::Time deadline = absl::Now() + absl::Minutes(3);
    while (true) {
      const auto busy = sessions_->busy();
      const bool records = busy.has_value() && busy->state() == "recording";
      if (records && flood_.attempted() == flood_.total()) break;
      ASSERT_LT(absl::Now(), deadline) << flood_.attempted() << " of " << flood_.total();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_TRUE(sessions_->Stop("").has_value());
  }

  Reply ProfileFlood() {
    auto reply = std::async(std::launch::async, [this] {
      Reply reply;
      grpc::ClientContext context;
      reply.status = stub_->Profile(&context, Request(600'000), &reply.response);
      return reply;
    });
    EndWhenRecorded();
    return reply.get();
  }

  // With the two bytes of `empty_trace`, which a message of protobuf leaves out.
  static uint64_t AnswerBytes(const Reply& reply) { return reply.response.ByteSizeLong() + 2; }

  static void ExpectWhole(std::string_view trace) {
    const auto scan = xspace::ScanXSpace(trace);
    ASSERT_TRUE(scan.ok()) << scan.status();
    EXPECT_EQ(scan->events, kSegments);
    EXPECT_TRUE(scan->errors.empty());
    ASSERT_TRUE(scan->summary.has_value());
    v1::Summary summary;
    ASSERT_TRUE(summary.ParseFromString(*scan->summary));
    EXPECT_EQ(summary.events(), kSegments);
    EXPECT_EQ(summary.lost(), 0U);
  }

  std::unique_ptr<tensorflow::ProfilerService::Stub> stub_;
};

TEST_F(LargeAnswerTest, ArrivesWholeUpToTheLimitAndIsRefusedAboveIt) {
  Serve(kStoreBytes);
  flood_.Flood(kSegments, 100, kSegmentBytes);
  uint64_t raw_plane_bytes = kLeastPlaneBytes;
  flood_.set_raw_plane_bytes(raw_plane_bytes);
  {
    const Reply reply = ProfileFlood();
    ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
    ASSERT_LT(AnswerBytes(reply), limits::kMaxAnswerBytes - kDifferenceBytes);
    raw_plane_bytes += limits::kMaxAnswerBytes - kDifferenceBytes - AnswerBytes(reply);
  }
  flood_.set_raw_plane_bytes(raw_plane_bytes);
  {
    const Reply reply = ProfileFlood();
    ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
    EXPECT_GE(AnswerBytes(reply), limits::kMaxAnswerBytes - 2 * kDifferenceBytes);
    EXPECT_LE(AnswerBytes(reply), limits::kMaxAnswerBytes);
    RecordProperty("largest_answer_bytes", std::to_string(AnswerBytes(reply)));
    ASSERT_EQ(reply.response.tool_data_size(), 1);
    ExpectWhole(reply.response.tool_data(0).data());
  }
  flood_.set_raw_plane_bytes(raw_plane_bytes + 2 * kDifferenceBytes);
  {
    const Reply reply = ProfileFlood();
    EXPECT_EQ(reply.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_THAT(reply.status.error_message(),
                HasSubstr(absl::StrCat("does not fit one answer of at most ",
                                       limits::kMaxAnswerBytes, " bytes: ask for a shorter")));
    EXPECT_THAT(reply.status.error_message(), HasSubstr("JOBSCOPE_STORE_MB"));
  }
  flood_.set_raw_plane_bytes(0);
  flood_.Flood(10, 10, kSegmentBytes);
  EXPECT_TRUE(ProfileFlood().status.ok()) << "the worker goes on";
}

// The most that an operator can ask for: what finds no room is lost, and the rest arrives.
TEST_F(LargeAnswerTest, TheLargestStoreFitsAnAnswer) {
  Serve(limits::kMaxStoreBytes);
  flood_.Flood(limits::kMaxStoreBytes / kSegmentBytes, 100, kSegmentBytes);
  const TemporaryDirectory logdir;
  Subprocess capture({CAPTURE_PROGRAM, "--service_addr=" + server_->address(),
                      "--protocol=tensorflow", "--duration_ms=600000", "--max_duration_ms=600000",
                      "--num_tracing_attempts=1", "--logdir=" + logdir.path(), "--json",
                      "--quiet"});
  EndWhenRecorded();
  ASSERT_EQ(capture.Wait(), 0) << capture.err() << capture.out();
  const auto manifest = nlohmann::json::parse(capture.out());
  const auto& worker = manifest["workers"][0];
  EXPECT_GT(worker["lost"], 0U) << worker;
  EXPECT_EQ(worker["lost_by_cause"]["store_full"], worker["lost"]) << worker;
  EXPECT_EQ(worker["events"].get<uint64_t>() + worker["lost"].get<uint64_t>(), flood_.total());
  uint64_t bytes = 0;
  for (const auto& file : worker["files"]) bytes += file["bytes"].get<uint64_t>();
  EXPECT_GT(bytes, limits::kMaxStoreBytes / 100 * 85) << worker;
  EXPECT_LT(bytes, limits::kMaxAnswerBytes) << worker;
  RecordProperty("file_bytes", std::to_string(bytes));
}

}  // namespace
}  // namespace jobscope
