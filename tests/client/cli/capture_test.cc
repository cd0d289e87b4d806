// SPDX-License-Identifier: Apache-2.0
//
// Tests the real program against workers of every kind: exit codes, outcomes, files, output.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/client/cli/capture_fixture.h"

namespace jobscope {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(CaptureTest, AllDeliver) {
  FakeWorker native({});
  FakeWorker::Behavior stock_behavior;
  stock_behavior.native = false;
  FakeWorker stock(stock_behavior);
  const json manifest = Capture(native.address() + ",grpc://" + stock.address(), 0);
  EXPECT_EQ(manifest["run"], "r");
  EXPECT_EQ(manifest["run_directory"], run());
  EXPECT_EQ(manifest["events"], 20);
  EXPECT_EQ(manifest["lost"], 0);
  EXPECT_EQ(manifest["start_spread_ns"], 0);
  const json& ours = manifest["workers"][0];
  EXPECT_EQ(ours["outcome"], "ok");
  EXPECT_EQ(ours["phase"], "done");
  EXPECT_EQ(ours["rank"], 3);
  EXPECT_EQ(ours["name"], Stem(native.address()));
  const json& theirs = manifest["workers"][1];
  EXPECT_EQ(theirs["outcome"], "ok");
  EXPECT_EQ(theirs["protocol"], "tensorflow");
  EXPECT_EQ(theirs["aligned"], false);
  EXPECT_FALSE(theirs.contains("lost"));
  std::vector<std::string> expected = {Stem(native.address()) + ".xplane.pb",
                                       Stem(stock.address()) + ".xplane.pb", "capture.json"};
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(List(run()), expected);
  // The request is one that both kinds understand, and both start at one instant.
  const tensorflow::ProfileRequest a = native.requests()[0];
  const tensorflow::ProfileRequest b = stock.requests()[0];
  EXPECT_TRUE(a.emit_xspace());
  EXPECT_EQ(a.opts().version(), 1u);
  EXPECT_EQ(a.opts().duration_ms(), 100u);
  EXPECT_EQ(a.session_id(), "r");
  EXPECT_EQ(a.host_name(), Stem(native.address()));
  // A worker whose clock is behind would sleep until it shows the instant.
  EXPECT_EQ(a.opts().start_timestamp_ns(), 0u);
  EXPECT_EQ(b.opts().start_timestamp_ns(), 0u);
  // The name inside of the file is that of the file.
  tensorflow::profiler::XSpace space;
  ASSERT_TRUE(space.ParseFromString(ReadAll(run() + "/" + Stem(native.address()) + ".xplane.pb")));
  EXPECT_EQ(space.hostnames(0), Stem(native.address()));
  EXPECT_THAT(List(logdir_.path())[0], HasSubstr(".profile-empty"));
}

// Nobody has to tell it when: it is asked when the time has come.
TEST_F(CaptureTest, StockWorkersAreAskedAtTheInstant) {
  FakeWorker::Behavior stock;
  stock.native = false;
  FakeWorker worker(stock);
  const absl::Time before = absl::Now();
  const json manifest = Capture(worker.address(), 0, {"--delay_ms=1500"});
  ASSERT_TRUE(worker.AwaitRequests(1));
  EXPECT_GE(worker.first_request(), before + absl::Milliseconds(1500));
  EXPECT_GE(absl::FromUnixNanos(manifest["started_unix_ns"].get<int64_t>()),
            before + absl::Milliseconds(1500));
}

TEST_F(CaptureTest, EachTroubleIsCalledByItsName) {
  FakeWorker ok({});
  FakeWorker::Behavior behavior;
  behavior.busy.emplace();
  behavior.busy->set_session_id("somebody");
  behavior.busy->set_remaining_ms(10);
  FakeWorker busy(behavior);
  behavior = {};
  behavior.answer = [](const tensorflow::ProfileRequest&, bool) {
    tensorflow::ProfileResponse response;
    response.set_empty_trace(true);
    return FakeWorker::Answer{grpc::Status::OK, response.SerializeAsString()};
  };
  FakeWorker empty(behavior);
  behavior.answer = [](const tensorflow::ProfileRequest&, bool) {
    return FakeWorker::Answer{grpc::Status::OK, ""};
  };
  FakeWorker writes_itself(behavior);
  behavior.answer = [](const tensorflow::ProfileRequest&, bool) {
    return FakeWorker::Answer{grpc::Status::OK, std::string(5000, '\xff')};
  };
  FakeWorker garbage(behavior);
  behavior = {};
  behavior.max_duration_ms = 50;
  FakeWorker refuses(behavior);
  behavior = {};
  behavior.waits = false;
  behavior.answer = [](const tensorflow::ProfileRequest&, bool) {
    return FakeWorker::Answer{grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "not you"), ""};
  };
  FakeWorker denies(behavior);
  const Socket refused(false);
  const Socket mute(true);
  const std::vector<std::pair<std::string, std::vector<std::string>>> expected = {
      {ok.address(), {"ok", "done", ""}},
      {busy.address(), {"busy", "describe", "somebody"}},
      {empty.address(), {"empty", "done", "recorded nothing"}},
      {writes_itself.address(), {"failed", "transfer", "on its own disk"}},
      {garbage.address(), {"failed", "transfer", "not a ProfileResponse"}},
      {refuses.address(), {"refused", "describe", "at most 50 ms"}},
      {denies.address(), {"refused", "arm", "not you"}},
      {refused.address(), {"unreachable", "connect", "Connection refused"}},
      {mute.address(), {"timeout", "connect", "no answer to the connection"}},
  };
  std::string addresses;
  for (const auto& [address, ignored] : expected) {
    absl::StrAppend(&addresses, addresses.empty() ? "" : ",", address);
  }
  const json manifest = Capture(addresses, 3, {"--connect_timeout_ms=10000"});
  for (size_t i = 0; i < expected.size(); ++i) {
    const json& worker = manifest["workers"][i];
    EXPECT_EQ(worker["address"], expected[i].first);
    EXPECT_EQ(worker["outcome"], expected[i].second[0]) << worker;
    EXPECT_EQ(worker["phase"], expected[i].second[1]) << worker;
    EXPECT_THAT(worker.value("reason", ""), HasSubstr(expected[i].second[2]));
  }
  EXPECT_EQ(manifest["events"], 10);
  EXPECT_THAT(List(run()), ElementsAre(Stem(ok.address()) + ".xplane.pb", "capture.json"));
}

