// SPDX-License-Identifier: Apache-2.0
//
// The program `capture` and real workers, over the native service: captures of steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tests/end_to_end/native_run_fixture.h"

namespace jobscope {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

TEST_F(NativeRunTest, StepsThatWereInferredSaySo) {
  const std::string watched = StartWorker({"--step_ms=5", "--infer_steps=only"}).address();
  const std::string marked = StartWorker({"--step_ms=5", "--infer_steps=too"}).address();
  const json manifest = Capture({watched, marked}, {"--steps=6"});
  ASSERT_TRUE(manifest.is_object());
  const json& inferred = manifest["workers"][0];
  EXPECT_EQ(inferred["outcome"], "ok") << inferred;
  EXPECT_EQ(inferred["steps"], 6) << inferred;
  EXPECT_EQ(inferred["steps_inferred"], true) << inferred;
  EXPECT_EQ(inferred["steps_source"], "watched step") << inferred;
  // Marks win, wherever they come from.
  EXPECT_EQ(manifest["workers"][1]["steps"], 6) << manifest;
  EXPECT_FALSE(manifest["workers"][1].contains("steps_inferred")) << manifest;
  EXPECT_FALSE(manifest["workers"][1].contains("steps_source")) << manifest;

  Subprocess check(
      {CAPTURE_PROGRAM, "check", "--json", absl::StrCat("--service_addr=", watched, ",", marked)});
  EXPECT_EQ(check.Wait(), 0) << check.err();
  const json checked = json::parse(check.out());
  EXPECT_EQ(checked["workers"][0]["steps_inferred"], true) << checked;
  EXPECT_EQ(checked["workers"][0]["steps_source"], "watched step") << checked;
  EXPECT_FALSE(checked["workers"][1].contains("steps_inferred")) << checked;
}

TEST_F(NativeRunTest, AllRecordTheSameSteps) {
  const std::vector<std::string> addresses = {
      StartWorker({"--step_ms=5"}).address(), StartWorker({"--step_ms=9"}).address(),
      StartWorker({"--step_ms=7", "--first_step=1"}).address(), StartWorker({}).address()};
  const json manifest = Capture(addresses, {"--steps=10", "--duration_ms=200"});
  ASSERT_TRUE(manifest.is_object());
  std::set<std::pair<int64_t, int64_t>> windows;
  for (size_t i = 0; i < 3; ++i) {
    const json& worker = manifest["workers"][i];
    EXPECT_EQ(worker["outcome"], "ok") << worker;
    EXPECT_EQ(worker["steps"], 10) << worker;
    std::set<int64_t> numbers;
    for (const Event& event : EventsOf(worker)) {
      if (const auto number = event.stats.find("step_num"); number != event.stats.end()) {
        numbers.insert(number->second);
      }
    }
    ASSERT_EQ(numbers.size(), 10u) << worker;
    windows.emplace(*numbers.begin(), *numbers.rbegin());
  }
  EXPECT_EQ(windows.size(), 1u) << "not the same steps";
  const json& without = manifest["workers"][3];
  EXPECT_EQ(without["outcome"], "ok") << without;
  EXPECT_THAT(without.dump(), HasSubstr("step"));
  EXPECT_NEAR(without["duration_ns"].get<double>(), 200e6, 50e6);
}

// Whole steps of a trace: those whose "train" event is in it.
size_t StepsOf(const std::vector<Event>& events) {
  return static_cast<size_t>(std::count_if(events.begin(), events.end(), [](const Event& event) {
    return event.name.rfind("train", 0) == 0 && event.stats.count("step_num") > 0;
  }));
}

// One program gives every step the number 0, one begins anew after four steps: no two steps of a
// window of six have their numbers in order.
TEST_F(NativeRunTest, StepsWhoseNumbersDoNotRiseAreCounted) {
  std::vector<std::string> addresses;
  for (const char* epoch : {"1", "4"}) {
    addresses.push_back(
        StartWorker({"--step_ms=10", absl::StrCat("--steps_per_epoch=", epoch)}).address());
  }
  const json run = Capture(addresses, {"--steps=6", "--max_duration_ms=20000"});
  EXPECT_EQ(run["steps_by"], "ordinal");
  for (const json& worker : run["workers"]) {
    EXPECT_EQ(worker["outcome"], "ok") << worker;
    EXPECT_EQ(worker["ended_by"], "steps");
    EXPECT_EQ(worker["steps"], 6);
    EXPECT_EQ(worker["steps_by_ordinal"], true);
    EXPECT_EQ(worker["last_step"].get<int64_t>() - worker["first_step"].get<int64_t>(), 5);
    EXPECT_EQ(StepsOf(EventsOf(worker)), 6U);
  }
}

// The one that counts nothing records the steps of the same time: the windows overlap.
TEST_F(NativeRunTest, StepsWithoutNumbersFollowThoseOfOthers) {
  std::vector<std::string> addresses;
  addresses.push_back(StartWorker({"--step_ms=20", "--first_step=1000"}).address());
  addresses.push_back(StartWorker({"--step_ms=20", "--steps_per_epoch=1"}).address());
  const json run = Capture(addresses, {"--steps=10", "--max_duration_ms=20000"});
  EXPECT_EQ(run["steps_by"], "mixed");
  std::vector<std::pair<int64_t, int64_t>> windows;
  for (const json& worker : run["workers"]) {
    EXPECT_EQ(worker["outcome"], "ok") << worker;
    EXPECT_EQ(worker["steps"], 10);
    int64_t first = INT64_MAX;
    int64_t last = 0;
    for (const Event& event : EventsOf(worker)) {
      if (event.name.rfind("train", 0) != 0) continue;
      first = std::min(first, event.start_ps);
      last = std::max(last, event.start_ps + event.duration_ps);
    }
    windows.emplace_back(first, last);
  }
  EXPECT_FALSE(run["workers"][0].contains("steps_by_ordinal"));
  EXPECT_EQ(run["workers"][1]["steps_by_ordinal"], true);
  // Of a worker that hears of it when the first one has begun, as many later ones are recorded.
  EXPECT_GE(run["workers"][0]["first_step"], run["first_step"]);
  EXPECT_LT(run["workers"][0]["first_step"].get<int64_t>(), run["first_step"].get<int64_t>() + 10);
  // Ten steps of 20 ms and more; on a loaded machine one may be some steps behind the other.
  EXPECT_LT(std::max(windows[0].first, windows[1].first),
            std::min(windows[0].second, windows[1].second));
}

}  // namespace
}  // namespace jobscope
