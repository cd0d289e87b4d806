// SPDX-License-Identifier: Apache-2.0
//
// Starts a real server on a real port, over a collector that a test controls.
#ifndef TESTS_SERVER_SERVICE_FIXTURE_H_
#define TESTS_SERVER_SERVICE_FIXTURE_H_

#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "jobscope/v1/item.pb.h"
#include "jobscope/v1/profiler.grpc.pb.h"
#include "server/grpc_server/grpc_server.h"
#include "server/listen/listen_address.h"
#include "server/services/step_source.h"
#include "server/session/session_manager.h"
#include "tensorflow/profiler_service.grpc.pb.h"
#include "tests/server/session/fake_collector.h"

namespace jobscope {

// Polls `condition`, at most a minute.
inline bool Eventually(const std::function<bool()>& condition) {
  const absl::Time end = absl::Now() + absl::Minutes(1);
  while (!condition()) {
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(1));  // a poll interval, not a synchronisation
  }
  return true;
}

class ServiceFixture : public ::testing::Test {
 protected:
  ServiceFixture() {
    identity_.set_host("test-host");
    identity_.set_pid(4711);
    identity_.set_rank(3);
    identity_.set_has_rank(true);
    SessionManager::Dependencies dependencies;
    dependencies.collectors = {&collector_};
    dependencies.identity = [this] { return identity_; };
    sessions_ = std::make_shared<SessionManager>(std::move(dependencies));
  }

  ~ServiceFixture() override {
    collector_.Release();
    StopServer();
    EXPECT_TRUE(sessions_->Shutdown(absl::Minutes(1)));
  }

  GrpcServerOptions Options(const std::string& address = "127.0.0.1:0") {
    GrpcServerOptions options;
    options.address = *ParseListenAddress(address, std::nullopt);
    options.sessions = sessions_;
    options.set_recording = [this](std::optional<int> level) {
      std::lock_guard<std::mutex> lock(mutex_);
      recording_.push_back(level);
    };
    options.steps = [this] {
      std::lock_guard<std::mutex> lock(mutex_);
      return steps_;
    };
    options.identity = [this] { return identity_; };
    return options;
  }

  void StartServer(GrpcServerOptions options) {
    auto server = GrpcServer::Start(std::move(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials());
    tensorflow_ = tensorflow::ProfilerService::NewStub(channel_);
    native_ = v1::Profiler::NewStub(channel_);
  }
  void StartServer() { StartServer(Options()); }

  void StopServer(absl::Duration limit = absl::Seconds(2)) {
    if (server_ == nullptr) return;
    server_->Stop(limit);
    server_.reset();
  }

  static tensorflow::ProfileRequest Request(uint64_t duration_ms,
                                            const std::string& session_id = "s") {
    tensorflow::ProfileRequest request;
    request.set_duration_ms(duration_ms);
    request.set_session_id(session_id);
    request.set_host_name("127.0.0.1:6009");
    return request;
  }

  struct Reply {
    grpc::Status status;
    tensorflow::ProfileResponse response;
  };

  // A Profile that runs beside the test. `context` must outlive it.
  std::future<Reply> ProfileAsync(grpc::ClientContext* context,
                                  const tensorflow::ProfileRequest& request) {
    return std::async(std::launch::async, [this, context, request] {
      Reply reply;
      reply.status = tensorflow_->Profile(context, request, &reply.response);
      return reply;
    });
  }
  Reply Profile(const tensorflow::ProfileRequest& request) {
    grpc::ClientContext context;
    Reply reply;
    reply.status = tensorflow_->Profile(&context, request, &reply.response);
    return reply;
  }

  grpc::Status Terminate(const std::string& session_id) {
    grpc::ClientContext context;
    tensorflow::TerminateRequest request;
    request.set_session_id(session_id);
    tensorflow::TerminateResponse response;
    return tensorflow_->Terminate(&context, request, &response);
  }

  v1::DescribeResponse Describe() {
    grpc::ClientContext context;
    v1::DescribeResponse response;
    const grpc::Status status = native_->Describe(&context, {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  bool AwaitState(const std::string& state) {
    return Eventually([&] {
      const auto busy = sessions_->busy();
      return busy.has_value() && busy->state() == state;
    });
  }
  bool AwaitIdle() {
    return Eventually([&] { return !sessions_->busy().has_value(); });
  }

  static tensorflow::profiler::XSpace Trace(const Reply& reply) {
    tensorflow::profiler::XSpace space;
    EXPECT_EQ(reply.response.tool_data_size(), 1);
    if (reply.response.tool_data_size() == 1) {
      EXPECT_TRUE(space.ParseFromString(reply.response.tool_data(0).data()));
    }
    return space;
  }

  // What the trace says about itself.
  static v1::Summary SummaryOf(const tensorflow::profiler::XSpace& space) {
    v1::Summary summary;
    for (const auto& plane : space.planes()) {
      for (const auto& stat : plane.stats()) {
        const auto name = plane.stat_metadata().find(stat.metadata_id());
        if (name == plane.stat_metadata().end() || name->second.name() != "jobscope_summary")
          continue;
        EXPECT_TRUE(summary.ParseFromString(stat.bytes_value()));
        return summary;
      }
    }
    ADD_FAILURE() << "the trace has no summary";
    return summary;
  }

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
