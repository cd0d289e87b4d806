// SPDX-License-Identifier: Apache-2.0
//
// Tests the program `capture` with real workers, over the native service: clocks, lookback, broken
// connections, deaths. The tests check the contents of the files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/again_if_busy.h"
#include "tests/end_to_end/native_run_fixture.h"
#include "tests/end_to_end/tcp_proxy.h"

namespace jobscope {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// Where MONOTONIC's zero lies on a trace's axis, by the median of its instants: the same for all
// workers of one machine whose traces line up.
int64_t AxisNs(const std::vector<Event>& events) {
  std::vector<int64_t> differences;
  for (const Event& event : events) {
    if (event.name != "tick") continue;
    differences.push_back(event.start_ps / 1000 - event.stats.at("monotonic_ns"));
  }
  EXPECT_FALSE(differences.empty());
  if (differences.empty()) return 0;
  std::nth_element(differences.begin(), differences.begin() + differences.size() / 2,
                   differences.end());
  return differences[differences.size() / 2];
}

// Of all workers, one axis each.
void ExpectLinedUp(const std::vector<int64_t>& axes, const json& manifest) {
  const auto uncertainty_ns = [&](std::vector<int64_t>::const_iterator axis) {
    return manifest["workers"][axis - axes.cbegin()]["clock_uncertainty_ns"].get<int64_t>();
  };
  const auto [low, high] = std::minmax_element(axes.cbegin(), axes.cend());
  // On a busy machine, pings are delayed one way, and the uncertainty says by how much at most.
  EXPECT_LE(*high - *low, 1'000'000 + uncertainty_ns(low) + uncertainty_ns(high))
      << "the timelines do not line up";
}

// Workers record ahead of their command: however late a busy machine lets them read it, they begin
// at the instant.
void ExpectCommonStart(const json& manifest) {
  EXPECT_LE(manifest["start_spread_ns"].get<int64_t>(), 200'000) << manifest;
  for (const json& worker : manifest["workers"]) EXPECT_EQ(worker["late_ns"], 0) << worker;
}

// What was open when the worker began is in the trace, cut: its bits were on before the instant.
bool HasScopeAcrossStart(const std::vector<Event>& events, int64_t late_ns = 0) {
  return std::any_of(events.begin(), events.end(), [late_ns](const Event& event) {
    const auto true_start_ns = event.stats.find("true_start_ns");
    return event.name == "work" && std::llabs(event.start_ps / 1000 - late_ns) <= 1 &&
           true_start_ns != event.stats.end() && true_start_ns->second < 0;
  });
}

// Eight workers, one with a clock that is 7 s ahead, one 50 ms away. `ids`: workers say that they
// have clocks of their own, so that nothing but the pings tells where these stand.
class ClocksTest : public NativeRunTest, public ::testing::WithParamInterface<bool> {};

TEST_P(ClocksTest, EightWorkersStartTogetherAndLineUp) {
  const bool own_ids = GetParam();
  std::vector<std::string> addresses;
  for (int i = 0; i < 8; ++i) {
    std::vector<std::string> arguments;
    if (own_ids) arguments.push_back(absl::StrCat("--clock_id=clock-", i));
    if (i == 3) arguments.push_back("--realtime_shift_ns=7000000000");
    arguments.push_back("--work");
    addresses.push_back(StartWorker(std::move(arguments)).address());
  }
  using std::chrono::milliseconds;
  // A path that is slow one way only cannot be distinguished from a clock that is off: only workers
  // whose clock is known by id are measured over such a one.
  TcpProxy far(addresses[5], own_ids ? TcpProxy::Delays{milliseconds(25), milliseconds(25)}
                                     : TcpProxy::Delays{milliseconds(50), milliseconds(0)});
  addresses[5] = far.address();

  const json manifest = Capture(addresses, {"--duration_ms=500"});
  ASSERT_TRUE(manifest.is_object());
  ExpectCommonStart(manifest);
  std::vector<int64_t> axes;
  int across = 0;
  for (const json& worker : manifest["workers"]) {
    EXPECT_EQ(worker["outcome"], "ok") << worker;
    EXPECT_EQ(worker["protocol"], "native");
    EXPECT_EQ(worker["aligned"], true);
    const std::vector<Event> events = EventsOf(worker);
    axes.push_back(AxisNs(events));
    across += HasScopeAcrossStart(events) ? 1 : 0;
  }
  ExpectLinedUp(axes, manifest);
  // What is printed covers what is true.
  for (size_t i = 0; i < axes.size(); ++i) {
    const json& worker = manifest["workers"][i];
    const int64_t shift = i == 3 ? 7'000'000'000 : 0;
    const int64_t error = worker["clock_offset_ns"].get<int64_t>() - shift;
    EXPECT_LE(std::llabs(error), worker["clock_uncertainty_ns"].get<int64_t>() + 1'000'000)
        << worker;
  }
  // Their threads are nearly always inside of such a scope.
  EXPECT_GE(across, 4) << "what the manifest says of the start is not what was recorded";
}
INSTANTIATE_TEST_SUITE_P(Ids, ClocksTest, ::testing::Bool(), [](const auto& info) {
  return info.param ? "ByPingsAlone" : "ByIdAndLopsidedPath";
});

// Workers that wait for a processor most of the time: what the manifest says of their lateness is
// what is in their traces.
TEST_F(NativeRunTest, EightBusyWorkersBeginWhenTheManifestSays) {
  std::vector<std::string> addresses;
  for (int i = 0; i < 8; ++i) addresses.push_back(StartWorker({"--spin"}).address());
  const json manifest = Capture(addresses, {"--duration_ms=1000"});
  ASSERT_TRUE(manifest.is_object());
  std::vector<int64_t> axes;
  int across = 0;
  for (const json& worker : manifest["workers"]) {
    EXPECT_EQ(worker["outcome"], "ok") << worker;
    const int64_t late_ns = worker["late_ns"];
    const std::vector<Event> events = EventsOf(worker);
    axes.push_back(AxisNs(events));
    for (const Event& event : events) EXPECT_GE(event.start_ps / 1000, late_ns - 1) << worker;
    across += HasScopeAcrossStart(events, late_ns) ? 1 : 0;
  }
  ExpectLinedUp(axes, manifest);
  EXPECT_GE(across, 4) << manifest;
}

// Addresses that take a connection and are silent, more than are dialled at a time, between two
// workers that live.
TEST_F(NativeRunTest, ASilentCrowdHoldsNobodyUp) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 1000), 0);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  const std::string silent = absl::StrCat("127.1.[1-2].[1-150]:", ntohs(address.sin_port));
  const std::string first = StartWorker({}).address();
  const std::string last = StartWorker({}).address();
  const absl::Duration timeout = absl::Seconds(30);
  json manifest;
  int tries = 0;
  // It takes 0.8 s on a machine with nothing else to do, and must not wait for a silent one. On a
  // busy one the places of the silent ones come free later (twice the time of an answer), and a
  // worker may be armed too late for the common instant, and says so.
  EXPECT_TRUE(AgainIfBusy([&] {
    // Those of the last try are still in the queue, which would be full.
    for (int fd; (fd = accept(listener, nullptr, nullptr)) >= 0;) close(fd);
    const absl::Time before = absl::Now();
    manifest = Capture({first, silent, last},
                       {"--duration_ms=200", absl::StrCat("--session_id=try", ++tries),
                        absl::StrCat("--connect_timeout_ms=", absl::ToInt64Milliseconds(timeout))},
                       3);
    const absl::Duration took =
        absl::FromUnixNanos(manifest["started_unix_ns"].get<int64_t>()) - before;
    std::printf("started %.3f s after the command\n", absl::ToDoubleSeconds(took));
    return took < timeout / 2 && manifest.dump().find("after the others") == std::string::npos;
  }));
  ASSERT_EQ(manifest["workers"].size(), 302u);
  for (const json* worker : {&manifest["workers"][0], &manifest["workers"][301]}) {
    EXPECT_EQ((*worker)["outcome"], "ok") << *worker;
    // Of its own reading of the common clock.
    EXPECT_NEAR((*worker)["start_unix_ns"].get<double>(), manifest["started_unix_ns"].get<double>(),
                (*worker)["clock_uncertainty_ns"].get<double>() + 2'000)
        << *worker;
    EXPECT_EQ(worker->dump().find("after the others"), std::string::npos) << *worker;
  }
  for (size_t i = 1; i < 301; ++i) {
    EXPECT_EQ(manifest["workers"][i]["outcome"], "timeout") << manifest["workers"][i];
  }
  close(listener);
}

