// SPDX-License-Identifier: Apache-2.0
//
// XSpaces that providers add in their stop callback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "collectors/provider/provider_collector.h"
#include "tensorflow/xplane.pb.h"
#include "tests/collectors/host/session_driver.h"
#include "tests/collectors/provider/fake_provider.h"
#include "tests/collectors/provider/provider_fixture.h"

namespace jobscope {
namespace {

using ::testing::HasSubstr;

using ProviderXSpaceTest = ProviderTest;

// Takes one item at a time, when it may.
class SlowSink : public xspace::ItemSink {
 public:
  bool Append(xspace::ItemKind, std::string_view) override {
    std::unique_lock<std::mutex> lock(mutex_);
    entered_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
    return true;
  }
  bool Full() const override { return false; }
  void AwaitAppend() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return entered_; });
  }
  void Open() {
    std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool entered_ = false;
  bool open_ = false;
};

TEST_F(ProviderXSpaceTest, AnXSpaceOfTheStopIsMerged) {
  KeepSink();
  provider_.On("stop", [](const jobscope_provider_session& session) {
    tensorflow::profiler::XSpace space;
    auto* const plane = space.add_planes();
    plane->set_name("/device:CUSTOM:nic");
    auto* const line = plane->add_lines();
    line->set_id(1);
    line->set_name("port 0");
    line->set_timestamp_ns(session.begin_realtime_ns);
    (*plane->mutable_event_metadata())[7].set_id(7);
    (*plane->mutable_event_metadata())[7].set_name("send");
    for (const int64_t offset_ps : {int64_t{2'000'000}, int64_t{900'000'000'000}}) {
      auto* const event = line->add_events();
      event->set_metadata_id(7);
      event->set_offset_ps(offset_ps);
      event->set_duration_ps(1'000'000);
    }
    const std::string bytes = space.SerializeAsString();
    char error[200] = "";
    EXPECT_EQ(
        session.sink->add_xspace(session.sink, bytes.data(), bytes.size(), error, sizeof(error)), 0)
        << error;
    EXPECT_EQ(session.sink->add_xspace(session.sink, "\x0a\x7f", 2, error, sizeof(error)),
              JOBSCOPE_E_INVALID);
    EXPECT_STRNE(error, "");
  });
  SessionDriver driver(&collector_, kMonotonic);
  ASSERT_TRUE(driver.Arm().ok());
  ASSERT_TRUE(driver.Start().ok());
  char error[200] = "";
  EXPECT_EQ(session_.sink->add_xspace(session_.sink, "", 0, error, sizeof(error)),
            JOBSCOPE_E_STATE);
  EXPECT_THAT(error, HasSubstr("inside of stop()"));
  const CollectorReport& report = driver.StopAt(driver.map().zero_ticks() + 1000 * kUs);
  EXPECT_EQ(report.outside, 1u);
  driver.ExpectIdentity();
  const ReadEvent send = driver.One("send");
  EXPECT_EQ(send.plane, "/device:CUSTOM:nic");
  EXPECT_EQ(send.line, "port 0");
  // By REALTIME, which the test reads some microseconds apart.
  EXPECT_NEAR(static_cast<double>(send.start_ps), 2e6, 100e6);
}

// However large it is: who asks for the state of this worker waits for nobody.
TEST_F(ProviderXSpaceTest, AnXSpaceThatIsMergedHoldsNobodyUp) {
  provider_.On("stop", [](const jobscope_provider_session& session) {
    tensorflow::profiler::XSpace space;
    auto* const plane = space.add_planes();
    plane->set_name("/device:CUSTOM:nic");
    plane->add_lines()->add_events();
    const std::string bytes = space.SerializeAsString();
    EXPECT_EQ(session.sink->add_xspace(session.sink, bytes.data(), bytes.size(), nullptr, 0), 0);
  });
  SlowSink sink;
  xspace::Names names(&sink);
  SessionDriver driver(&collector_, kMonotonic);
  driver.request().sink = &sink;
  driver.request().names = &names;
  ASSERT_TRUE(driver.Arm().ok());
  ASSERT_TRUE(driver.Start().ok());
  std::thread session([&] { (void)collector_.Stop(driver.Now()); });
  sink.AwaitAppend();
  EXPECT_EQ(collector_.Describe().state, CollectorState::kOn);
  EXPECT_EQ(collector_.LostSoFar(), 0u);
  EXPECT_EQ(collector_.Register(provider_.callbacks()).code(), absl::StatusCode::kAlreadyExists);
  sink.Open();
  session.join();
}

}  // namespace
}  // namespace jobscope
