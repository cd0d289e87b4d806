// SPDX-License-Identifier: Apache-2.0
//
// A process that ends while it is captured.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tensorflow/profiler_service.grpc.pb.h"
#include "tests/again_if_busy.h"
#include "tests/subprocess.h"

namespace jobscope {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

// What was recorded arrives, marked as cut.
class LeavingWorker : public ::testing::TestWithParam<const char*> {};

TEST_P(LeavingWorker, DeliversWhatItHas) {
  const std::string way = GetParam();
  const bool ended = way == "ended";  // the capture, before the process
  const bool hung = way == "hung" || ended;
  grpc::Status status;
  int events = 0;
  std::string trace;
  bool wedged = false;
  // An exit waits a second, and 0.4 s for a collector, in which a busy machine may not run them.
  (void)AgainIfBusy(
      [&] {
        Subprocess worker({LEAVING_WORKER, GetParam()});
        const std::string address = worker.AwaitFirstLine();
        EXPECT_NE(address, "") << worker.err();
        auto stub = tensorflow::ProfilerService::NewStub(
            grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
        grpc::ClientContext context;
        tensorflow::ProfileRequest request;
        request.set_duration_ms(ended ? 1'000 : 600'000);
        request.set_emit_xspace(true);
        tensorflow::ProfileResponse response;
        const auto start = Clock::now();
        status = stub->Profile(&context, request, &response);
        EXPECT_LT(Clock::now() - start, std::chrono::minutes(2));
        EXPECT_EQ(worker.Wait(), 0) << worker.err();  // 86: CUPTI was called after its end
        events = 0;
        for (const auto& plane : response.xspace().planes()) {
          for (const auto& line : plane.lines()) events += line.events_size();
        }
        trace = response.xspace().SerializeAsString();
        wedged = trace.find("wedged") != std::string::npos;
        return status.ok() && events > 0 && wedged == hung;
      },
      absl::Milliseconds(300));
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_GT(events, 0);
  EXPECT_THAT(trace, HasSubstr(ended ? "duration" : "shutdown"));
  EXPECT_EQ(wedged, hung);
}

INSTANTIATE_TEST_SUITE_P(Ways, LeavingWorker,
                         ::testing::Values("return", "exit", "thread", "hung", "ended", "stopping",
                                           "cuda"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace jobscope
