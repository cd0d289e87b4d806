// SPDX-License-Identifier: Apache-2.0
//
// A process with libjobscope.so and the real recorder in it, as workers use them.
#ifndef TESTS_SERVER_PROCESS_WORKER_FIXTURE_H_
#define TESTS_SERVER_PROCESS_WORKER_FIXTURE_H_

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "jobscope/jobscope_c.h"
#include "jobscope/profiler_server.h"
#include "jobscope/trace.h"
#include "tensorflow/profiler_service.grpc.pb.h"

namespace jobscope {

// The first test to run starts recording in this process; all share the recorder, and each its own
// server.
class WorkerFixture : public ::testing::Test {
 protected:
  ~WorkerFixture() override {
    looping_ = false;
    if (loop_.joinable()) loop_.join();
    EXPECT_EQ(jobscope_server_stop(), JOBSCOPE_OK);
  }

  static ProfilerServerOptions Loopback() {
    ProfilerServerOptions options;
    options.address = "127.0.0.1:0";
    return options;
  }

  // A training loop: steps of about 1 ms, numbered without a gap.
  void StartLoop() {
    loop_ = std::thread([this] {
      SetThreadName("trainer");
      while (looping_) {
        if (step_ >= limit_) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          continue;
        }
        JOBSCOPE_STEP("train", step_.load());
        {
          JOBSCOPE_SCOPE("load_batch", "bytes", 4096);
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        step_.fetch_add(1);
      }
    });
  }
  void AwaitStep(int64_t step) {
    while (step_ < step) std::this_thread::yield();
  }

  std::unique_ptr<tensorflow::ProfilerService::Stub> Tensorflow(const ProfilerServer& server) {
    return tensorflow::ProfilerService::NewStub(
        grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
  }

  // Events of the host plane by name.
  static std::map<std::string, int> CountByName(const tensorflow::profiler::XSpace& space) {
    std::map<std::string, int> counts;
    for (const auto& plane : space.planes()) {
      for (const auto& line : plane.lines()) {
        for (const auto& event : line.events()) {
          ++counts[plane.event_metadata().at(event.metadata_id()).name()];
        }
      }
    }
    return counts;
  }

  // Numbers of the whole steps in the trace.
  static std::set<int64_t> StepNumbers(const tensorflow::profiler::XSpace& space) {
    std::set<int64_t> numbers;
    for (const auto& plane : space.planes()) {
      for (const auto& line : plane.lines()) {
        for (const auto& event : line.events()) {
          for (const auto& stat : event.stats()) {
            if (plane.stat_metadata().at(stat.metadata_id()).name() == "step_num") {
              numbers.insert(stat.int64_value());
            }
          }
        }
      }
    }
    return numbers;
  }

  std::atomic<bool> looping_{true};
  std::atomic<int64_t> step_{0};
  std::atomic<int64_t> limit_{INT64_MAX};  // the loop stands still before this step
  std::thread loop_;
};

}  // namespace jobscope

#endif  // TESTS_SERVER_PROCESS_WORKER_FIXTURE_H_
