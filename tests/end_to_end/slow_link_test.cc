// SPDX-License-Identifier: Apache-2.0
//
// The program `capture` behind slow and dead links, with its real time limits: minutes, so labelled
// `long`. tests/client/native/native_slow_link_test.cc has the same in seconds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/end_to_end/tcp_proxy.h"
#include "tests/server/native/native_fixture.h"
#include "tests/subprocess.h"
#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

using nlohmann::json;

class SlowLinkTest : public NativeFixture {
 protected:
  std::unique_ptr<Subprocess> StartCapture(const std::string& address,
                                           std::vector<std::string> more) {
    more.insert(more.begin(), {CAPTURE_PROGRAM, "--service_addr=" + address,
                               "--logdir=" + logdir_.path(), "--session_id=r"});
    return std::make_unique<Subprocess>(more);
  }
  json Capture(const std::string& address, std::vector<std::string> more) {
    more.emplace_back("--json");
    const absl::Time begin = absl::Now();
    const std::unique_ptr<Subprocess> capture = StartCapture(address, std::move(more));
    EXPECT_EQ(capture->Wait(), 0) << capture->err() << capture->out();
    json worker = json::parse(capture->out(), nullptr, false)["workers"][0];
    std::printf("%.1f s, %s events, lost %s, warnings %s\n%s",
                absl::ToDoubleSeconds(absl::Now() - begin), worker["events"].dump().c_str(),
                worker["lost"].dump().c_str(), worker["warnings"].dump().c_str(),
                capture->err().c_str());
    return worker;
  }

  TemporaryDirectory logdir_;
};

TEST_F(SlowLinkTest, ASecondOfFullLoadThrough120KilobytesPerSecond) {
  Subprocess process({CLOCK_WORKER_PROGRAM, "--scopes_per_second=200000"});
  TcpProxy proxy(process.AwaitFirstLine());
  proxy.LimitRate(120'000);
  const json worker = Capture(proxy.address(), {"--duration_ms=1000"});
  EXPECT_EQ(worker["outcome"], "ok") << worker;
  EXPECT_EQ(worker["lost"], 0);
  EXPECT_GT(worker["events"].get<uint64_t>(), 150'000U);
  EXPECT_EQ(proxy.connections(), 1U) << "it was asked, or the stream was lost";
}

TEST_F(SlowLinkTest, ALargePlaneAtTwoMegabytesPerSecond) {
  flood_.set_raw_plane_bytes(size_t{31} << 20);
  flood_.Flood(100, 10, 20'000);
  StartFlood(Options());
  TcpProxy proxy(server_->address());
  proxy.LimitRate(2'000'000);
  const json worker = Capture(proxy.address(), {"--duration_ms=100"});
  EXPECT_EQ(worker["outcome"], "ok") << worker;
  EXPECT_GT(worker["files"][0]["bytes"].get<uint64_t>(), uint64_t{31} << 20);
  EXPECT_EQ(proxy.connections(), 1U) << "it was asked, or the stream was lost";
}

TEST_F(SlowLinkTest, ADeadLinkIsNoticedWithin15Seconds) {
  Subprocess process({CLOCK_WORKER_PROGRAM, "--scopes_per_second=50000"});
  TcpProxy proxy(process.AwaitFirstLine());
  const auto capture = StartCapture(proxy.address(), {"--duration_ms=60000"});
  ASSERT_TRUE(Eventually([&] { return proxy.bytes_back() > 200'000; }));
  proxy.Stall(true);
  const absl::Time begin = absl::Now();
  EXPECT_TRUE(capture->AwaitText("trying again", absl::Seconds(30))) << capture->err();
  std::printf("noticed after %.1f s\n", absl::ToDoubleSeconds(absl::Now() - begin));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(15));
}

}  // namespace
}  // namespace jobscope
