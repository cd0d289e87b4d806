// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/tracing/state_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "collectors/cuda/libraries/cupti_api.h"

namespace jobscope::cuda {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void Report(StateLog* log, int32_t result) {
  StateNotification notification{};
  notification.result = result;
  notification.message = "no buffer";
  log->OnCallback(kStateWarning, &notification);
}

TEST(StateLogTest, KindsBeyondTheFirstOnesAreCountedTogether) {
  StateLog log;
  for (int32_t result = 1; result <= 8; ++result) Report(&log, result);
  EXPECT_EQ(log.Take().size(), 8u);
  Report(&log, 8);
  Report(&log, 9);
  Report(&log, 10);
  EXPECT_THAT(log.Take(), ElementsAre(AllOf(HasSubstr("no buffer"), HasSubstr("(8")),
                                      HasSubstr("2 errors or warnings of further kinds")));
  EXPECT_THAT(log.Take(), IsEmpty());
  Report(&log, 9);
  log.Clear();
  EXPECT_THAT(log.Take(), IsEmpty());
}

}  // namespace
}  // namespace jobscope::cuda
