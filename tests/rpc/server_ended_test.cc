// SPDX-License-Identifier: Apache-2.0
#include "rpc/server_ended.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "rpc/error_details.h"

namespace jobscope {
namespace {

grpc::Status Unavailable(const std::string& text, const std::string& details = "") {
  return grpc::Status(grpc::StatusCode::UNAVAILABLE, text, details);
}

TEST(ServerEndedTest, IsReportedByADetail) {
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

}  // namespace
}  // namespace jobscope
