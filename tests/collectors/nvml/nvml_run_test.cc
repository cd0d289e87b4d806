// SPDX-License-Identifier: Apache-2.0
//
// `capture` and a worker whose driver is the fake one, as programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tensorflow/xplane.pb.h"
#include "tests/again_if_busy.h"
#include "tests/subprocess.h"
#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::HasSubstr;

class NvmlRunTest : public ::testing::Test {
 protected:
  void StartWorker(std::vector<std::string> environment) {
    worker_ = std::make_unique<Subprocess>(
        std::vector<std::string>{FAKE_GPU_WORKER, "--listen=127.0.0.1:0"}, std::move(environment));
    const std::string line = worker_->AwaitFirstLine();
    const std::string before = "listening on ";
    ASSERT_EQ(line.rfind(before, 0), 0U) << worker_->out() << worker_->err();
    address_ = line.substr(before.size());
  }
  std::string Run(std::vector<std::string> arguments, int* code) {
    arguments.insert(arguments.begin(), CAPTURE_PROGRAM);
    arguments.push_back("--service_addr=" + address_);
    Subprocess program(std::move(arguments));
    *code = program.Wait();
    return program.out();
  }
  static json CollectorOf(const json& worker, const std::string& name) {
    for (const json& collector : worker["collectors"]) {
      if (collector["name"] == name) return collector;
    }
    return json::object();
  }

  // The manifest of a capture. On a busy machine the worker may not run in its window: then it is
  // made again, until it is `enough`.
  json Capture(const std::function<bool(const json& worker)>& enough) {
    json manifest;
    for (int tries = 0; tries < 20; ++tries) {
      int code = -1;
      manifest =
          json::parse(Run({"--duration_ms=300", "--json", "--logdir=" + logdir_.path()}, &code),
                      nullptr, false);
      EXPECT_EQ(code, 0) << manifest;
      if (code != 0 || enough(manifest["workers"][0])) break;
    }
    return manifest;
  }

  TemporaryDirectory logdir_;
  std::unique_ptr<Subprocess> worker_;
  std::string address_;
};

TEST_F(NvmlRunTest, CheckTellsTheGpus) {
  StartWorker({"JOBSCOPE_NVML_LIBRARY=" FAKE_NVML, "FAKE_NVML_GPUS=4"});
  int code = -1;
  json worker;
  // The first answer does not wait for a driver that is slower than a moment.
  for (int tries = 0; tries < 20 && !worker.contains("gpus"); ++tries) {
    worker = json::parse(Run({"check", "--json"}, &code))["workers"][0];
  }
  EXPECT_EQ(code, 0);
  // The fake libcuda has one GPU: the machine's other three are none of this process's business.
  ASSERT_EQ(worker["gpus"].size(), 1u) << worker;
  const json gpu = worker["gpus"][0];
  EXPECT_EQ(gpu["name"], "Fake H100");
  EXPECT_EQ(gpu["cuda_ordinal"], 0);
  EXPECT_EQ(gpu["index"], 0);
  EXPECT_EQ(gpu["memory_total_bytes"], uint64_t{80} << 30);
  EXPECT_EQ(gpu["compute_capability"], "9.0");
  EXPECT_EQ(gpu["power_watts"], 350.5);
  EXPECT_EQ(worker["gpu_driver"], "580.65.06");
  EXPECT_EQ(worker["gpus_chosen_by"], "CUDA");
  EXPECT_EQ(CollectorOf(worker, "nvml")["state"], "on");
  const std::string table = Run({"check"}, &code);
  EXPECT_THAT(table, HasSubstr("\n    GPUs: "));
  EXPECT_THAT(table, HasSubstr("Fake H100, 3.0 GiB of 80.0 GiB used"));
}

TEST_F(NvmlRunTest, ACaptureHasTheCounters) {
  StartWorker({"JOBSCOPE_NVML_LIBRARY=" FAKE_NVML, "JOBSCOPE_NVML_MS=10"});
  const json manifest = Capture([](const json& worker) {
    return CollectorOf(worker, "nvml").value("events", 0u) > 9 &&
           CollectorOf(worker, "cuda").value("events", 0u) > 0;
  });
  const json worker = manifest["workers"][0];
  EXPECT_EQ(CollectorOf(worker, "nvml")["state"], "on") << worker;
  EXPECT_GT(CollectorOf(worker, "nvml")["events"], 9u);
  const std::string path =
      std::string(manifest["run_directory"]) + "/" + std::string(worker["files"][0]["path"]);
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  tensorflow::profiler::XSpace space;
  ASSERT_TRUE(space.ParseFromString(bytes));
  std::set<std::string> counters;
  std::set<std::string> planes;
  for (const auto& plane : space.planes()) {
    planes.insert(plane.name());
    if (plane.name() != "/device:CUSTOM:NVML:0") continue;
    ASSERT_EQ(plane.lines_size(), 1);
    EXPECT_EQ(plane.lines(0).name(), "_counters_");
    for (const auto& event : plane.lines(0).events()) {
      counters.insert(plane.event_metadata().at(event.metadata_id()).name());
    }
  }
  EXPECT_THAT(planes, Contains("/device:GPU:0"));
  EXPECT_EQ(counters.size(), 9u);
  EXPECT_THAT(counters, Contains("GPU 0 SM clock (MHz)"));
}

TEST_F(NvmlRunTest, ADriverThatHangsCostsTheCountersOnly) {
  StartWorker({"JOBSCOPE_NVML_LIBRARY=" FAKE_NVML, "FAKE_NVML_HANG=nvmlInit_v2"});
  int code = -1;
  json worker;
  ExpectWithin(absl::Seconds(15), [&] {
    const absl::Time before = absl::Now();
    EXPECT_EQ(json::parse(Run({"check", "--json"}, &code))["workers"][0]["outcome"], "ok");
    worker = Capture([](const json& found) {
      return CollectorOf(found, "cuda").value("events", 0u) > 0 &&
             CollectorOf(found, "host").value("events", 0u) > 0;
    })["workers"][0];
    return absl::Now() - before;
  });
  EXPECT_EQ(worker["outcome"], "ok") << worker;
  EXPECT_GT(CollectorOf(worker, "cuda")["events"], 0u);
  EXPECT_GT(CollectorOf(worker, "host")["events"], 0u);
}

TEST_F(NvmlRunTest, WithoutADriverItIsSaidAndNothingIsMissing) {
  StartWorker({"JOBSCOPE_NVML_LIBRARY=libjobscope-there-is-no-such-driver.so.1"});
  int code = -1;
  json worker;
  // The first answer does not wait for the look.
  for (int tries = 0; tries < 20 && !worker.contains("gpu_reason"); ++tries) {
    worker = json::parse(Run({"check", "--json"}, &code))["workers"][0];
  }
  EXPECT_EQ(code, 0);
  EXPECT_FALSE(worker.contains("gpus"));
  EXPECT_THAT(std::string(worker["gpu_reason"]), HasSubstr("no NVIDIA driver"));
  EXPECT_EQ(CollectorOf(worker, "nvml")["state"], "off");
}

}  // namespace
}  // namespace jobscope