TEST_F(NativeRunTest, OneProcessUnderTwoNamesIsRecordedOnce) {
  const std::string address = StartWorker({}).address();
  const std::string other = "localhost" + address.substr(address.rfind(':'));
  const json manifest = Capture({address, other}, {"--duration_ms=200"});
  std::vector<std::string> outcomes;
  for (const json& worker : manifest["workers"]) outcomes.push_back(worker["outcome"]);
  EXPECT_THAT(outcomes, ::testing::UnorderedElementsAre("ok", "duplicate"));
  const size_t twin = outcomes[0] == "duplicate" ? 0 : 1;
  const json& recorded = manifest["workers"][1 - twin];
  EXPECT_EQ(manifest["workers"][twin]["same_as"], recorded["address"]);
  EXPECT_TRUE(manifest["workers"][twin]["files"].empty());
  EXPECT_EQ(manifest["events"], recorded["events"]);
}

TEST_F(NativeRunTest, AnotherTimeNamespaceIsAnotherClock) {
  const std::vector<std::string> launcher = {
      "/usr/bin/unshare", "--time", "--monotonic", "5000", "--fork", "--kill-child"};
  {
    std::vector<std::string> probe = launcher;
    probe.emplace_back("/bin/true");
    if (Subprocess(probe).Wait() != 0) GTEST_SKIP() << "no right to make a time namespace";
  }
  ClockWorker elsewhere({}, launcher);
  ClockWorker& here = StartWorker({});
  const json manifest = Capture({elsewhere.address(), here.address()}, {"--duration_ms=300"});
  ASSERT_TRUE(manifest.is_object());
  ExpectCommonStart(manifest);
  const int64_t a = AxisNs(EventsOf(manifest["workers"][0]));
  const int64_t b = AxisNs(EventsOf(manifest["workers"][1]));
  EXPECT_NEAR(static_cast<double>(a + 5'000'000'000'000), static_cast<double>(b), 1e6);
}

