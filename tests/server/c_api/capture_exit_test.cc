// SPDX-License-Identifier: Apache-2.0
//
// Programs that leave while they capture themselves: what was recorded is on disk, whole.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tensorflow/xplane.pb.h"
#include "tests/subprocess.h"
#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class CaptureExitTest : public ::testing::Test {
 protected:
  // Runs the program; returns the account of its one worker.
  json Leave(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {LEAVING_CAPTURE, logdir_.path()});
    Subprocess program(arguments);
    EXPECT_EQ(program.Wait(), 0) << program.err();
    json account;
    int runs = 0;
    for (const auto& run : fs::directory_iterator(logdir_.path() + "/plugins/profile")) {
      ++runs;
      for (const auto& file : fs::directory_iterator(run.path())) {
        const std::string name = file.path().filename();
        EXPECT_EQ(name.find(".partial"), std::string::npos) << name;
        if (name == "capture.json") {
          std::ifstream stream(file.path());
          account = json::parse(stream)["workers"][0];
        }
        if (file.path().extension() != ".pb") continue;
        std::ifstream stream(file.path(), std::ios::binary);
        EXPECT_TRUE(space_.ParseFromIstream(&stream)) << name;
      }
    }
    EXPECT_EQ(runs, 1);
    EXPECT_TRUE(account.is_object()) << "no manifest";
    return account;
  }
  int Named(const std::string& name) const {
    int count = 0;
    for (const auto& plane : space_.planes()) {
      for (const auto& line : plane.lines()) {
        for (const auto& event : line.events()) {
          count += plane.event_metadata().at(event.metadata_id()).name() == name;
        }
      }
    }
    return count;
  }

  TemporaryDirectory logdir_;
  tensorflow::profiler::XSpace space_;
};

TEST_F(CaptureExitTest, ReturnFromMainEndsACapture) {
  const json account = Leave({"capture"});
  EXPECT_EQ(account["ended_by"], "shutdown") << account;
  EXPECT_EQ(account["outcome"], "truncated");
  EXPECT_EQ(Named("work"), 30);
}

TEST_F(CaptureExitTest, ExitInAnotherThreadDoesToo) {
  Leave({"capture", "exit"});
  EXPECT_EQ(Named("work"), 30);
}

TEST_F(CaptureExitTest, StepsThatAreDoneAreWhole) {
  const json account = Leave({"steps"});
  EXPECT_EQ(account["ended_by"], "steps") << account;
  EXPECT_EQ(account["outcome"], "ok");
  EXPECT_EQ(account["steps"], 11);
}

TEST_F(CaptureExitTest, AWindowInTheMiddleIsCut) {
  const json account = Leave({"window"});
  EXPECT_EQ(account["outcome"], "truncated") << account;
  EXPECT_EQ(account["steps"], 6);
}

TEST_F(CaptureExitTest, AWindowThatNeverOpenedSaysSo) {
  const json account = Leave({"unopened"});
  EXPECT_EQ(account["outcome"], "truncated") << account;
  EXPECT_EQ(Named("work"), 0);
}

TEST_F(CaptureExitTest, ACollectorThatHangsCostsItsOwnPartOnly) {
  const json account = Leave({"hung"});
  EXPECT_EQ(account["outcome"], "truncated") << account;
  EXPECT_FALSE(account.contains("lost")) << account;
  EXPECT_EQ(Named("work"), 30);
}

TEST_F(CaptureExitTest, AStopInProgressIsWaitedFor) {
  Leave({"stopping"});
  EXPECT_EQ(Named("work"), 30);
}

}  // namespace
}  // namespace jobscope
