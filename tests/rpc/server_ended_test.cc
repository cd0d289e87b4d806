// SPDX-License-Identifier: Apache-2.0
#include "rpc/server_ended.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "jobscope/v1/error_details.pb.h"

namespace jobscope {
namespace {

grpc::Status Unavailable(const std::string& text, const std::string& details = "") {
  return grpc::Status(grpc::StatusCode::UNAVAILABLE, text, details);
}

TEST(ServerEndedTest, IsToldByADetail) {
  const std::string details = ErrorDetails(ServerEnded());
  EXPECT_TRUE(IsServerEnded(Unavailable("whatever its text", details)));
  EXPECT_FALSE(IsServerEnded(Unavailable("connection reset by peer")));
  EXPECT_FALSE(IsServerEnded(Unavailable("connection reset by peer", "no message at all")));
  EXPECT_FALSE(IsServerEnded(grpc::Status(grpc::StatusCode::ABORTED, "", details)));
}

TEST(ServerEndedTest, OldWorkersSendOnlyTheText) {
  EXPECT_TRUE(IsServerEnded(Unavailable("the profiler server of this process has ended")));
}

TEST(ServerEndedTest, OldClientsFindTheText) {
  EXPECT_TRUE(absl::IsUnavailable(ServerEnded()));
  EXPECT_EQ(ServerEnded().message(), "the profiler server of this process has ended");
}

TEST(ServerEndedTest, ReasonsOfOthersMeanSomethingElse) {
  v1::RpcStatus details;
  v1::RpcStatus::Detail* const detail = details.add_details();
  detail->set_type_url("type.googleapis.com/google.rpc.ErrorInfo");
  v1::ErrorInfo info;
  info.set_reason("SERVER_ENDED");
  info.set_domain("example.com");
  detail->set_value(info.SerializeAsString());
  EXPECT_FALSE(IsServerEnded(Unavailable("x", details.SerializeAsString())));
  info.set_domain("jobscope");
  detail->set_value(info.SerializeAsString());
  EXPECT_TRUE(IsServerEnded(Unavailable("x", details.SerializeAsString())));
}

TEST(ServerEndedTest, OtherStatusesHaveNoDetails) {
  EXPECT_TRUE(ErrorDetails(absl::UnavailableError("x")).empty());
}

}  // namespace
}  // namespace jobscope
