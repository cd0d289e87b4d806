// SPDX-License-Identifier: Apache-2.0
//
// A server whose start runs out of memory.
#include <grpc/grpc.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "tests/failing_memory.h"
#include "tests/server/service_fixture.h"

namespace jobscope {
namespace {

class ServerMemoryTest : public ServiceFixture {};

// Not with the time limit of a start, which blames a name server.
TEST_F(ServerMemoryTest, AStartWithoutMemoryFailsWithThatReason) {
  grpc_init();  // the helper's first allocation is then not gRPC's, which would not survive it
  FailAllocations(/*at=*/1, /*failures=*/1);
  const absl::Status status = GrpcServer::Start(Options()).status();
  EXPECT_EQ(StopFailing(), 0) << "no allocation failed";
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  StartServer();
  EXPECT_EQ(Describe().identity().pid(), 4711);
}

}  // namespace
}  // namespace jobscope
