// SPDX-License-Identifier: Apache-2.0
//
// Interrupts of a fan-out, in each of its phases.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "client/fan_out/fan_out.h"
#include "tests/client/fan_out/fan_out_fixture.h"
#include "tests/client/fan_out/scripted_worker.h"

namespace jobscope {
namespace {

using grpc::Status;
using grpc::StatusCode;
using ::testing::HasSubstr;

// Interrupts once `condition` holds and the workers have said what follows from it.
class Interrupter {
 public:
  Interrupter(Clockwork* clockwork, FanOut* fan_out, std::function<bool()> condition)
      : thread_([=] {
          while (!condition()) std::this_thread::yield();
          clockwork->At(SteadyNow() + absl::Milliseconds(200), [=] { fan_out->Interrupt(); });
        }) {}
  ~Interrupter() { thread_.join(); }

 private:
  std::thread thread_;
};

TEST_F(FanOutTest, AnInterruptStopsAndKeepsWhatThereIs) {
  options_.duration = absl::Hours(1);
  Script dies;
  dies.obeys_stop = false;
  dies.capture = [](int) { return Status(StatusCode::UNAVAILABLE, "Socket closed"); };
  dies.capture_fails_after = absl::Seconds(5);
  Script refused;
  refused.describe = Refused;
  Script older;  // an hour is refused to stock workers
  older.streams = false;
  Make({Script(), dies, refused, older});
  const Interrupter interrupter(&clockwork_, fan_out_.get(), [this] {
    return connects(2) == 3 && !starts(0).empty() && !starts(1).empty() && !starts(3).empty();
  });
  const std::vector<WorkerResult> results = fan_out_->Run();
  EXPECT_STREQ(Name(results[0].outcome.kind), "truncated");
  EXPECT_STREQ(Name(results[1].outcome.kind), "died");
  EXPECT_THAT(results[1].outcome.reason, HasSubstr("interrupted: "));
  EXPECT_STREQ(Name(results[2].outcome.kind), "unreachable");
  EXPECT_STREQ(Name(results[3].outcome.kind), "truncated");
}

// A phase in which a worker may be when the interrupt comes.
struct InterruptCase {
  const char* name;
  std::function<void(Script*, FanOutOptions*)> stall;
  const char* phase;
};

class InterruptBeforeTheStart : public FanOutTest,
                                public ::testing::WithParamInterface<InterruptCase> {};

TEST_P(InterruptBeforeTheStart, RecordsNothing) {
  Script script;
  options_.times.connect = options_.times.arm = options_.times.sync = absl::Minutes(2);
  options_.times.gather = absl::Minutes(2);
  GetParam().stall(&script, &options_);
  Make({script, Script()});
  const Interrupter interrupter(&clockwork_, fan_out_.get(), [this] {
    const bool connecting = std::string(GetParam().phase) == "connect";
    return connects(0) == 1 && (connecting || arms(0).size() == 1) && arms(1).size() == 1;
  });
  const absl::Time before = absl::Now();
  const std::vector<WorkerResult> results = fan_out_->Run();
  EXPECT_LT(absl::Now() - before, absl::Minutes(1));
  EXPECT_STREQ(Name(results[0].outcome.kind), "failed");
  EXPECT_STREQ(Name(results[0].outcome.phase), GetParam().phase);
  EXPECT_THAT(results[0].outcome.reason, HasSubstr("interrupted before"));
  EXPECT_STREQ(Name(results[1].outcome.phase), "arm");
  EXPECT_TRUE(starts(0).empty());
  EXPECT_TRUE(starts(1).empty());
  EXPECT_FALSE(fan_out_->facts().started.has_value());
}

INSTANTIATE_TEST_SUITE_P(
    Phases, InterruptBeforeTheStart,
    ::testing::Values(
        InterruptCase{"connecting",
                      [](Script* script, FanOutOptions*) {
                        script->describe_takes = absl::InfiniteDuration();
                      },
                      "connect"},
        InterruptCase{"backing_off",
                      [](Script* script, FanOutOptions* options) {
                        script->describe = Refused;
                        options->times.first_backoff = options->times.max_backoff =
                            absl::Minutes(2);
                        options->min_workers = 2;
                      },
                      "connect"},
        InterruptCase{
            "arming",
            [](Script* script, FanOutOptions*) { script->arm_takes = absl::InfiniteDuration(); },
            "arm"},
        InterruptCase{"syncing", [](Script* script, FanOutOptions*) { script->sync_hangs = true; },
                      "arm"},
        InterruptCase{"delayed",
                      [](Script*, FanOutOptions* options) { options->delay = absl::Minutes(2); },
                      "arm"}),
    [](const auto& info) { return info.param.name; });

TEST_F(FanOutTest, AnInterruptBeforeRunRecordsNothing) {
  Make({Script()});
  fan_out_->Interrupt();
  const std::vector<WorkerResult> results = fan_out_->Run();
  EXPECT_STREQ(Name(results[0].outcome.kind), "failed");
  EXPECT_THAT(results[0].outcome.reason, HasSubstr("interrupted before"));
  EXPECT_TRUE(starts(0).empty());
}

}  // namespace
}  // namespace jobscope
