// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/call_registry.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "server/security/audit.h"

namespace jobscope {
namespace {

class SomeCall : public OpenCall {
 public:
  void Abandon() override {}
  bool Records(absl::string_view /*session_id*/, absl::string_view /*peer*/) const override {
    return false;
  }
};

TEST(CallRegistryTest, AnsweredCallsAreNotInTheWay) {
  CallRegistry registry(/*max_calls=*/2, /*max_with_answered=*/4, std::make_shared<AuditLog>());
  std::vector<std::shared_ptr<OpenCall>> calls;
  for (int i = 0; i < 5; ++i) calls.push_back(std::make_shared<SomeCall>());
  EXPECT_TRUE(registry.Enter(calls[0]).ok());
  EXPECT_TRUE(registry.Enter(calls[1]).ok());
  EXPECT_EQ(registry.Enter(calls[2]).code(), absl::StatusCode::kResourceExhausted);
  registry.Answered(calls[0]);
  registry.Answered(calls[0]);
  registry.Answered(calls[2]);  // not admitted
  EXPECT_EQ(registry.open(), 2U);
  EXPECT_TRUE(registry.Enter(calls[2]).ok());
  EXPECT_EQ(registry.Enter(calls[3]).code(), absl::StatusCode::kResourceExhausted);
  registry.Answered(calls[1]);
  EXPECT_TRUE(registry.Enter(calls[3]).ok());
  registry.Answered(calls[2]);
  // All in all they are bounded, too.
  EXPECT_EQ(registry.Enter(calls[4]).code(), absl::StatusCode::kResourceExhausted);
  registry.Leave(calls[0]);
  EXPECT_TRUE(registry.Enter(calls[4]).ok());
  for (const auto& call : calls) registry.Leave(call);
  EXPECT_EQ(registry.open(), 0U);
  EXPECT_TRUE(registry.AwaitNone(absl::ZeroDuration()));
}

}  // namespace
}  // namespace jobscope
