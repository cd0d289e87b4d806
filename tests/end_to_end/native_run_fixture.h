// SPDX-License-Identifier: Apache-2.0
//
// Runs the program `capture` against workers in processes of their own, and reads its files.
#ifndef TESTS_END_TO_END_NATIVE_RUN_FIXTURE_H_
#define TESTS_END_TO_END_NATIVE_RUN_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "tensorflow/xplane.pb.h"
#include "tests/subprocess.h"
#include "tests/temporary_directory.h"

namespace jobscope {

class ClockWorker {
 public:
  explicit ClockWorker(std::vector<std::string> arguments, std::vector<std::string> launcher = {})
      : process_(Argv(std::move(arguments), std::move(launcher))) {
    EXPECT_TRUE(process_.AwaitText("\n")) << process_.err();
    const std::string out = process_.out();
    address_ = out.substr(0, out.find('\n'));
  }
  const std::string& address() const { return address_; }
  Subprocess& process() { return process_; }

 private:
  static std::vector<std::string> Argv(std::vector<std::string> arguments,
                                       std::vector<std::string> launcher) {
    launcher.emplace_back(CLOCK_WORKER_PROGRAM);
    launcher.insert(launcher.end(), arguments.begin(), arguments.end());
    return launcher;
  }
  Subprocess process_;
  std::string address_;
};

// One event of a file, with its numbers.
struct Event {
  std::string name;
  int64_t start_ps = 0;
  int64_t duration_ps = 0;
  std::map<std::string, int64_t> stats;
};

inline std::vector<Event> ReadEvents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  tensorflow::profiler::XSpace space;
  EXPECT_TRUE(space.ParseFromString(bytes)) << path;
  std::vector<Event> events;
  for (const auto& plane : space.planes()) {
    for (const auto& line : plane.lines()) {
      for (const auto& event : line.events()) {
        Event read;
        read.name = plane.event_metadata().at(event.metadata_id()).name();
        read.start_ps = line.timestamp_ns() * 1000 + event.offset_ps();
        read.duration_ps = event.duration_ps();
        for (const auto& stat : event.stats()) {
          const std::string& name = plane.stat_metadata().at(stat.metadata_id()).name();
          if (stat.value_case() == tensorflow::profiler::XStat::kInt64Value) {
            read.stats[name] = stat.int64_value();
          } else if (stat.value_case() == tensorflow::profiler::XStat::kUint64Value) {
            read.stats[name] = static_cast<int64_t>(stat.uint64_value());
          }
        }
        events.push_back(std::move(read));
      }
    }
  }
  return events;
}

class NativeRunTest : public ::testing::Test {
 protected:
  using json = nlohmann::json;

  ClockWorker& StartWorker(std::vector<std::string> arguments) {
    workers_.push_back(std::make_unique<ClockWorker>(std::move(arguments)));
    return *workers_.back();
  }

  std::unique_ptr<Subprocess> StartCapture(const std::vector<std::string>& addresses,
                                           const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {CAPTURE_PROGRAM,
                                          "--service_addr=" + absl::StrJoin(addresses, ","),
                                          "--logdir=" + logdir_.path(), "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const bool named = std::any_of(more.begin(), more.end(), [](const std::string& argument) {
      return argument.rfind("--session_id=", 0) == 0;
    });
    if (!named) arguments.emplace_back("--session_id=r");
    return std::make_unique<Subprocess>(arguments);
  }
  static json Finish(Subprocess* capture, int exit_code) {
    EXPECT_EQ(capture->Wait(), exit_code) << capture->err() << capture->out();
    return json::parse(capture->out(), nullptr, false);
  }
  json Capture(const std::vector<std::string>& addresses, const std::vector<std::string>& more,
               int exit_code = 0) {
    return Finish(StartCapture(addresses, more).get(), exit_code);
  }

  // Of all files of one worker.
  std::vector<Event> EventsOf(const json& worker) const {
    std::vector<Event> all;
    for (const json& file : worker["files"]) {
      const std::string path = file["path"];
      const std::vector<Event> events = ReadEvents(run() + "/" + path);
      EXPECT_EQ(events.size(), file["events"].get<size_t>()) << path;
      all.insert(all.end(), events.begin(), events.end());
    }
    return all;
  }
  std::string run() const { return logdir_.path() + "/plugins/profile/r"; }

  TemporaryDirectory logdir_;
  std::vector<std::unique_ptr<ClockWorker>> workers_;
};

}  // namespace jobscope

#endif  // TESTS_END_TO_END_NATIVE_RUN_FIXTURE_H_