// Numbers of the flood's events must follow each other.
void ExpectEveryNumber(const std::vector<Event>& events) {
  std::set<int64_t> seen;
  for (const Event& event : events) {
    if (event.name == "flood") {
      EXPECT_TRUE(seen.insert(event.stats.at("sequence")).second) << "twice";
    }
  }
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(static_cast<int64_t>(seen.size()), *seen.rbegin() - *seen.begin() + 1) << "a gap";
}

TEST_F(NativeRunTest, ACutConnectionCostsNothing) {
  ClockWorker& worker = StartWorker({"--scopes_per_second=50000"});
  TcpProxy proxy(worker.address());
  const std::unique_ptr<Subprocess> capture =
      StartCapture({proxy.address()}, {"--duration_ms=3000"});
  const absl::Time limit = absl::Now() + absl::Seconds(20);
  while (proxy.bytes_back() < 500'000 && absl::Now() < limit) absl::SleepFor(absl::Milliseconds(1));
  for (int i = 0; i < 2; ++i) {
    proxy.Cut();
    ASSERT_TRUE(capture->AwaitText("connection lost")) << capture->err();
    const uint64_t before = proxy.bytes_back();
    proxy.Restore();
    while (proxy.bytes_back() < before + 200'000 && absl::Now() < limit) {
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  const json manifest = Finish(capture.get(), 0);
  ASSERT_TRUE(manifest.is_object()) << capture->err();
  const json& account = manifest["workers"][0];
  EXPECT_EQ(account["outcome"], "ok") << account;
  EXPECT_EQ(account["lost"], 0);
  EXPECT_THAT(account["warnings"].dump(), HasSubstr("connection was lost"));
  ExpectEveryNumber(EventsOf(account));
}

// Returns the worker's current step; -1: unknown.
int64_t StepOf(const std::string& address) {
  Subprocess check({CAPTURE_PROGRAM, "check", "--json", "--service_addr=" + address});
  if (check.Wait() != 0) return -1;
  return json::parse(check.out()).value("/workers/0/current_step"_json_pointer, int64_t{-1});
}

TEST_F(NativeRunTest, AKilledWorkerLeavesATruncatedTrace) {
  ClockWorker& killed = StartWorker({"--scopes_per_second=50000", "--step_ms=5"});
  ClockWorker& other = StartWorker({});
  TcpProxy proxy(killed.address());
  const std::unique_ptr<Subprocess> capture = StartCapture(
      {proxy.address(), other.address()}, {"--duration_ms=6000", "--resume_timeout_ms=500"});
  const absl::Time limit = absl::Now() + absl::Seconds(20);
  const auto await_bytes = [&](uint64_t bytes) {
    while (proxy.bytes_back() < bytes && absl::Now() < limit) absl::SleepFor(absl::Milliseconds(1));
  };
  await_bytes(500'000);
  // On a busy machine no step may have ended until here. What has been recorded comes in order.
  const int64_t recorded = StepOf(killed.address());
  while (StepOf(killed.address()) < recorded + 2 && absl::Now() < limit) {
  }
  await_bytes(proxy.bytes_back() + 200'000);
  killed.process().Signal(SIGKILL);
  const json manifest = Finish(capture.get(), 0);
  ASSERT_TRUE(manifest.is_object()) << capture->err();
  const json& account = manifest["workers"][0];
  EXPECT_EQ(account["outcome"], "truncated") << account;
  EXPECT_GT(account["events"].get<int64_t>(), 1000);
  EXPECT_FALSE(account.contains("lost")) << "nobody knows";
  const std::vector<Event> events = EventsOf(account);
  ExpectEveryNumber(events);
  const auto steps = std::count_if(events.begin(), events.end(),
                                   [](const Event& event) { return event.stats.count("_r") > 0; });
  EXPECT_GT(steps, 0);
  EXPECT_EQ(account.value("steps", 0), steps) << account;
  EXPECT_EQ(manifest["workers"][1]["outcome"], "ok");
}

// Nobody could ever answer: the table does not wait for the time that a lost connection is given.
TEST_F(NativeRunTest, AProcessOfThisMachineThatIsGoneIsNotWaitedFor) {
  ClockWorker& killed = StartWorker({"--scopes_per_second=50000"});
  TcpProxy proxy(killed.address());
  const std::unique_ptr<Subprocess> capture =
      StartCapture({proxy.address(), StartWorker({}).address()},
                   {"--duration_ms=1500", "--resume_timeout_ms=120000"});
  const absl::Time limit = absl::Now() + absl::Seconds(20);
  while (proxy.bytes_back() < 500'000 && absl::Now() < limit) absl::SleepFor(absl::Milliseconds(1));
  const absl::Time died = absl::Now();
  killed.process().Signal(SIGKILL);
  const json manifest = Finish(capture.get(), 0);
  EXPECT_LT(absl::Now() - died, absl::Seconds(60));
  ASSERT_TRUE(manifest.is_object()) << capture->err();
  const json& account = manifest["workers"][0];
  EXPECT_EQ(account["outcome"], "truncated") << account;
  EXPECT_THAT(account["reason"].get<std::string>(),
              HasSubstr(absl::StrCat("its process, pid ", killed.process().pid(), ", has ended")));
  EXPECT_EQ(manifest["workers"][1]["outcome"], "ok");
}

TEST_F(NativeRunTest, LooksBackAndDumpsAtOnce) {
  ClockWorker& worker = StartWorker({"--step_ms=5"});
  // So that there is a past of some length to look back at.
  {
    const json once = Capture({worker.address()}, {"--steps=50", "--session_id=warm"});
    ASSERT_EQ(once["workers"][0]["outcome"], "ok") << once;
  }
  json account;
  std::set<int64_t> numbers;
  // A busy machine runs fewer than 40 steps in the 200 ms.
  EXPECT_TRUE(AgainIfBusy([&] {
    const json manifest = Capture({worker.address()}, {"--lookback_ms=200", "--duration_ms=0"});
    account = manifest.is_object() ? manifest["workers"][0] : json();
    EXPECT_EQ(account["outcome"], "ok") << manifest;
    numbers.clear();
    for (const Event& event : EventsOf(account)) {
      if (const auto number = event.stats.find("step_num"); number != event.stats.end()) {
        numbers.insert(number->second);
      }
    }
    return numbers.size() >= 15;
  })) << account;
  ASSERT_FALSE(numbers.empty());
  EXPECT_EQ(static_cast<int64_t>(numbers.size()), *numbers.rbegin() - *numbers.begin() + 1);
}

// Waits until the worker records: it may not have read the client's command yet.
bool AwaitRecording(const std::string& address) {
  const absl::Time limit = absl::Now() + absl::Seconds(20);
  while (absl::Now() < limit) {
    Subprocess check({CAPTURE_PROGRAM, "check", "--json", "--service_addr=" + address});
    if (check.Wait() == 0 &&
        json::parse(check.out()).dump().find("\"state\":\"recording\"") != std::string::npos) {
      return true;
    }
  }
  return false;
}

TEST_F(NativeRunTest, StopKeepsWhatThereIs) {
  ClockWorker& worker = StartWorker({});
  const std::unique_ptr<Subprocess> capture =
      StartCapture({worker.address()}, {"--duration_ms=60000"});
  ASSERT_TRUE(AwaitRecording(worker.address())) << capture->err();
  Subprocess stop({CAPTURE_PROGRAM, "stop", "--service_addr=" + worker.address()});
  EXPECT_EQ(stop.Wait(), 0) << stop.out() << stop.err();
  const json manifest = Finish(capture.get(), 0);
  ASSERT_TRUE(manifest.is_object()) << capture->err();
  EXPECT_EQ(manifest["workers"][0]["outcome"], "truncated") << manifest;
  EXPECT_EQ(manifest["workers"][0]["ended_by"], "request");
}

// Nobody is kept from recording until the end that the killed one had planned, or kept in the dark.
TEST_F(NativeRunTest, AKilledClientIsNamedAndMayBeStopped) {
  ClockWorker& worker = StartWorker({});
  const std::unique_ptr<Subprocess> killed =
      StartCapture({worker.address()}, {"--duration_ms=3600000", "--max_duration_ms=3600000"});
  ASSERT_TRUE(AwaitRecording(worker.address())) << killed->err();
  killed->Signal(SIGKILL);
  EXPECT_EQ(killed->Wait(), 128 + SIGKILL);
  std::string reason;
  const absl::Time limit = absl::Now() + absl::Seconds(8);
  for (int i = 0; reason.find("was lost") == std::string::npos && absl::Now() < limit; ++i) {
    const std::unique_ptr<Subprocess> refused = StartCapture(
        {worker.address()},
        {"--duration_ms=10", "--num_tracing_attempts=1", absl::StrCat("--session_id=refused", i)});
    ASSERT_EQ(refused->Wait(), 4) << refused->err();
    reason = json::parse(refused->out(), nullptr, false)["workers"][0]["reason"];
  }
  EXPECT_THAT(reason, HasSubstr(" of 127.0.0.1:"));
  EXPECT_THAT(reason, HasSubstr("whose connection was lost "));
  Subprocess stop({CAPTURE_PROGRAM, "stop", "--service_addr=" + worker.address()});
  EXPECT_EQ(stop.Wait(), 0) << stop.err();
  EXPECT_THAT(stop.out(), HasSubstr("stopped; its client, 127.0.0.1:"));
  EXPECT_EQ(Capture({worker.address()}, {"--duration_ms=10", "--session_id=next"})["exit_code"], 0);
}

TEST_F(NativeRunTest, InterruptKeepsWhatThereIs) {
  ClockWorker& worker = StartWorker({});
  const std::unique_ptr<Subprocess> capture =
      StartCapture({worker.address()}, {"--duration_ms=60000"});
  ASSERT_TRUE(AwaitRecording(worker.address())) << capture->err();
  capture->Signal(SIGINT);
  const json manifest = Finish(capture.get(), 0);
  ASSERT_TRUE(manifest.is_object()) << capture->err();
  EXPECT_EQ(manifest["workers"][0]["outcome"], "truncated") << manifest;
}

TEST_F(NativeRunTest, LargeTracesEndInPartsThatAreWhole) {
  ClockWorker& worker = StartWorker({"--scopes_per_second=400000"});
  const json manifest = Capture({worker.address()}, {"--duration_ms=1500", "--part_mb=4"});
  ASSERT_TRUE(manifest.is_object());
  const json& account = manifest["workers"][0];
  EXPECT_EQ(account["outcome"], "ok") << account;
  EXPECT_GE(account["files"].size(), 2u);
  const std::vector<Event> events = EventsOf(account);
  EXPECT_EQ(events.size(), account["events"].get<size_t>());
  if (account["lost"] == 0) ExpectEveryNumber(events);
}

}  // namespace
}  // namespace jobscope
