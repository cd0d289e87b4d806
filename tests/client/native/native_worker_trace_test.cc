// SPDX-License-Identifier: Apache-2.0
//
// Tests the traces that a worker may send: large, truncated, invalid, or too large for the disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "client/native/native_worker.h"
#include "tensorflow/xplane.pb.h"
#include "tests/client/fake_native_worker.h"
#include "tests/client/native/native_fixture.h"

namespace jobscope {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using NativeWorkerTraceTest = NativeWorkerTest;

FakeItem FrameworkPlane(uint64_t number, size_t bytes) {
  tensorflow::profiler::XPlane plane;
  plane.set_name("/device:TPU:0");
  plane.add_lines()->set_name(std::string(bytes, 'x'));
  FakeItem raw{number, xspace::ItemKind::kRawPlane, ""};
  protozero::pbf_writer(raw.body).add_message(1, plane.SerializeAsString());
  return raw;
}

TEST_F(NativeWorkerTraceTest, ALargeItemPasses) {
  std::vector<FakeItem> items = MakeItems(1, 1, 10, false);
  // A framework's plane of 3 MB: its events are counted, its bytes are copied.
  items.push_back(FrameworkPlane(items.size() + 1, 3'000'000));
  items.push_back(
      {items.size() + 1, xspace::ItemKind::kSummary, MakeSummary(10).SerializeAsString()});
  FakeNativeWorker::Script script;
  script.capture = [&items](FakeCapture* capture) {
    return FakeNativeWorker::SendAll(capture, items);
  };
  FakeNativeWorker fake(script);
  Record(fake.address());
  EXPECT_TRUE(log_->AwaitEnded().ok());
  EXPECT_EQ(Write().kind, Outcome::kOk);
  EXPECT_GT(File().size(), 3'000'000u);
}

TEST_F(NativeWorkerTraceTest, WrongTotalsAreWarningsWithBothFigures) {
  std::vector<FakeItem> items = MakeItems(1, 2, 10, false);
  items.push_back(
      {items.size() + 1, xspace::ItemKind::kSummary, MakeSummary(25).SerializeAsString()});
  items.push_back({items.size() + 1, xspace::ItemKind::kLoss, v1::Loss().SerializeAsString()});
  items.back().body = std::string("\x0a\x04host", 6);
  FakeNativeWorker::Script script;
  script.capture = [&items](FakeCapture* capture) {
    FakeNativeWorker::Begin(capture);
    capture->SendItems(items);
    capture->SendEnded(99);
    capture->Hang();
    return grpc::Status::OK;
  };
  FakeNativeWorker fake(script);
  Record(fake.address());
  EXPECT_TRUE(log_->AwaitEnded().ok());
  EXPECT_EQ(Write().kind, Outcome::kOk);
  EXPECT_EQ(account_.events, 20u);
  const std::string last = std::to_string(items.size());
  EXPECT_THAT(account_.warnings, Contains("the worker counted 25 events, the file holds 20"));
  EXPECT_THAT(account_.warnings,
              Contains("the worker ended with item 99, the last one received is " + last));
  EXPECT_THAT(account_.warnings,
              Contains("the summary is item " + std::to_string(items.size() - 1) +
                       ", but the last item is " + last));
}

TEST_F(NativeWorkerTraceTest, AnEndWithoutItemsIsAFailure) {
  FakeNativeWorker::Script script;
  script.capture = [](FakeCapture* capture) {
    FakeNativeWorker::Begin(capture);
    capture->SendEnded(0);
    capture->Hang();
    return grpc::Status::OK;
  };
  FakeNativeWorker fake(script);
  Record(fake.address());
  EXPECT_TRUE(log_->AwaitEnded().ok());
  const WorkerOutcome outcome = Write();
  EXPECT_EQ(outcome.kind, Outcome::kFailed);
  EXPECT_EQ(outcome.phase, Phase::kTransfer);
}

TEST_F(NativeWorkerTraceTest, AnEndWithoutASummaryIsTruncated) {
  const std::vector<FakeItem> items = MakeItems(1, 2, 10, false);
  FakeNativeWorker::Script script;
  script.capture = [&items](FakeCapture* capture) {
    return FakeNativeWorker::SendAll(capture, items);
  };
  FakeNativeWorker fake(script);
  Record(fake.address());
  EXPECT_TRUE(log_->AwaitEnded().ok());
  const WorkerOutcome outcome = Write();
  EXPECT_EQ(outcome.kind, Outcome::kTruncated);
  EXPECT_THAT(outcome.reason, HasSubstr("without a summary"));
  EXPECT_EQ(account_.events, 20u);
  EXPECT_FALSE(account_.lost.has_value());
}

// Any prefix of the items is a trace.
TEST_F(NativeWorkerTraceTest, WhatPrecedesAnUnreadableItemIsTheTrace) {
  std::vector<FakeItem> items = MakeItems(1, 10, 10);
  FakeItem& bad = items[items.size() - 4];  // the eighth segment
  ASSERT_EQ(bad.kind, xspace::ItemKind::kEvents);
  bad.body += "\x08\x4d";  // of plane 77, which nobody has named
  FakeNativeWorker::Script script;
  script.capture = [&items](FakeCapture* capture) {
    return FakeNativeWorker::SendAll(capture, items);
  };
  FakeNativeWorker fake(script);
  Record(fake.address());
  EXPECT_TRUE(log_->AwaitEnded().ok());
  const WorkerOutcome outcome = Write();
  EXPECT_EQ(outcome.kind, Outcome::kTruncated);
  EXPECT_EQ(outcome.phase, Phase::kTransfer);
  EXPECT_THAT(outcome.reason, HasSubstr(absl::StrCat("item ", bad.number, " (events): unknown")));
  // What came, and what was left out of it, is all that the worker counted.
  EXPECT_EQ(account_.events, 70u);
  EXPECT_EQ(account_.lost, 30u);
  EXPECT_EQ(account_.lost_by_cause["unreadable"], 30u);
  tensorflow::profiler::XSpace space;
  ASSERT_TRUE(space.ParseFromString(File()));
  EXPECT_THAT(space.warnings(), Contains(HasSubstr("the trace ends early: item ")));
}

TEST_F(NativeWorkerTraceTest, ItemsOfUnknownKindsAreLeftOut) {
  std::vector<FakeItem> items = MakeItems(1, 4, 10);
  for (const size_t at : {size_t{0}, size_t{5}}) {
    items.insert(items.begin() + static_cast<ptrdiff_t>(at),
                 {0, static_cast<xspace::ItemKind>(63), std::string(5'000, 'x')});
  }
  for (size_t i = 0; i < items.size(); ++i) items[i].number = i + 1;
  options_.max_trace_bytes = 5'000;  // they are not of the trace
  FakeNativeWorker::Script script;
  script.capture = [&items](FakeCapture* capture) {
    return FakeNativeWorker::SendAll(capture, items);
  };
  FakeNativeWorker fake(script);
  Record(fake.address());
  EXPECT_TRUE(log_->AwaitEnded().ok());
  const WorkerOutcome outcome = Write();
  EXPECT_EQ(outcome.kind, Outcome::kOk) << outcome.reason;
  EXPECT_EQ(account_.events, 40u);
  EXPECT_THAT(account_.warnings,
              Contains(HasSubstr("2 items of kinds unknown to this program (63) were left out")));
}

std::string LongEvents() { return "\x08\x01\x7a\xa0\x1f" + std::string(4'000, 'x'); }

// A broken or hostile worker that sends items other than events without end. The client ends the
// capture of that worker; the items before become its trace.
class FloodOfTest : public NativeWorkerTest, public ::testing::WithParamInterface<FakeItem> {};

TEST_P(FloodOfTest, OthersThanEventsIsCutOff) {
  options_.receive_limits.other_bytes = 1 << 20;
  options_.receive_limits.index_bytes = 8 << 20;
  options_.receive_limits.left_out_bytes = 100'000;
  // Left out from then on.
  if (GetParam().body == LongEvents()) options_.max_trace_bytes = 50'000;
  const std::vector<FakeItem> items = MakeItems(1, 10, 10, false);
  bool abandon = false;
  absl::Notification finished;
  FakeNativeWorker::Script script;
  script.capture = [&](FakeCapture* capture) {
    FakeNativeWorker::Begin(capture);
    capture->SendItems(items);
    // Beside the flood: the client waits for a second only, and a busy machine may take longer for
    // the flood.
    std::thread reader([&] {
      while (!abandon && capture->AwaitFinish(&abandon)) {
      }
    });
    std::vector<FakeItem> flood(500, GetParam());
    uint64_t number = items.size();
    size_t bytes = 0;
    // Far more of either than is taken.
    while (bytes < 20'000'000 && number < 60'000) {
      for (FakeItem& item : flood) item.number = ++number;
      const std::string message = ItemsMessage(flood);
      bytes += message.size();
      if (!capture->SendRaw(message)) break;
    }
    reader.join();
    finished.Notify();
    return grpc::Status::OK;
  };
  FakeNativeWorker fake(script);
  Record(fake.address(), absl::Seconds(60));
  EXPECT_EQ(log_->AwaitEnded().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  const WorkerOutcome outcome = Write();
  EXPECT_EQ(outcome.kind, Outcome::kTruncated);
  EXPECT_THAT(outcome.reason, HasSubstr("the worker sent more than"));
  EXPECT_EQ(account_.events, 100u);
  EXPECT_LT(File().size(), 2'000'000u);
  finished.WaitForNotification();
  EXPECT_TRUE(abandon);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, FloodOfTest,
    ::testing::Values(FakeItem{0, xspace::ItemKind::kLoss, std::string(2'000, '\0')},
                      FakeItem{0, xspace::ItemKind::kLoss, "x"},
                      FakeItem{0, xspace::ItemKind::kClock, std::string("\x08\x01")},
                      FakeItem{0, xspace::ItemKind::kLine, std::string("\x08\x01\x1a\x01l")},
                      FakeItem{0, xspace::ItemKind::kEvents, std::string("\x08\x01")},
                      FakeItem{0, xspace::ItemKind::kEvents, LongEvents()},
                      FakeItem{0, xspace::ItemKind::kClock, ""}));

TEST_F(NativeWorkerTraceTest, TheLimitOfATraceCountsWhatIsNoEvent) {
  options_.max_trace_bytes = 100'000;
  options_.receive_limits.tail_bytes = 50'000;
  const std::vector<FakeItem> items = MakeItems(1, 10, 10, false);
  FakeNativeWorker::Script script;
  script.capture = [&](FakeCapture* capture) {
    FakeNativeWorker::Begin(capture);
    capture->SendItems(items);
    uint64_t number = items.size();
    while (number < 10'000) {
      const FakeItem line{++number, xspace::ItemKind::kLine,
                          "\x08\x01\x1a\x64" + std::string(100, 'l')};
      if (!capture->SendRaw(ItemsMessage({line}))) break;
    }
    return grpc::Status::OK;
  };
  FakeNativeWorker fake(script);
  Record(fake.address(), absl::Seconds(60));
  EXPECT_EQ(log_->AwaitEnded().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(log_->AwaitNote("--max_trace_mb"));
  const WorkerOutcome outcome = Write();
  EXPECT_EQ(outcome.kind, Outcome::kTruncated);
  EXPECT_THAT(outcome.reason, HasSubstr("--max_trace_mb"));
  EXPECT_LT(File().size(), 200'000u);
}

TEST_F(NativeWorkerTraceTest, ItemsThatMakeNoTraceAreAFailureThatNamesTheItem) {
  std::vector<FakeItem> items = MakeItems(1, 2, 10);
  // Nobody has named this plane.
  items.erase(items.begin());
  for (size_t i = 0; i < items.size(); ++i) items[i].number = i + 1;
  FakeNativeWorker::Script script;
  script.capture = [&items](FakeCapture* capture) {
    return FakeNativeWorker::SendAll(capture, items);
  };
  FakeNativeWorker fake(script);
  Record(fake.address());
  EXPECT_TRUE(log_->AwaitEnded().ok());
  const WorkerOutcome outcome = Write();
  EXPECT_EQ(outcome.kind, Outcome::kFailed);
  EXPECT_EQ(outcome.phase, Phase::kTransfer);
  EXPECT_THAT(outcome.reason, HasSubstr("item 1"));
  EXPECT_THAT(List(run_->path()), IsEmpty());
}

TEST_F(NativeWorkerTraceTest, AnItemWithoutContentIsLeftOut) {
  std::vector<FakeItem> items = MakeItems(1, 3, 10);
  for (FakeItem& item : items) {
    if (item.kind != xspace::ItemKind::kEvents) continue;
    item.body.clear();
    break;
  }
  FakeNativeWorker::Script script;
  script.capture = [&items](FakeCapture* capture) {
    return FakeNativeWorker::SendAll(capture, items);
  };
  FakeNativeWorker fake(script);
  Record(fake.address());
  EXPECT_TRUE(log_->AwaitEnded().ok());
  EXPECT_EQ(Write().kind, Outcome::kOk);
  EXPECT_EQ(account_.events, 20u);
  EXPECT_THAT(account_.warnings, Contains(HasSubstr("1 items came without their content")));
}

TEST_F(NativeWorkerTraceTest, ALargeTraceComesInParts) {
  options_.part_limit_bytes = 64 << 10;
  const std::vector<FakeItem> items = MakeItems(4, 10, 400);
  FakeNativeWorker::Script script;
  script.capture = [&items](FakeCapture* capture) {
    return FakeNativeWorker::SendAll(capture, items);
  };
  FakeNativeWorker fake(script);
  Record(fake.address());
  EXPECT_TRUE(log_->AwaitEnded().ok());
  EXPECT_EQ(Write().kind, Outcome::kOk);
  ASSERT_GE(account_.files.size(), 3u);
  EXPECT_EQ(account_.files[1].path, "../run.part2/worker.xplane.pb");
  uint64_t events = 0;
  for (size_t i = 0; i < account_.files.size(); ++i) {
    const std::string file = File(static_cast<int>(i) + 1);
    EXPECT_LE(file.size(), 64u << 10);
    EXPECT_EQ(file.size(), account_.files[i].bytes);
    tensorflow::profiler::XSpace space;
    EXPECT_TRUE(space.ParseFromString(file));
    events += *account_.files[i].events;
  }
  EXPECT_EQ(events, 16'000u);
  EXPECT_EQ(account_.events, 16'000u);
}

TEST_F(NativeWorkerTraceTest, ATraceAtItsLimitEndsTheRecording) {
  options_.max_trace_bytes = 20'000;
  const std::vector<FakeItem> items = MakeItems(1, 10, 500, false);
  bool abandon = true;
  FakeNativeWorker::Script script;
  script.capture = [&items, &abandon](FakeCapture* capture) {
    FakeNativeWorker::Begin(capture);
    capture->SendItems(items, 0, items.size() - 3);
    EXPECT_TRUE(capture->AwaitFinish(&abandon));
    // What was recorded until then still comes.
    capture->SendItems(items, items.size() - 3);
    v1::Summary summary = MakeSummary(5000, 7);
    summary.set_truncated(true);
    summary.set_ended_by("request");
    const uint64_t last = items.size() + 2;
    capture->SendRaw(
        ItemsMessage({FrameworkPlane(last - 1, 1000),
                      {last, xspace::ItemKind::kSummary, summary.SerializeAsString()}}));
    capture->SendEnded(last);
    capture->AwaitAck(last);
    return grpc::Status::OK;
  };
  FakeNativeWorker fake(script);
  Record(fake.address());
  EXPECT_TRUE(log_->AwaitEnded().ok());
  EXPECT_FALSE(abandon);
  EXPECT_TRUE(log_->AwaitNote("--max_trace_mb"));
  const WorkerOutcome outcome = Write();
  EXPECT_EQ(outcome.kind, Outcome::kTruncated);
  EXPECT_THAT(outcome.reason, HasSubstr("--max_trace_mb"));
  EXPECT_LE(File().size(), 22'000u);
  // Attempted = in the trace + lost still holds.
  ASSERT_TRUE(account_.events.has_value() && account_.lost.has_value());
  EXPECT_EQ(*account_.events + *account_.lost, 5007u);
  EXPECT_GT(*account_.events, 0u);
  EXPECT_EQ(account_.lost_by_cause["max_trace"], *account_.lost - 7);
  tensorflow::profiler::XSpace space;
  ASSERT_TRUE(space.ParseFromString(File()));
  EXPECT_THAT(space.warnings(), Contains(HasSubstr(" events and 1 planes of frameworks")));
}

TEST_F(NativeWorkerTraceTest, ADiskThatFailsIsAFailedWriteAndStopsTheWorker) {
  options_.spool_directory = run_->path() + "/gone";
  // More than stays in memory.
  const std::vector<FakeItem> items = MakeItems(1, 10, 20'000);
  bool abandon = false;
  FakeNativeWorker::Script script;
  script.capture = [&items, &abandon](FakeCapture* capture) {
    FakeNativeWorker::Begin(capture);
    capture->SendItems(items, 0, items.size() - 1);
    capture->AwaitFinish(&abandon);
    return grpc::Status::OK;
  };
  FakeNativeWorker fake(script);
  Record(fake.address());
  EXPECT_TRUE(log_->AwaitEnded().ok());
  const WorkerOutcome outcome = Write();
  EXPECT_EQ(outcome.kind, Outcome::kFailed);
  EXPECT_EQ(outcome.phase, Phase::kWrite);
  EXPECT_THAT(outcome.reason, HasSubstr(run_->path() + "/gone: No such file or directory"));
  worker_.reset();
  EXPECT_THAT(List(run_->path()), IsEmpty());
}

}  // namespace
}  // namespace jobscope
