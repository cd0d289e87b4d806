// SPDX-License-Identifier: Apache-2.0
//
// GPUs in Describe and Monitor: the driver's answer may be slow, hang, or be empty.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "tests/server/service_fixture.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class GpusTest : public ServiceFixture {
 protected:
  // Answers when the test says so.
  struct Driver {
    std::mutex mutex;
    v1::Gpus known;
    bool has_something_new = true;
    int asked = 0;
    std::vector<std::function<void()>> waiters;

    void Tell() {
      std::vector<std::function<void()>> done;
      {
        const std::lock_guard<std::mutex> lock(mutex);
        v1::Gpu* const gpu = known.add_gpus();
        gpu->set_name("Fake H100");
        gpu->set_index(3);
        gpu->set_has_index(true);
        gpu->set_has_cuda_ordinal(true);
        gpu->set_has_utilization(true);
        gpu->set_utilization_percent(37);
        gpu->set_memory_total_bytes(uint64_t{80} << 30);
        gpu->set_memory_used_bytes(uint64_t{3} << 30);
        gpu->set_power_milliwatts(350'500);
        known.set_driver_version("580.65.06");
        has_something_new = false;
        done.swap(waiters);
      }
      for (const auto& waiter : done) waiter();
    }
  };

  GrpcServerOptions WithDriver() {
    GrpcServerOptions options = Options();
    options.gpus.latest = [this] {
      const std::lock_guard<std::mutex> lock(driver_.mutex);
      return driver_.known;
    };
    options.gpus.refresh = [this](absl::Duration /*max_age*/, std::function<void()> done) {
      const std::lock_guard<std::mutex> lock(driver_.mutex);
      ++driver_.asked;
      if (!driver_.has_something_new) return false;
      driver_.waiters.push_back(std::move(done));
      return true;
    };
    return options;
  }
  int waiters() {
    const std::lock_guard<std::mutex> lock(driver_.mutex);
    return static_cast<int>(driver_.waiters.size());
  }
  std::string Monitor(uint64_t duration_ms) {
    grpc::ClientContext context;
    tensorflow::MonitorRequest request;
    tensorflow::MonitorResponse response;
    request.set_duration_ms(duration_ms);
    request.set_monitoring_level(1);
    const grpc::Status status = tensorflow_->Monitor(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.data();
  }

  Driver driver_;
};

TEST_F(GpusTest, TheFirstDescribeWaitsForTheDriver) {
  StartServer(WithDriver());
  std::thread driver([this] {
    EXPECT_TRUE(Eventually([this] { return waiters() > 0; }));
    driver_.Tell();
  });
  const v1::DescribeResponse response = Describe();
  driver.join();
  ASSERT_TRUE(response.has_gpus());
  // Unless the machine was so slow that the wait was over.
  if (response.gpus().gpus_size() == 0) GTEST_SKIP() << "slower than the wait";
  EXPECT_EQ(response.gpus().gpus(0).name(), "Fake H100");
  EXPECT_EQ(response.gpus().driver_version(), "580.65.06");
}

TEST_F(GpusTest, ADriverThatHangsHoldsDescribeUpForAMomentOnly) {
  StartServer(WithDriver());
  const absl::Time begin = absl::Now();
  const v1::DescribeResponse response = Describe();
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(99));
  EXPECT_LT(absl::Now() - begin, absl::Minutes(1));
  EXPECT_EQ(response.identity().host(), "test-host");
  EXPECT_EQ(response.gpus().gpus_size(), 0);
  // Its answer comes when nobody waits any more, and after the server has gone.
  StopServer();
  driver_.Tell();
}

TEST_F(GpusTest, WithNothingToWaitForTheAnswerComesAtOnceAndAsksForTheNext) {
  driver_.has_something_new = false;
  driver_.known.set_reason("no NVIDIA driver on this machine");
  StartServer(WithDriver());
  EXPECT_EQ(Describe().gpus().reason(), "no NVIDIA driver on this machine");
  EXPECT_TRUE(Eventually([this] {
    const std::lock_guard<std::mutex> lock(driver_.mutex);
    return driver_.asked == 2;
  }));
}

TEST_F(GpusTest, MonitorTellsWhatEachGpuDoes) {
  driver_.Tell();
  StartServer(WithDriver());
  EXPECT_THAT(Monitor(0), HasSubstr("gpu 0 (Fake H100): utilization 37 %, memory utilization 0 %, "
                                    "memory 3072.0 of 81920.0 MiB, power 350.5 W\n"));
  EXPECT_THAT(Monitor(10), HasSubstr("gpu 0 (Fake H100)"));
}

TEST_F(GpusTest, MonitorTellsWhyThereAreNone) {
  driver_.has_something_new = false;
  driver_.known.set_reason("no NVIDIA driver on this machine");
  StartServer(WithDriver());
  EXPECT_THAT(Monitor(0), HasSubstr("gpus: no NVIDIA driver on this machine\n"));
}

TEST_F(GpusTest, MonitorDoesNotWaitForADriverThatHangs) {
  StartServer(WithDriver());
  const absl::Time begin = absl::Now();
  EXPECT_THAT(Monitor(10), AllOf(HasSubstr("steps:"), Not(HasSubstr("gpu 0"))));
  EXPECT_LT(absl::Now() - begin, absl::Minutes(1));
}

TEST_F(GpusTest, OldNumbersSaySo) {
  driver_.Tell();
  driver_.known.set_age_ms(12'340);
  StartServer(WithDriver());
  EXPECT_THAT(Monitor(0), HasSubstr("gpus: as of 12.3 s ago\n"));
}

TEST_F(GpusTest, AWorkerThatDoesNotAskForGpusTellsNone) {
  StartServer();
  EXPECT_FALSE(Describe().has_gpus());
  EXPECT_THAT(Monitor(0), Not(HasSubstr("gpu")));
}

}  // namespace
}  // namespace jobscope
