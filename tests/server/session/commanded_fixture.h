// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_SERVER_SESSION_COMMANDED_FIXTURE_H_
#define TESTS_SERVER_SESSION_COMMANDED_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "server/session/session_manager.h"
#include "tests/server/session/session_fixture.h"

namespace jobscope {

inline constexpr uint64_t kMillisecondNs = 1'000'000;
inline constexpr uint64_t kHourNs = uint64_t{3600} * 1'000'000'000;

// Sessions that wait for a command.
class CommandedFixture : public SessionTest {
 protected:
  struct Commanded {
    Pending pending;
    std::shared_future<SessionArmed> armed;
    std::shared_future<SessionStarted> started;

    SessionArmed Armed() const {
      EXPECT_EQ(armed.wait_for(kTimeout), std::future_status::ready) << "never armed";
      return armed.get();
    }
    SessionStarted Started() const {
      EXPECT_EQ(started.wait_for(kTimeout), std::future_status::ready) << "never started";
      return started.get();
    }
    std::shared_ptr<std::atomic<bool>> has_started = std::make_shared<std::atomic<bool>>(false);
  };

  Commanded SubmitOnCommand(absl::Duration lookback = absl::ZeroDuration(),
                            const std::string& id = "native") {
    SessionOptions options = For(absl::ZeroDuration(), id);
    options.on_command = true;
    options.lookback = lookback;
    auto done = std::make_shared<std::promise<SessionResult>>();
    auto armed = std::make_shared<std::promise<SessionArmed>>();
    auto started = std::make_shared<std::promise<SessionStarted>>();
    Commanded commanded;
    commanded.pending.result = done->get_future();
    commanded.armed = armed->get_future().share();
    commanded.started = started->get_future().share();
    SessionCallbacks callbacks;
    callbacks.armed = [armed](const SessionArmed& what) { armed->set_value(what); };
    callbacks.started = [started, has = commanded.has_started](const SessionStarted& what) {
      has->store(true);
      started->set_value(what);
    };
    callbacks.done = [done](SessionResult result) {
      result.slot.reset();
      done->set_value(std::move(result));
    };
    commanded.pending.ticket = manager_->Submit(std::move(options), WhenBusy::kRefuse,
                                                absl::InfiniteFuture(), std::move(callbacks));
    return commanded;
  }

  // Starts `from_now` after now, which is the zero too.
  static StartCommand In(int64_t from_now_ns, absl::Duration duration) {
    StartCommand command;
    command.start_monotonic_ns = WorkerMonotonicNs() + static_cast<uint64_t>(from_now_ns);
    command.zero_monotonic_ns = command.start_monotonic_ns;
    command.duration = duration;
    return command;
  }
};

}  // namespace jobscope

#endif  // TESTS_SERVER_SESSION_COMMANDED_FIXTURE_H_
