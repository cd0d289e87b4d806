// SPDX-License-Identifier: Apache-2.0
//
// Allocations that fail on the threads of a session: the session or a collector fails, and says
// why; the process goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/session/session_fixture.h"

namespace {

// Allocations on threads of ours until one fails; not above 0: none does.
std::atomic<int> g_until_failure{0};
// That fail then, one after the other.
std::atomic<int> g_failures{0};

bool IsOurThread() {
  thread_local const bool ours = [] {
    char name[16] = {};
    pthread_getname_np(pthread_self(), name, sizeof(name));
    return std::strncmp(name, "jobscope-", 9) == 0;
  }();
  return ours;
}

bool Fails() {
  if (g_failures.load() <= 0 || !IsOurThread()) return false;
  if (g_until_failure.load() > 0 && g_until_failure.fetch_sub(1) > 1) return false;
  return g_failures.fetch_sub(1) > 0;
}

}  // namespace

// Not inline: the compiler would see that they do not match, while they do.
[[gnu::noinline]] void* operator new(size_t bytes) {
  void* const memory = Fails() ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t /*bytes*/) noexcept {
  std::free(memory);
}

namespace jobscope {
namespace {

using ::testing::HasSubstr;

// A fake collector one of whose verbs throws, after it has done what it does.
class ThrowingCollector : public FakeCollector {
 public:
  using FakeCollector::FakeCollector;
  void ThrowIn(std::string verb) { throw_in_ = std::move(verb); }

  absl::Status Arm(const ArmRequest& request) override {
    return Throw("arm", FakeCollector::Arm(request));
  }
  absl::Status Start(const StartRequest& request) override {
    return Throw("start", FakeCollector::Start(request));
  }
  absl::Duration Drain() override { return Throw("drain", FakeCollector::Drain()); }
  absl::Status Stop(uint64_t end_ticks) override {
    return Throw("stop", FakeCollector::Stop(end_ticks));
  }
  CollectorReport Report() override { return Throw("report", FakeCollector::Report()); }

 private:
  template <typename Result>
  Result Throw(const char* verb, Result result) {
    if (throw_in_ == verb) throw std::bad_alloc();
    return result;
  }
  std::string throw_in_;
};

class OutOfMemoryTest : public SessionTest {
 protected:
  static const v1::CollectorState& StateOf(const SessionResult& result, const std::string& name) {
    for (const v1::CollectorState& state : result.summary.collectors()) {
      if (state.name() == name) return state;
    }
    ADD_FAILURE() << "no collector " << name;
    return result.summary.collectors(0);
  }

  static int Count(const FakeCollector& collector, const std::string& verb) {
    const std::vector<std::string> calls = collector.calls();
    return static_cast<int>(std::count(calls.begin(), calls.end(), verb));
  }

  ThrowingCollector a_{"a"};
  FakeCollector b_{"b"};
};

TEST_F(OutOfMemoryTest, ACollectorThatThrowsHasFailedAndIsStopped) {
  Make({&a_, &b_});
  for (const char* const verb : {"arm", "start", "drain", "stop", "report"}) {
    a_.ThrowIn(verb);
    const int stops_before = Count(a_, "stop");
    const int drains_before = Count(a_, "drain");
    const int others_before = Count(b_, "drain");
    Pending pending = Submit(For(absl::InfiniteDuration(), verb));
    ASSERT_TRUE(b_.AwaitCalls("drain", others_before + 1));
    if (std::string(verb) == "drain") {
      ASSERT_TRUE(a_.AwaitCalls("drain", drains_before + 1));
    }
    manager_->Stop(verb);
    const SessionResult result = pending.Get();
    ASSERT_TRUE(result.status.ok()) << verb << ": " << result.status;
    EXPECT_EQ(StateOf(result, "a").state(), "failed") << verb;
    EXPECT_THAT(StateOf(result, "a").reason(), HasSubstr("no memory left")) << verb;
    EXPECT_EQ(StateOf(result, "b").state(), "on") << verb;
    EXPECT_TRUE(a_.AwaitCalls("stop", stops_before + 1)) << verb;
  }
  a_.ThrowIn("");
  const SessionResult result = Submit(For(absl::Milliseconds(1))).Get();
  ASSERT_TRUE(result.status.ok());
  EXPECT_EQ(StateOf(result, "a").state(), "on");
}

TEST_F(OutOfMemoryTest, NoAllocationThatFailsEndsTheProcess) {
  Make({&a_, &b_});
  ASSERT_TRUE(Submit(For(absl::Milliseconds(1))).Get().status.ok());
  constexpr int kMostAllocations = 10'000;
  for (const int failures : {1, 4}) {
    for (int at = 1; at < kMostAllocations; at += failures) {
      g_until_failure = at;
      g_failures = failures;
      const SessionResult result = Submit(For(absl::Milliseconds(1))).Get();
      const bool met = g_failures.exchange(0) < failures;
      if (!result.status.ok()) {
        EXPECT_EQ(result.status.code(), absl::StatusCode::kResourceExhausted) << result.status;
      }
      if (!met) break;  // a whole session has fewer allocations
      ASSERT_LT(at, kMostAllocations - failures);
    }
  }
  const SessionResult result = Submit(For(absl::Milliseconds(1))).Get();
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(StateOf(result, "a").state(), "on");
  EXPECT_EQ(StateOf(result, "b").state(), "on");
}

}  // namespace
}  // namespace jobscope
