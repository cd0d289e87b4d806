// SPDX-License-Identifier: Apache-2.0
//
// The parts of the native service that need no socket: items as messages, step states, the count of
// open calls, requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "server/limits.h"
#include "server/native/item_ledger.h"
#include "server/native/item_message.h"
#include "server/native/item_writer.h"
#include "server/native/native_capture.h"
#include "server/native/transfer_watch.h"
#include "server/rpc/call_registry.h"
#include "server/rpc/raw_message.h"
#include "server/rpc/request_validation.h"

namespace jobscope {
namespace {

using ::testing::HasSubstr;

std::vector<xspace::HeldItem> Read(const xspace::Store& store) {
  return store.Read(1, std::numeric_limits<size_t>::max());
}

v1::CaptureResponse Parse(const grpc::ByteBuffer& bytes) {
  v1::CaptureResponse response;
  EXPECT_TRUE(ParseRequest(bytes, &response).ok());
  return response;
}

// Every kind, around the sizes at which a length takes one byte more and at which bodies are
// referred to.
TEST(ItemMessageTest, IsWhatProtobufWouldWrite) {
  xspace::Store store(16 << 20);
  v1::CaptureResponse expected;
  const size_t sizes[] = {0, 1, 100, 127, 128, 2047, 2048, 16'383, 16'384, 65'536, 2'097'152};
  for (const size_t size : sizes) {
    v1::RawPlane raw;
    raw.mutable_plane()->assign(size, static_cast<char>(size));
    ASSERT_TRUE(store.Append(xspace::ItemKind::kRawPlane, raw.SerializeAsString()));
    *expected.mutable_items()->add_items()->mutable_raw_plane() = raw;
    v1::Events events;
    events.set_count(static_cast<uint32_t>(size));
    ASSERT_TRUE(store.Append(xspace::ItemKind::kEvents, events.SerializeAsString()));
    *expected.mutable_items()->add_items()->mutable_events() = events;
  }
  v1::Summary summary;
  summary.set_session_id("s");
  ASSERT_TRUE(store.Append(xspace::ItemKind::kSummary, summary.SerializeAsString()));
  *expected.mutable_items()->add_items()->mutable_summary() = summary;
  for (int i = 0; i < expected.items().items_size(); ++i) {
    expected.mutable_items()->mutable_items(i)->set_number(static_cast<uint64_t>(i) + 1);
  }
  const ItemMessage message = EncodeItems(Read(store), limits::kMaxItemBytes);
  EXPECT_EQ(message.left_out, 0U);
  EXPECT_EQ(Parse(message.bytes).SerializeAsString(), expected.SerializeAsString());
  EXPECT_EQ(message.bytes.Length(), expected.ByteSizeLong());
}

TEST(ItemMessageTest, OutlivesTheStore) {
  auto store = std::make_unique<xspace::Store>(4 << 20);
  v1::RawPlane raw;
  raw.mutable_plane()->assign(100'000, 'x');
  ASSERT_TRUE(store->Append(xspace::ItemKind::kRawPlane, raw.SerializeAsString()));
  const ItemMessage message = EncodeItems(Read(*store), limits::kMaxItemBytes);
  store->Release(1);
  store.reset();
  EXPECT_EQ(Parse(message.bytes).items().items(0).raw_plane().plane(), raw.plane());
}

TEST(ItemMessageTest, WhatIsTooLargeKeepsItsNumber) {
  xspace::Store store(4 << 20);
  ASSERT_TRUE(store.Append(xspace::ItemKind::kRawPlane, std::string(1'000, '\0')));
  ASSERT_TRUE(store.Append(xspace::ItemKind::kEvents, {}));
  const ItemMessage message = EncodeItems(Read(store), 999);
  EXPECT_EQ(message.left_out, 1U);
  const v1::CaptureResponse response = Parse(message.bytes);
  ASSERT_EQ(response.items().items_size(), 2);
  EXPECT_EQ(response.items().items(0).number(), 1U);
  EXPECT_TRUE(response.items().items(0).has_raw_plane());
  EXPECT_EQ(response.items().items(1).number(), 2U);
}

std::string Body(size_t bytes) {
  v1::RawPlane raw;
  raw.mutable_plane()->assign(bytes, 'x');
  return raw.SerializeAsString();
}

TEST(ItemWriterTest, WritesALargeItemInChunksIfTheClientAcceptsThem) {
  xspace::Store store(4 << 20);
  const std::string large = Body(limits::kMaxMessageItemBytes);
  ASSERT_TRUE(store.Append(xspace::ItemKind::kRawPlane, large));
  ASSERT_TRUE(store.Append(xspace::ItemKind::kRawPlane, Body(1)));
  ItemWriter writer(/*chunks=*/true);
  std::string body;
  uint64_t bytes = 0;
  while (writer.next() == 1) {
    grpc::ByteBuffer message;
    writer.Write(Read(store), &message);
    const v1::CaptureResponse response = Parse(message);
    EXPECT_EQ(response.chunk().offset(), body.size());
    ASSERT_FALSE(response.chunk().data().empty());
    body += response.chunk().data();
    bytes += message.Length();
  }
  EXPECT_EQ(body, large);
  EXPECT_EQ(writer.items(), 1u);
  grpc::ByteBuffer message;
  writer.Write(store.Read(2, 1), &message);
  EXPECT_EQ(Parse(message).items().items(0).number(), 2u);
  EXPECT_EQ(writer.next(), 3u);
  EXPECT_EQ(writer.items(), 2u);
  EXPECT_EQ(writer.bytes(), bytes + message.Length());

  ItemWriter whole;
  whole.Write(Read(store), &message);
  EXPECT_EQ(Parse(message).items().items_size(), 2);
  EXPECT_EQ(whole.next(), 3u);
}

TEST(ItemWriterTest, ResumesInsideOfAnItemUnlessItEndsBefore) {
  xspace::Store store(4 << 20);
  const std::string large = Body(limits::kMaxMessageItemBytes);
  ASSERT_TRUE(store.Append(xspace::ItemKind::kRawPlane, large));
  for (const uint64_t offset : {uint64_t{0}, uint64_t{5}, uint64_t{large.size()}}) {
    ItemWriter writer(/*chunks=*/true, /*first=*/1, offset);
    grpc::ByteBuffer message;
    writer.Write(Read(store), &message);
    EXPECT_EQ(Parse(message).chunk().offset(), offset == large.size() ? 0 : offset);
    EXPECT_EQ(writer.next(), offset == 5 ? 2u : 1u) << "the rest fits in one chunk";
  }
}

TEST(TransferWatchTest, CountsFromTheLastNewsAndFromTheEndOfTheRecording) {
  TransferWatch watch(/*acknowledged=*/3);
  watch.OnSent(100);
  EXPECT_EQ(watch.Stalled(150), absl::Nanoseconds(50));
  watch.OnOver(200);
  watch.OnOver(250);
  EXPECT_EQ(watch.Stalled(300), absl::Nanoseconds(100));
  watch.OnAcknowledged(3, 400);  // which is known
  EXPECT_EQ(watch.Stalled(500), absl::Nanoseconds(300));
  EXPECT_EQ(watch.Silent(500), absl::Nanoseconds(100));
  watch.OnAcknowledged(4, 600);
  EXPECT_EQ(watch.Stalled(600), absl::ZeroDuration());
}

TEST(ItemLedgerTest, KnowsWhatTheClientLacks) {
  ItemLedger ledger;
  bool news = false;
  EXPECT_TRUE(absl::IsInvalidArgument(ledger.Acknowledge(1, &news)));
  ledger.OnSent(5);
  ledger.OnSent(3);  // of a stream that was taken over
  EXPECT_TRUE(ledger.Acknowledge(4, &news).ok());
  EXPECT_TRUE(news);
  EXPECT_TRUE(ledger.Acknowledge(2, &news).ok());
  EXPECT_FALSE(news);
  EXPECT_EQ(ledger.acknowledged(), 4u);
  EXPECT_EQ(ledger.outstanding(), 0u);
  ledger.SetLast(7);
  EXPECT_EQ(ledger.outstanding(), 3u);
  EXPECT_TRUE(absl::IsFailedPrecondition(ledger.Resume(4)));
  EXPECT_TRUE(absl::IsInvalidArgument(ledger.Resume(7)));
  EXPECT_TRUE(ledger.Resume(6).ok());
  EXPECT_EQ(ledger.outstanding(), 2u);
  ledger.AcknowledgeAll();
  EXPECT_EQ(ledger.outstanding(), 0u);
}

TEST(WindowStepsTest, CountsFromTheStartOrFromTheFirstOfTheRange) {
  StepHistory history;
  history.count = 9;
  WindowSteps by_time;
  EXPECT_EQ(by_time.Count(history), 0u);
  by_time.OnStarted(9);
  EXPECT_EQ(by_time.Count(history), 0u);
  history.count = 12;
  EXPECT_EQ(by_time.Count(history), 3u);

  WindowSteps by_ordinal;
  by_ordinal.SetRange(StepRange{11, 20, /*by_ordinal=*/true});
  by_ordinal.OnStarted(9);
  EXPECT_EQ(by_ordinal.Count(history), 2u);
}

TEST(StepStateTest, IsUnsetWithoutSteps) { EXPECT_FALSE(StepStateOf({}).has_value()); }

TEST(StepStateTest, TellsTheNewestStepAndItsRate) {
  StepHistory history;
  history.count = 1'000;
  // Begin to begin: 30 ms, then 10 ms.
  for (int64_t i = 0; i < 100; ++i) {
    const absl::Duration begun_ago = absl::Milliseconds(170 + 30 * (99 - i));
    history.recent.push_back({i, absl::Milliseconds(5), begun_ago - absl::Milliseconds(5)});
  }
  for (int64_t i = 100; i < 117; ++i) {
    const absl::Duration begun_ago = absl::Milliseconds(10 * (117 - i));
    history.recent.push_back({i, absl::Milliseconds(8), begun_ago - absl::Milliseconds(8)});
  }
  auto state = StepStateOf(history);
  ASSERT_TRUE(state.has_value());
  EXPECT_EQ(state->begun(), 1'000U);
  EXPECT_EQ(state->current(), 116);
  EXPECT_DOUBLE_EQ(state->step_time_ms(), 10);  // of late
  EXPECT_EQ(state->age_ns(), 10'000'000U);
  EXPECT_TRUE(state->increasing());
  history.current = StepTiming{0, absl::Milliseconds(1), absl::ZeroDuration()};  // an epoch begins
  state = StepStateOf(history);
  EXPECT_EQ(state->current(), 0);
  EXPECT_EQ(state->age_ns(), 1'000'000U);
  EXPECT_FALSE(state->increasing());
}

TEST(StepStateTest, APauseIsNoLengthOfAStep) {
  StepHistory history;
  history.count = 20;
  absl::Duration begun_ago = absl::Milliseconds(2 * 20 + 5'000);
  for (int64_t i = 0; i < 20; ++i) {
    history.recent.push_back({i, absl::Milliseconds(2), begun_ago - absl::Milliseconds(2)});
    begun_ago -= absl::Milliseconds(i == 15 ? 5'002 : 2);
  }
  EXPECT_DOUBLE_EQ(StepStateOf(history)->step_time_ms(), 2);
}

TEST(StepStateTest, AStepWithoutAnEndIsNotTheNewest) {
  StepHistory history;
  history.count = 4;
  history.current = StepTiming{1, absl::Milliseconds(90), absl::ZeroDuration()};
  for (const int64_t step : {0, 2, 3}) {
    history.recent.push_back(
        {step, absl::Milliseconds(10), absl::Milliseconds(20 + 30 * (3 - step))});
  }
  const auto state = StepStateOf(history);
  EXPECT_EQ(state->current(), 3);
  EXPECT_DOUBLE_EQ(state->step_time_ms(), 30);
  EXPECT_TRUE(state->increasing());
}

TEST(StepStateTest, NumbersThatFellInEachEpochDoNotRise) {
  StepHistory history;
  history.count = 1'050;
  history.current = StepTiming{50, absl::Milliseconds(1), absl::ZeroDuration()};
  history.last_fall = 1'000;
  auto state = StepStateOf(history);
  EXPECT_FALSE(state->increasing());
  EXPECT_TRUE(state->by_ordinal());
  // Steps to warm up, then those of the training.
  history.last_fall = 11;
  EXPECT_TRUE(StepStateOf(history)->increasing());
}

TEST(StepStateTest, OneStepHasNoRate) {
  StepHistory history;
  history.count = 1;
  history.current = StepTiming{7, absl::Milliseconds(3), absl::ZeroDuration()};
  const auto state = StepStateOf(history);
  EXPECT_EQ(state->current(), 7);
  EXPECT_DOUBLE_EQ(state->step_time_ms(), 0);
  EXPECT_TRUE(state->increasing());
}

class SomeCall : public OpenCall {
 public:
  void Abandon() override {}
  bool Records(absl::string_view /*session_id*/, absl::string_view /*peer*/) const override {
    return false;
  }
};

TEST(CallRegistryTest, AnsweredCallsAreNotInTheWay) {
  CallRegistry registry(/*max_calls=*/2, /*max_with_answered=*/4, std::make_shared<AuditLog>());
  std::vector<std::shared_ptr<OpenCall>> calls;
  for (int i = 0; i < 5; ++i) calls.push_back(std::make_shared<SomeCall>());
  EXPECT_TRUE(registry.Enter(calls[0]).ok());
  EXPECT_TRUE(registry.Enter(calls[1]).ok());
  EXPECT_EQ(registry.Enter(calls[2]).code(), absl::StatusCode::kResourceExhausted);
  registry.Answered(calls[0]);
  registry.Answered(calls[0]);
  registry.Answered(calls[2]);  // not admitted
  EXPECT_EQ(registry.open(), 2U);
  EXPECT_TRUE(registry.Enter(calls[2]).ok());
  EXPECT_EQ(registry.Enter(calls[3]).code(), absl::StatusCode::kResourceExhausted);
  registry.Answered(calls[1]);
  EXPECT_TRUE(registry.Enter(calls[3]).ok());
  registry.Answered(calls[2]);
  // All in all they are bounded, too.
  EXPECT_EQ(registry.Enter(calls[4]).code(), absl::StatusCode::kResourceExhausted);
  registry.Leave(calls[0]);
  EXPECT_TRUE(registry.Enter(calls[4]).ok());
  for (const auto& call : calls) registry.Leave(call);
  EXPECT_EQ(registry.open(), 0U);
  EXPECT_TRUE(registry.AwaitNone(absl::ZeroDuration()));
}

// ---- requests ----

StartContext Now() {
  StartContext context;
  context.monotonic_ns = 10'000'000'000'000;
  context.realtime_ns = 1'795'248'345'000'000'000;
  return context;
}

v1::Start ValidStart() {
  v1::Start start;
  start.set_start_monotonic_ns(Now().monotonic_ns + 1'000'000'000);
  start.set_zero_monotonic_ns(Now().monotonic_ns + 500'000'000);
  start.set_zero_unix_ns(1);
  start.set_duration_ns(1'000'000'000);
  return start;
}

void ExpectOutOfRange(const v1::Start& start, const std::string& field) {
  const absl::Status status = ValidateStart(start, Now()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(field + " = "));
}

TEST(ValidateStartTest, TakesWhatIsAsked) {
  v1::Start start = ValidStart();
  start.mutable_steps()->set_first(-3);
  start.mutable_steps()->set_last(4);
  const auto command = ValidateStart(start, Now());
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_EQ(command->start_monotonic_ns, start.start_monotonic_ns());
  EXPECT_EQ(command->zero_monotonic_ns, start.zero_monotonic_ns());
  EXPECT_EQ(command->zero_unix_ns, 1);
  EXPECT_EQ(command->duration, absl::Seconds(1));
  EXPECT_EQ(command->steps->first, -3);
  EXPECT_EQ(command->steps->last, 4);
}

TEST(ValidateStartTest, ZeroesAreNow) {
  v1::Start start;
  start.set_duration_ns(1);
  StartContext context = Now();
  context.granted_lookback = absl::Seconds(2);
  const auto command = ValidateStart(start, context);
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_EQ(command->start_monotonic_ns, context.monotonic_ns);
  EXPECT_EQ(command->zero_monotonic_ns, context.monotonic_ns - 2'000'000'000);
  EXPECT_EQ(command->zero_unix_ns, context.realtime_ns - 2'000'000'000);
}

TEST(ValidateStartTest, NamesWhatIsOutOfRange) {
  v1::Start start = ValidStart();
  start.set_start_monotonic_ns(UINT64_MAX);
  ExpectOutOfRange(start, "start.start_monotonic_ns");
  start = ValidStart();
  start.set_start_monotonic_ns(1);  // some other clock
  ExpectOutOfRange(start, "start.start_monotonic_ns");
  start = ValidStart();
  start.set_zero_monotonic_ns(start.start_monotonic_ns() + 1);
  ExpectOutOfRange(start, "start.zero_monotonic_ns");
  start = ValidStart();
  start.set_zero_monotonic_ns(1);
  ExpectOutOfRange(start, "start.zero_monotonic_ns");
  start = ValidStart();
  start.set_zero_unix_ns(-1);
  ExpectOutOfRange(start, "start.zero_unix_ns");
  start = ValidStart();
  start.set_clock_uncertainty_ns(UINT64_MAX);
  ExpectOutOfRange(start, "start.clock_uncertainty_ns");
  start = ValidStart();
  start.set_clock_offset_ns(INT64_MIN);
  ExpectOutOfRange(start, "start.clock_offset_ns");
  start = ValidStart();
  start.set_duration_ns(UINT64_MAX);
  ExpectOutOfRange(start, "start.duration_ns");
  start = ValidStart();
  start.set_duration_ns(0);
  ExpectOutOfRange(start, "start.duration_ns");
  start = ValidStart();
  start.mutable_steps()->set_first(2);
  start.mutable_steps()->set_last(1);
  ExpectOutOfRange(start, "start.steps.last");
}

TEST(ValidateStartTest, ADumpNeedsALookback) {
  v1::Start start = ValidStart();
  start.set_duration_ns(0);
  StartContext context = Now();
  context.wanted_lookback = absl::Seconds(1);
  EXPECT_TRUE(ValidateStart(start, context).ok());
  start.mutable_steps();
  EXPECT_FALSE(ValidateStart(start, context).ok());
}

TEST(ValidateArmTest, TheStoreIsNeverMoreThanTheWorkers) {
  CallContext context;
  context.store_bytes = 64 << 20;
  v1::Arm arm;
  EXPECT_EQ(ValidateArm(arm, context)->store_bytes, context.store_bytes);
  arm.set_store_bytes(8 << 20);
  EXPECT_EQ(ValidateArm(arm, context)->store_bytes, 8U << 20);
  arm.set_store_bytes(UINT64_MAX);
  EXPECT_EQ(ValidateArm(arm, context)->store_bytes, context.store_bytes);
  arm.set_store_bytes(1);
  const absl::Status status = ValidateArm(arm, context).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("arm.store_bytes = 1 is out of range"));
}

TEST(ValidateArmTest, LevelsAndLookbackAreBounded) {
  CallContext context;
  context.ceilings.levels.python = 2;
  v1::Arm arm;
  arm.set_device_tracer_level(2);
  EXPECT_THAT(std::string(ValidateArm(arm, context).status().message()),
              HasSubstr("arm.device_tracer_level = 2 is out of range: 0 to 1"));
  arm.set_device_tracer_level(1);
  arm.set_python_tracer_level(3);
  EXPECT_FALSE(ValidateArm(arm, context).ok());
  arm.set_python_tracer_level(2);
  arm.set_lookback_ns(3'600'000'000'000);
  const auto options = ValidateArm(arm, context);
  ASSERT_TRUE(options.ok());
  EXPECT_TRUE(options->on_command);
  EXPECT_EQ(options->lookback, absl::Hours(1));
  arm.set_lookback_ns(3'600'000'000'001);
  EXPECT_FALSE(ValidateArm(arm, context).ok());
}

TEST(ValidateArmTest, FrameworksAreNamed) {
  const CallContext context;
  v1::Arm arm;
  EXPECT_EQ(ValidateArm(arm, context)->recording.frameworks.text(), "auto");
  arm.set_frameworks("none");
  EXPECT_EQ(ValidateArm(arm, context)->recording.frameworks.text(), "none");
  EXPECT_FALSE(ValidateArm(arm, context)->recording.record_shapes);
  arm.set_record_shapes(true);
  EXPECT_TRUE(ValidateArm(arm, context)->recording.record_shapes);
  EXPECT_EQ(ValidateArm(arm, context)->recording.device_tracer, DeviceTracer::kAuto);
  arm.set_device_tracer("jobscope");
  EXPECT_EQ(ValidateArm(arm, context)->recording.device_tracer, DeviceTracer::kJobscope);
  arm.set_device_tracer("xla");
  EXPECT_THAT(std::string(ValidateArm(arm, context).status().message()),
              HasSubstr("arm.device_tracer: \"xla\" is none of"));
  arm.clear_device_tracer();
  arm.set_frameworks("Torch");
  EXPECT_THAT(std::string(ValidateArm(arm, context).status().message()),
              HasSubstr("arm.frameworks: \"Torch\" is not a name"));
}

}  // namespace
}  // namespace jobscope
