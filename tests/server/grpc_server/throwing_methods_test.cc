// SPDX-License-Identifier: Apache-2.0
//
// Methods that run out of memory: the caller receives an answer, and no call stays open.
#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <utility>

#include "tests/server/service_fixture.h"

namespace jobscope {
namespace {

class ThrowingMethodsTest : public ServiceFixture {
 protected:
  void ExpectNoMemory(const grpc::Status& status) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
    EXPECT_TRUE(Eventually([this] { return server_->open_calls() == 0; }));
  }
};

TEST_F(ThrowingMethodsTest, ADescriptionIsRefused) {
  GrpcServerOptions options = Options();
  options.steps = []() -> StepHistory { throw std::bad_alloc(); };
  StartServer(std::move(options));
  grpc::ClientContext context;
  v1::DescribeResponse response;
  ExpectNoMemory(native_->Describe(&context, {}, &response));
}

// The answer is made by a timer, on a thread of gRPC's.
TEST_F(ThrowingMethodsTest, AMonitorIsRefused) {
  GrpcServerOptions options = Options();
  options.steps = []() -> StepHistory { throw std::bad_alloc(); };
  StartServer(std::move(options));
  grpc::ClientContext context;
  tensorflow::MonitorRequest request;
  request.set_duration_ms(1);
  tensorflow::MonitorResponse response;
  ExpectNoMemory(tensorflow_->Monitor(&context, request, &response));
}

TEST_F(ThrowingMethodsTest, AMethodThatThrowsEndsItsCall) {
  GrpcServerOptions options = Options();
  options.closer = [](const std::function<void()>& /*closed*/) -> absl::Status {
    throw std::bad_alloc();
  };
  StartServer(std::move(options));
  grpc::ClientContext context;
  v1::CloseResponse response;
  ExpectNoMemory(native_->Close(&context, {}, &response));
}

}  // namespace
}  // namespace jobscope
