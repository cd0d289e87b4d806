// SPDX-License-Identifier: Apache-2.0
//
// A server's call of itself, on gRPC's servers as such.
#include "server/rpc/self_call.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <memory>

#include "tensorflow/profiler_service.grpc.pb.h"

namespace jobscope {
namespace {

std::unique_ptr<grpc::Server> MakeServer() {
  static auto* const service = new tensorflow::ProfilerService::CallbackService;
  grpc::EnableDefaultHealthCheckService(true);
  return grpc::ServerBuilder().RegisterService(service).BuildAndStart();
}

TEST(SelfCallTest, AServerWithHealthAnswers) {
  const auto server = MakeServer();
  ASSERT_NE(server, nullptr);
  EXPECT_TRUE(AnswersItself(server.get(), absl::Seconds(60)));
  server->Shutdown();
}

// The call ends, on a thread of gRPC's, while the server goes.
TEST(SelfCallTest, ACallThatNobodyWaitsForOutlivesItsServer) {
  for (int round = 0; round < 2'000; ++round) {
    auto server = MakeServer();
    ASSERT_NE(server, nullptr);
    AnswersItself(server.get(), absl::ZeroDuration());
    server->Shutdown();
    server.reset();
  }
}

}  // namespace
}  // namespace jobscope
