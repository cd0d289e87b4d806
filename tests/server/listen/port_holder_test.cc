// SPDX-License-Identifier: Apache-2.0
//
// Tests the answers of a program that uses the requested port.
#include "server/listen/port_holder.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "jobscope/v1/profiler.grpc.pb.h"
#include "tensorflow/profiler_service.grpc.pb.h"

namespace jobscope {
namespace {

// A stock server whose answer to Monitor has that size.
class Holder : public tensorflow::ProfilerService::Service {
 public:
  explicit Holder(size_t bytes) : bytes_(bytes) {
    server_ = grpc::ServerBuilder()
                  .AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_)
                  .RegisterService(this)
                  .BuildAndStart();
  }
  ~Holder() override { server_->Shutdown(); }

  grpc::Status Monitor(grpc::ServerContext* /*context*/,
                       const tensorflow::MonitorRequest* /*request*/,
                       tensorflow::MonitorResponse* response) override {
    response->set_data(std::string(bytes_, 'a'));
    return grpc::Status::OK;
  }
  std::string Describe() const {
    BindTarget target;
    target.text = absl::StrCat("127.0.0.1:", port_);
    return DescribePortHolder(target, absl::Seconds(60));
  }

 private:
  const size_t bytes_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// Its memory is bounded because larger answers are refused before they are read.
TEST(PortHolderTest, AnswersOfMoreThan64KiBAreRefused) {
  EXPECT_EQ(Holder(60 << 10).Describe(), "a TensorFlow or JAX profiler server");
  EXPECT_EQ(Holder(70 << 10).Describe(), "another gRPC server");
}

// A worker of another user.
TEST(PortHolderTest, AWorkerThatRefusesThisUserIsAGrpcServer) {
  class Refusing : public v1::Profiler::Service {
    grpc::Status Describe(grpc::ServerContext* /*context*/, const v1::DescribeRequest* /*request*/,
                          v1::DescribeResponse* /*response*/) override {
      return {grpc::StatusCode::PERMISSION_DENIED, "this worker accepts callers of user 1 only"};
    }
  } service;
  int port = 0;
  const std::unique_ptr<grpc::Server> server =
      grpc::ServerBuilder()
          .AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port)
          .RegisterService(&service)
          .BuildAndStart();
  BindTarget target;
  target.text = absl::StrCat("127.0.0.1:", port);
  EXPECT_EQ(DescribePortHolder(target, absl::Seconds(60)),
            "a gRPC server that does not accept this user");
  server->Shutdown();
}

}  // namespace
}  // namespace jobscope
