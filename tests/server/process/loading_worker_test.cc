// SPDX-License-Identifier: Apache-2.0
//
// A process that starts or stops the server while it loads a library.
#include <gtest/gtest.h>

#include "tests/subprocess.h"
#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

class LoadingWorker : public ::testing::TestWithParam<const char*> {};

TEST_P(LoadingWorker, DoesNotWaitForEver) {
  const TemporaryDirectory logdir;
  Subprocess worker({LOADING_WORKER, GetParam(), CALLING_PLUGIN, logdir.path()});
  EXPECT_EQ(worker.Wait(), 0) << worker.err();
}

INSTANTIATE_TEST_SUITE_P(Ways, LoadingWorker,
                         ::testing::Values("start", "stop", "running", "capture"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace jobscope