TEST_F(CaptureTest, NobodyDelivers) {
  const Socket refused(false);
  const json manifest = Capture(refused.address(), 4, {"--num_tracing_attempts=2"});
  EXPECT_EQ(manifest["workers"][0]["attempts"], 2);
  EXPECT_FALSE(manifest.contains("events"));
  EXPECT_FALSE(manifest.contains("started_unix_ns"));
}

TEST_F(CaptureTest, AWorkerThatComesUpLateIsCaptured) {
  // The port is known, nobody listens yet.
  const Socket reserved(false);
  const std::string address = reserved.address();
  const std::unique_ptr<Subprocess> capture =
      StartCapture(address, {"--duration_ms=50", "--num_tracing_attempts=20"});
  ASSERT_TRUE(capture->AwaitText("connecting"));
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  class Late : public tensorflow::ProfilerService::Service {
    grpc::Status Profile(grpc::ServerContext*, const tensorflow::ProfileRequest* request,
                         tensorflow::ProfileResponse* response) override {
      *response->mutable_xspace() = MakeTrace(1, request->host_name());
      return grpc::Status::OK;
    }
  } service;
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  EXPECT_EQ(capture->Wait(), 0) << capture->err();
  EXPECT_THAT(List(run()), ElementsAre(Stem(address) + ".xplane.pb", "capture.json"));
}

TEST_F(CaptureTest, MoreMinWorkersThanAddressesIsAUsageError) {
  const std::unique_ptr<Subprocess> capture = StartCapture("h:1", {"--min_workers=2"});
  EXPECT_EQ(capture->Wait(), 2) << capture->err();
  EXPECT_THAT(capture->err(), HasSubstr("--min_workers=2"));
}

TEST_F(CaptureTest, FewerThanMinWorkersRecordsNothing) {
  FakeWorker worker({});
  const Socket refused(false);
  const json manifest = Capture(worker.address() + "," + refused.address(), 4, {"--min_workers=2"});
  EXPECT_THAT(worker.requests(), IsEmpty());
  EXPECT_EQ(manifest["workers"][0]["phase"], "arm");
}

