// SPDX-License-Identifier: Apache-2.0
#include "client/rpc/worker_owner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>

namespace jobscope {
namespace {

TEST(WorkerOwnerTest, WithoutADescriptorSaysWhatItCannotRead) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Status status = CheckWorkerOwner(Endpoint());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              ::testing::StartsWith("cannot read /proc/self/fd, which is needed to find the "
                                    "process that listens there"));
}

}  // namespace
}  // namespace jobscope
