// SPDX-License-Identifier: Apache-2.0
//
// Tests the time after a session: a caller that receives its trace keeps the slot, and the next one
// waits for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/clock/monotonic.h"
#include "server/session/session_manager.h"
#include "tests/server/session/session_fixture.h"

namespace jobscope {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class DeliverySessionTest : public SessionTest {
 protected:
  // A session that has ended, and whose slot is held by the caller.
  SessionResult Hold(const std::string& id) {
    std::promise<SessionResult> done;
    SessionCallbacks callbacks;
    callbacks.done = [&done](SessionResult result) { done.set_value(std::move(result)); };
    held_ticket_ = manager_->Submit(For(absl::Milliseconds(1), id), WhenBusy::kWait,
                                    absl::InfiniteFuture(), std::move(callbacks));
    return done.get_future().get();
  }

  SessionTicket held_ticket_ = 0;
};

TEST_F(DeliverySessionTest, TheNextSessionWaitsForTheSlot) {
  Make({&a_});
  SessionResult held = Hold("first");
  ASSERT_NE(held.slot, nullptr);
  EXPECT_EQ(State(), "delivering");
  EXPECT_EQ(manager_->Progress(held_ticket_)->phase, SessionPhase::kDelivering);
  EXPECT_EQ(manager_->Progress(held_ticket_)->lost, 2u) << "exact, once it has ended";
  EXPECT_EQ(manager_->Progress(held_ticket_)->events, 1u);
  EXPECT_EQ(manager_->Stop(""), std::nullopt) << "nothing of it runs any more";

  Pending second = Submit(For(absl::Milliseconds(1), "second"));
  Pending hopeless = Submit(For(absl::Milliseconds(1)), WhenBusy::kWait, SteadyNow());
  const absl::Status late = hopeless.Get().status;
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded) << "the line is tended meanwhile";
  EXPECT_THAT(std::string(late.message()), Not(HasSubstr("capture stop")));
  EXPECT_THAT(a_.calls(), Not(Contains("arm").Times(2)));
  EXPECT_FALSE(second.Ready());
  std::shared_ptr<void> other = held.slot;
  held.slot.reset();
  EXPECT_FALSE(second.Ready());
  other.reset();
  EXPECT_EQ(second.Get().summary.session_id(), "second");
}

TEST_F(DeliverySessionTest, WhoDoesNotWaitIsRefusedAfterAMoment) {
  Make({&a_});
  SessionResult held = Hold("first");
  const absl::Status refused = Submit(For(absl::Seconds(1)), WhenBusy::kRefuse).Get().status;
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("a capture is delivering here"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("\"first\""));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("try again later"));
  EXPECT_THAT(std::string(refused.message()), Not(HasSubstr("capture stop")));
  bool served = false;
  // Again where this thread was not run for that moment.
  for (int i = 0; i < 10 && !served; ++i) {
    Pending patient = Submit(For(absl::Milliseconds(1)), WhenBusy::kRefuse);
    held.slot.reset();
    served = patient.Get().status.ok();
    ASSERT_TRUE(Becomes([this] { return State() == "idle"; }));
    held = Hold("again");
  }
  EXPECT_TRUE(served);
}

TEST_F(DeliverySessionTest, ShutdownWaitsForWhoDelivers) {
  Make({&a_});
  SessionResult held = Hold("first");
  EXPECT_FALSE(manager_->Shutdown(absl::Milliseconds(20)));
  held.slot.reset();
  EXPECT_TRUE(manager_->Shutdown(absl::Seconds(60)));
}

TEST_F(DeliverySessionTest, TheSlotCanBeHeldForALaterDelivery) {
  Make({&a_});
  std::promise<SessionResult> got;
  SessionOptions options = For(absl::ZeroDuration(), "older");
  manager_->HoldSlot(options, [&got](SessionResult result) { got.set_value(std::move(result)); });
  SessionResult held = got.get_future().get();
  ASSERT_TRUE(held.status.ok());
  EXPECT_EQ(State(), "delivering");
  EXPECT_EQ(manager_->busy()->session_id(), "older");
  EXPECT_TRUE(a_.calls().empty());
  std::promise<SessionResult> second;
  manager_->HoldSlot(options,
                     [&second](SessionResult result) { second.set_value(std::move(result)); });
  EXPECT_EQ(second.get_future().get().status.code(), absl::StatusCode::kAlreadyExists);
  held.slot.reset();
  EXPECT_TRUE(Submit(For(absl::Milliseconds(1))).Get().status.ok());
}

TEST_F(DeliverySessionTest, OneSessionIsStoppedAndNoOther) {
  Make({&a_});
  Pending first = Submit(For(absl::Hours(1), "same"));
  Pending second = Submit(For(absl::Hours(1), "same"));
  ASSERT_TRUE(a_.AwaitCalls("start", 1));
  EXPECT_FALSE(manager_->StopTicket(second.ticket)) << "it does not run yet";
  EXPECT_TRUE(manager_->StopTicket(first.ticket));
  EXPECT_EQ(first.Get().summary.ended_by(), "request");
  ASSERT_TRUE(a_.AwaitCalls("start", 2));
  EXPECT_FALSE(manager_->StopTicket(first.ticket)) << "it is over";
  EXPECT_FALSE(second.Ready());
  EXPECT_TRUE(manager_->StopTicket(second.ticket, EndedBy::kShutdown));
  EXPECT_EQ(second.Get().summary.ended_by(), "shutdown");
}

TEST_F(DeliverySessionTest, ASlotMayOutliveTheManager) {
  Make({&a_});
  SessionResult held = Hold("first");
  manager_.reset();
  held.slot.reset();
  held.store.reset();
}

TEST_F(DeliverySessionTest, OlderStoresGoBeforeASessionArms) {
  Make({&a_});
  std::vector<size_t> calls_at_eviction;
  std::shared_ptr<xspace::Store> older;
  manager_->SetEvictor([&] {
    calls_at_eviction.push_back(a_.calls().size());
    older.reset();
  });
  older = Submit(For(absl::Milliseconds(1))).Get().store;
  ASSERT_NE(older, nullptr);
  const std::weak_ptr<xspace::Store> watched = older;
  const size_t calls = a_.calls().size();
  ASSERT_TRUE(Submit(For(absl::Milliseconds(1))).Get().status.ok());
  EXPECT_EQ(calls_at_eviction, (std::vector<size_t>{0, calls}));
  EXPECT_TRUE(Becomes([&] { return watched.expired(); }));
}

}  // namespace
}  // namespace jobscope
