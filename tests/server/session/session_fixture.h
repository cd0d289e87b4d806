// SPDX-License-Identifier: Apache-2.0
//
// Sessions of a manager over two fake collectors.
#ifndef TESTS_SERVER_SESSION_SESSION_FIXTURE_H_
#define TESTS_SERVER_SESSION_SESSION_FIXTURE_H_

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/session/session_manager.h"
#include "tests/server/session/fake_collector.h"

namespace jobscope {

inline constexpr auto kTimeout = std::chrono::seconds(60);

// Polls `condition`, at most 60 s.
inline bool Becomes(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kTimeout;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

class SessionTest : public ::testing::Test {
 protected:
  struct Pending {
    SessionTicket ticket = 0;
    std::future<SessionResult> result;

    SessionResult Get() {
      EXPECT_EQ(result.wait_for(kTimeout), std::future_status::ready) << "the session hangs";
      return result.get();
    }
    bool Ready() const {
      return result.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    }
  };

  // The manager is left to its threads on purpose, as in a worker: a wedged collector may outlive a
  // test's session.
  void Make(std::vector<Collector*> collectors) {
    manager_ = std::make_unique<SessionManager>(
        SessionManager::Dependencies{.collectors = std::move(collectors), .uses_tsc = true});
  }

  Pending Submit(SessionOptions options, WhenBusy when_busy = WhenBusy::kWait,
                 absl::Time deadline = absl::InfiniteFuture()) {
    auto promise = std::make_shared<std::promise<SessionResult>>();
    Pending pending;
    pending.result = promise->get_future();
    SessionCallbacks callbacks;
    callbacks.done = [promise](SessionResult result) {
      result.slot.reset();  // nobody delivers anything
      promise->set_value(std::move(result));
    };
    pending.ticket =
        manager_->Submit(std::move(options), when_busy, deadline, std::move(callbacks));
    return pending;
  }

  static SessionOptions For(absl::Duration duration, std::string id = "") {
    SessionOptions options;
    options.duration = duration;
    options.session_id = std::move(id);
    options.peer = "test";
    options.store_bytes = 4 << 20;
    return options;
  }

  std::string State() const {
    const auto busy = manager_->busy();
    return busy.has_value() ? busy->state() : "idle";
  }

  FakeCollector a_{"a"};
  FakeCollector b_{"b"};
  std::unique_ptr<SessionManager> manager_;
};

}  // namespace jobscope

#endif  // TESTS_SERVER_SESSION_SESSION_FIXTURE_H_