TEST_F(CaptureTest, TheTableIsForPeople) {
  FakeWorker worker({});
  const Socket refused(false);
  const std::unique_ptr<Subprocess> capture =
      StartCapture(worker.address() + "," + refused.address(), {"--duration_ms=50"});
  EXPECT_EQ(capture->Wait(), 3) << capture->err();
  const std::string out = capture->out();
  EXPECT_THAT(out, HasSubstr("WORKER"));
  EXPECT_THAT(out, HasSubstr("unreachable  connect"));
  EXPECT_THAT(out, HasSubstr("1 of 2 workers delivered: 10 events, 0 lost"));
  EXPECT_THAT(out, HasSubstr(run()));
  // No terminal: no escape sequence.
  EXPECT_THAT(out + capture->err(), Not(HasSubstr("\x1b")));
  EXPECT_THAT(capture->err(), HasSubstr("recording 1 of 2 workers\n"));
}

TEST_F(CaptureTest, WhatAFallbackSwitchesOffIsSaidOnce) {
  FakeWorker one({});
  FakeWorker two({});
  const auto table_of = [&](const std::string& flag) {
    const std::unique_ptr<Subprocess> capture =
        Start({"--service_addr=" + one.address() + "," + two.address(),
               "--logdir=" + logdir_.path(), "--duration_ms=50", flag});
    EXPECT_EQ(capture->Wait(), 0) << capture->err();
    return capture->out();
  };
  const std::string steps = table_of("--steps=3");
  EXPECT_THAT(steps, HasSubstr(absl::StrCat("warning of ", one.address(),
                                            " and 1 more: does not speak the native protocol: ")));
  EXPECT_THAT(steps, HasSubstr("it cannot record --steps (recorded for --duration_ms=50)"));
  EXPECT_THAT(table_of("--lookback_ms=1000"), HasSubstr("has no --lookback_ms"));
}

TEST_F(CaptureTest, ProtocolNativeIsRefusedWithAReason) {
  FakeWorker worker({});
  const json manifest = Capture(worker.address(), 4, {"--protocol=native"});
  EXPECT_EQ(manifest["workers"][0]["outcome"], "refused");
  EXPECT_EQ(manifest["workers"][0]["phase"], "describe");
  EXPECT_THAT(worker.requests(), IsEmpty());
}

TEST_F(CaptureTest, ASampleNamesTheOthers) {
  FakeWorker one({});
  FakeWorker two({});
  const json manifest = Capture(one.address() + "," + two.address(), 0, {"--sample=1"});
  EXPECT_EQ(manifest["workers"].size(), 1u);
  EXPECT_EQ(manifest["not_sampled"], json({two.address()}));
  EXPECT_EQ(manifest["options"]["sample"], 1);
  EXPECT_THAT(two.requests(), IsEmpty());
}

TEST_F(CaptureTest, QuietIsQuiet) {
  FakeWorker worker({});
  const std::unique_ptr<Subprocess> capture =
      StartCapture(worker.address(), {"--duration_ms=50", "--quiet"});
  EXPECT_EQ(capture->Wait(), 0) << capture->err();
  EXPECT_THAT(capture->err(), IsEmpty());
}

TEST_F(CaptureTest, AReaderThatHasGoneDoesNotEndACapture) {
  FakeWorker worker({});
  const std::string command = absl::StrCat(
      "( ", CAPTURE_PROGRAM, " --service_addr=", worker.address(), " --logdir=", logdir_.path(),
      " --session_id=r --duration_ms=50; echo $? >", logdir_.path(), "/rc ) 2>&1 | true");
  Subprocess shell({"/bin/sh", "-c", command});
  shell.Wait();
  EXPECT_EQ(ReadAll(logdir_.path() + "/rc"), "0\n");
  EXPECT_EQ(List(run()).size(), 2u);
}

