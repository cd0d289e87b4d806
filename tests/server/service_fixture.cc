// SPDX-License-Identifier: Apache-2.0
#include "tests/server/service_fixture.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <utility>

#include "absl/time/clock.h"
#include "server/listen/listen_address.h"

namespace jobscope {

bool Eventually(const std::function<bool()>& condition) {
  const absl::Time end = absl::Now() + absl::Minutes(1);
  while (!condition()) {
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(1));  // a poll interval, not a synchronisation
  }
  return true;
}

ServiceFixture::ServiceFixture() {
  identity_.set_host("test-host");
  identity_.set_pid(4711);
  identity_.set_rank(3);
  identity_.set_has_rank(true);
  SessionManager::Dependencies dependencies;
  dependencies.collectors = {&collector_};
  dependencies.identity = [this] { return identity_; };
  sessions_ = std::make_shared<SessionManager>(std::move(dependencies));
}

ServiceFixture::~ServiceFixture() {
  collector_.Release();
  StopServer();
  EXPECT_TRUE(sessions_->Shutdown(absl::Minutes(1)));
}

GrpcServerOptions ServiceFixture::Options(const std::string& address) {
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

void ServiceFixture::StartServer(GrpcServerOptions options) {
  auto server = GrpcServer::Start(std::move(options));
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
  channel_ = grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials());
  tensorflow_ = tensorflow::ProfilerService::NewStub(channel_);
  native_ = v1::Profiler::NewStub(channel_);
}

void ServiceFixture::StopServer(absl::Duration limit) {
  if (server_ == nullptr) return;
  server_->Stop(limit);
  server_.reset();
}

tensorflow::ProfileRequest ServiceFixture::Request(uint64_t duration_ms,
                                                   const std::string& session_id) {
  tensorflow::ProfileRequest request;
  request.set_duration_ms(duration_ms);
  request.set_session_id(session_id);
  request.set_host_name("127.0.0.1:6009");
  return request;
}

std::future<ServiceFixture::Reply> ServiceFixture::ProfileAsync(
    grpc::ClientContext* context, const tensorflow::ProfileRequest& request) {
  return std::async(std::launch::async, [this, context, request] {
    Reply reply;
    reply.status = tensorflow_->Profile(context, request, &reply.response);
    return reply;
  });
}

ServiceFixture::Reply ServiceFixture::Profile(const tensorflow::ProfileRequest& request) {
  grpc::ClientContext context;
  Reply reply;
  reply.status = tensorflow_->Profile(&context, request, &reply.response);
  return reply;
}

grpc::Status ServiceFixture::Terminate(const std::string& session_id) {
  grpc::ClientContext context;
  tensorflow::TerminateRequest request;
  request.set_session_id(session_id);
  tensorflow::TerminateResponse response;
  return tensorflow_->Terminate(&context, request, &response);
}

v1::DescribeResponse ServiceFixture::Describe() {
  grpc::ClientContext context;
  v1::DescribeResponse response;
  const grpc::Status status = native_->Describe(&context, {}, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

bool ServiceFixture::AwaitState(const std::string& state) {
  return Eventually([&] {
    const auto busy = sessions_->busy();
    return busy.has_value() && busy->state() == state;
  });
}

bool ServiceFixture::AwaitIdle() {
  return Eventually([&] { return !sessions_->busy().has_value(); });
}

tensorflow::profiler::XSpace ServiceFixture::Trace(const Reply& reply) {
  tensorflow::profiler::XSpace space;
  EXPECT_EQ(reply.response.tool_data_size(), 1);
  if (reply.response.tool_data_size() == 1) {
    EXPECT_TRUE(space.ParseFromString(reply.response.tool_data(0).data()));
  }
  return space;
}

v1::Summary ServiceFixture::SummaryOf(const tensorflow::profiler::XSpace& space) {
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

}  // namespace jobscope
