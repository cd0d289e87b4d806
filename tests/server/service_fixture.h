// SPDX-License-Identifier: Apache-2.0
//
// Starts a real server on a real port, over a collector that a test controls.
#ifndef TESTS_SERVER_SERVICE_FIXTURE_H_
#define TESTS_SERVER_SERVICE_FIXTURE_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "jobscope/v1/item.pb.h"
#include "jobscope/v1/profiler.grpc.pb.h"
#include "server/grpc_server/grpc_server.h"
#include "server/services/step_source.h"
#include "server/session/session_manager.h"
#include "tensorflow/profiler_service.grpc.pb.h"
#include "tensorflow/xplane.pb.h"
#include "tests/server/session/fake_collector.h"

namespace jobscope {

// Polls `condition`, at most a minute.
bool Eventually(const std::function<bool()>& condition);

class ServiceFixture : public ::testing::Test {
 protected:
  ServiceFixture();

  ~ServiceFixture() override;

  GrpcServerOptions Options(const std::string& address = "127.0.0.1:0");

  void StartServer(GrpcServerOptions options);
  void StartServer() { StartServer(Options()); }

  void StopServer(absl::Duration limit = absl::Seconds(2));

  static tensorflow::ProfileRequest Request(uint64_t duration_ms,
                                            const std::string& session_id = "s");

  struct Reply {
    grpc::Status status;
    tensorflow::ProfileResponse response;
  };

  // A Profile that runs beside the test. `context` must outlive it.
  std::future<Reply> ProfileAsync(grpc::ClientContext* context,
                                  const tensorflow::ProfileRequest& request);
  Reply Profile(const tensorflow::ProfileRequest& request);

  grpc::Status Terminate(const std::string& session_id);

  v1::DescribeResponse Describe();

  bool AwaitState(const std::string& state);
  bool AwaitIdle();

  static tensorflow::profiler::XSpace Trace(const Reply& reply);

  // What the trace says about itself.
  static v1::Summary SummaryOf(const tensorflow::profiler::XSpace& space);

  v1::Identity identity_;
  FakeCollector collector_{"fake"};
  std::shared_ptr<SessionManager> sessions_;
  std::unique_ptr<GrpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<tensorflow::ProfilerService::Stub> tensorflow_;
  std::unique_ptr<v1::Profiler::Stub> native_;

  std::mutex mutex_;
  StepHistory steps_;                          // guarded by mutex_
  std::vector<std::optional<int>> recording_;  // guarded by mutex_
};

}  // namespace jobscope

#endif  // TESTS_SERVER_SERVICE_FIXTURE_H_