TEST_F(CaptureTest, CheckSaysWhoIsThere) {
  FakeWorker::Behavior behavior;
  behavior.streams = true;
  FakeWorker native(behavior);
  behavior = {};
  behavior.native = false;
  FakeWorker stock(behavior);
  behavior = {};
  behavior.busy.emplace();
  behavior.busy->set_session_id("s1");
  behavior.busy->set_state("recording");
  behavior.busy->set_peer("10.0.0.7");
  behavior.busy->set_waiting(2);
  FakeWorker busy(behavior);
  const Socket refused(false);
  const std::string addresses = absl::StrCat(native.address(), ",", stock.address(), ",",
                                             busy.address(), ",", refused.address());
  const std::unique_ptr<Subprocess> check =
      Start({"check", "--service_addr=" + addresses, "--json"});
  EXPECT_EQ(check->Wait(), 3);
  const json manifest = json::parse(check->out());
  EXPECT_EQ(manifest["verb"], "check");
  EXPECT_EQ(manifest["workers"][0]["protocol"], "native");
  EXPECT_EQ(manifest["workers"][0]["pid"], 4711);
  EXPECT_EQ(manifest["workers"][0]["collectors"][0]["state"], "on");
  EXPECT_FALSE(manifest["workers"][0].contains("busy"));
  EXPECT_EQ(manifest["workers"][1]["protocol"], "tensorflow");
  EXPECT_EQ(manifest["workers"][1]["outcome"], "ok");
  EXPECT_EQ(manifest["workers"][2]["busy"]["session_id"], "s1");
  EXPECT_EQ(manifest["workers"][3]["outcome"], "unreachable");
  const std::unique_ptr<Subprocess> table = Start({"check", "--service_addr=" + addresses});
  EXPECT_EQ(table->Wait(), 3);
  EXPECT_THAT(table->out(), HasSubstr("3 of 4 workers reachable"));
  EXPECT_THAT(table->out(), HasSubstr("recording s1 of 10.0.0.7, 2 waiting"));
  EXPECT_THAT(native.requests(), IsEmpty());
}

TEST_F(CaptureTest, StopEndsSomebodyElsesCapture) {
  FakeWorker::Behavior behavior;
  behavior.native = false;
  FakeWorker stock(behavior);
  FakeWorker native({});
  const std::string addresses = native.address() + "," + stock.address();
  const std::unique_ptr<Subprocess> capture =
      StartCapture(addresses, {"--duration_ms=60000", "--protocol=tensorflow", "--json"});
  ASSERT_TRUE(native.AwaitRequests(1));
  ASSERT_TRUE(stock.AwaitRequests(1));
  const std::unique_ptr<Subprocess> unnamed = Start({"stop", "--service_addr=" + stock.address()});
  EXPECT_EQ(unnamed->Wait(), 4);
  EXPECT_THAT(unnamed->out(), HasSubstr("give --session_id"));
  const std::unique_ptr<Subprocess> stop =
      Start({"stop", "--service_addr=" + addresses, "--session_id=r"});
  EXPECT_EQ(stop->Wait(), 0) << stop->out();
  EXPECT_EQ(capture->Wait(), 0) << capture->err();
  const json manifest = json::parse(capture->out());
  EXPECT_EQ(manifest["workers"][0]["outcome"], "truncated");
  const std::unique_ptr<Subprocess> again = Start({"stop", "--service_addr=" + native.address()});
  EXPECT_EQ(again->Wait(), 0);
  EXPECT_THAT(again->out(), HasSubstr("nothing was recording"));
}

// Another user's program may take the port between the two requests to a stock worker.
TEST_F(CaptureTest, StopExplainsWhyTheSecondRequestFailed) {
  FakeWorker::Behavior behavior;
  behavior.native = false;
  // As gRPC words it when the client does not send its token.
  behavior.terminate = {
      grpc::StatusCode::UNAVAILABLE,
      "Getting metadata from plugin failed with error: the token was not sent: x"};
  FakeWorker stock(behavior);
  const std::unique_ptr<Subprocess> stop =
      Start({"stop", "--service_addr=" + stock.address(), "--session_id=r", "--json"});
  EXPECT_EQ(stop->Wait(), 4);
  const json worker = json::parse(stop->out())["workers"][0];
  EXPECT_EQ(worker["outcome"], "refused");
  EXPECT_EQ(worker["reason"], "the token was not sent: x");
}

}  // namespace
}  // namespace jobscope
