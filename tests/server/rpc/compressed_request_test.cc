// SPDX-License-Identifier: Apache-2.0
//
// Messages of other processes do not fill the job's memory: compressed requests, and answers of a
// program that holds the port on which the job wants to listen.
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tensorflow/profiler_service.grpc.pb.h"
#include "tests/end_to_end/hostile_workers.h"
#include "tests/server/crowded_worker_process.h"

namespace jobscope {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr int kDescriptors = 256;
#if defined(__SANITIZE_ADDRESS__)  // which does not return freed memory
constexpr size_t kTolerance = 40 * kMiB;
#else
constexpr size_t kTolerance = 12 * kMiB;
#endif

TEST(CompressionBombTest, ACompressedRequestIsRefused) {
  CrowdedWorker worker(kDescriptors, {"JOBSCOPE_LISTEN=127.0.0.1:0"});
  ASSERT_NE(worker.address(), "");
  const size_t before = worker.AskNumber("memory");
  const auto channel = grpc::CreateChannel(worker.address(), grpc::InsecureChannelCredentials());
  const auto stub = tensorflow::ProfilerService::NewStub(channel);
  tensorflow::ProfileRequest request;
  request.set_session_id(std::string(64 * kMiB, 'a'));
  for (int i = 0; i < 4; ++i) {
    grpc::ClientContext context;
    context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
    tensorflow::ProfileResponse response;
    const grpc::Status status = stub->Profile(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << status.error_message();
  }
  EXPECT_LT(worker.AskNumber("memory"), before + 24 * kMiB);
}

// The job asks the holder of its port who it is. The memory quota of that channel is 4 MiB;
// port_holder_test.cc tests the limit on one answer.
TEST(CompressionBombTest, AnswersOfThePortHolderAreBounded) {
  const auto peak = [](const std::string& address) {
    CrowdedWorker worker(kDescriptors, {absl::StrCat("JOBSCOPE_LISTEN=", address)});
    EXPECT_EQ(worker.address(), "");
    const size_t bytes = worker.peak_bytes();
    EXPECT_GT(bytes, 0U);
    return bytes;
  };
  CrowdedWorker honest(kDescriptors, {"JOBSCOPE_LISTEN=127.0.0.1:0"});
  const size_t usual = peak(honest.address());
  EXPECT_LT(peak(OversizedWorker(400 * kMiB).address()), usual + kTolerance);
  EXPECT_LT(peak(CompressingWorker(48 * kMiB).address()), usual + kTolerance);
}

}  // namespace
}  // namespace jobscope
