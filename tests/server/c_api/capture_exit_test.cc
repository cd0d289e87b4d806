// SPDX-License-Identifier: Apache-2.0
//
// Tests programs that exit while they capture themselves: the recorded data are on disk, complete.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tensorflow/xplane.pb.h"
#include "tests/again_if_busy.h"
#include "tests/subprocess.h"
#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class CaptureExitTest : public ::testing::Test {
 protected:
  // Runs the program, with `work` scopes of that name in its trace. Returns the account of its
  // worker.
  json Leave(const std::vector<std::string>& arguments, int work) {
    json account;
    // An exit waits a second, and 0.4 s for a collector, in which a busy machine may not run them.
    // The manifest is the last file to be written.
    (void)AgainIfBusy(
        [&] {
          account = LeaveOnce(arguments);
          return Named("work") == work && account.is_object();
        },
        absl::Milliseconds(300));
    EXPECT_EQ(runs_, 1);
    EXPECT_EQ(Named("work"), work) << account;
    if (account.is_object()) return account;
    ADD_FAILURE() << "no manifest";
    return json::object();
  }
  json LeaveOnce(std::vector<std::string> arguments) {
    const TemporaryDirectory logdir;
    arguments.insert(arguments.begin(), {LEAVING_CAPTURE, logdir.path()});
    Subprocess program(arguments);
    EXPECT_EQ(program.Wait(), 0) << program.err();
    json account;
    runs_ = 0;
    space_.Clear();
    for (const auto& run : fs::directory_iterator(logdir.path() + "/plugins/profile")) {
      ++runs_;
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

  int runs_ = 0;  // directories of the last program
  tensorflow::profiler::XSpace space_;
};

TEST_F(CaptureExitTest, ReturnFromMainEndsACapture) {
  const json account = Leave({"capture"}, 30);
  EXPECT_EQ(account["ended_by"], "shutdown") << account;
  EXPECT_EQ(account["outcome"], "truncated");
}

TEST_F(CaptureExitTest, ExitInAnotherThreadDoesToo) { Leave({"capture", "exit"}, 30); }

TEST_F(CaptureExitTest, StepsThatAreDoneAreWhole) {
  const json account = Leave({"steps"}, 11);
  EXPECT_EQ(account["ended_by"], "steps") << account;
  EXPECT_EQ(account["outcome"], "ok");
  EXPECT_EQ(account["steps"], 11);
}

TEST_F(CaptureExitTest, AWindowInTheMiddleIsCut) {
  const json account = Leave({"window"}, 6);
  EXPECT_EQ(account["outcome"], "truncated") << account;
  EXPECT_EQ(account["steps"], 6);
}

TEST_F(CaptureExitTest, AWindowThatNeverOpenedSaysSo) {
  const json account = Leave({"unopened"}, 0);
  EXPECT_EQ(account["outcome"], "truncated") << account;
}

TEST_F(CaptureExitTest, ACollectorThatHangsCostsItsOwnPartOnly) {
  const json account = Leave({"hung"}, 30);
  EXPECT_EQ(account["outcome"], "truncated") << account;
  EXPECT_FALSE(account.contains("lost")) << account;
}

TEST_F(CaptureExitTest, APortDirectoryThatHangsCostsNothing) {
  const json account = Leave({"serving"}, 30);
  EXPECT_EQ(account["ended_by"], "shutdown") << account;
}

TEST_F(CaptureExitTest, AStopInProgressIsWaitedFor) { Leave({"stopping"}, 30); }

}  // namespace
}  // namespace jobscope
