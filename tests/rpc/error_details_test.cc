// SPDX-License-Identifier: Apache-2.0
#include "rpc/error_details.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "jobscope/v1/error_details.pb.h"

namespace jobscope {
namespace {

grpc::Status Sent(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), "text", ErrorDetails(status));
}

TEST(ErrorDetailsTest, AReasonArrives) {
  const absl::Status status =
      WithReason(absl::ResourceExhaustedError("no memory"), ErrorReason::kProcessLimit);
  EXPECT_EQ(status.message(), "no memory");
  EXPECT_TRUE(HasReason(Sent(status), ErrorReason::kProcessLimit));
  EXPECT_FALSE(HasReason(Sent(status), ErrorReason::kServerEnded));
}

TEST(ErrorDetailsTest, AReasonArrivesWithATextThatIsNoUtf8) {
  const absl::Status status =
      WithReason(absl::UnavailableError("cannot read /tmp/\xff"), ErrorReason::kProcessLimit);
  EXPECT_TRUE(HasReason(Sent(status), ErrorReason::kProcessLimit));
}

TEST(ErrorDetailsTest, OtherStatusesHaveNone) {
  EXPECT_TRUE(ErrorDetails(absl::UnavailableError("x")).empty());
  EXPECT_FALSE(HasReason(Sent(absl::UnavailableError("x")), ErrorReason::kServerEnded));
  EXPECT_FALSE(HasReason(grpc::Status(grpc::StatusCode::UNAVAILABLE, "x", "no message at all"),
                         ErrorReason::kServerEnded));
}

TEST(ErrorDetailsTest, ReasonsOfOthersMeanSomethingElse) {
  v1::RpcStatus details;
  v1::RpcStatus::Detail* const detail = details.add_details();
  detail->set_type_url("type.googleapis.com/google.rpc.ErrorInfo");
  v1::ErrorInfo info;
  info.set_reason("SERVER_ENDED");
  for (const char* domain : {"example.com", "jobscope"}) {
    info.set_domain(domain);
    detail->set_value(info.SerializeAsString());
    const grpc::Status status(grpc::StatusCode::UNAVAILABLE, "x", details.SerializeAsString());
    EXPECT_EQ(HasReason(status, ErrorReason::kServerEnded), info.domain() == "jobscope");
  }
}

}  // namespace
}  // namespace jobscope
