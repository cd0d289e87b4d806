// SPDX-License-Identifier: Apache-2.0
#include "collectors/provider/provider_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/collectors/provider/fake_provider.h"
#include "tests/server/session/session_fixture.h"

namespace jobscope {
namespace {

using ::testing::ElementsAre;

TEST(ProviderRegistryTest, NamesAreChecked) {
  static auto& registry = *new ProviderRegistry;  // its collectors live as long as the process
  FakeProvider provider;
  for (const std::string& name :
       {std::string(), std::string("Disk"), std::string("1st"), std::string("a b"),
        std::string("a/b"), std::string("host"), std::string("gc"), std::string("auto"),
        std::string("torch"), std::string(41, 'a'), std::string("a\0b", 3),
        std::string("\xc3\xa4")}) {
    EXPECT_EQ(registry.Register(name, provider.callbacks()).code(),
              absl::StatusCode::kInvalidArgument)
        << name;
  }
  EXPECT_EQ(registry.Register("empty", ProviderCallbacks()).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(registry.Register(std::string(40, 'a'), provider.callbacks()).ok());
  EXPECT_TRUE(registry.Register("my_disk-2.x", provider.callbacks()).ok());
  EXPECT_EQ(registry.Register("my_disk-2.x", provider.callbacks()).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(registry.Unregister("nobody").code(), absl::StatusCode::kNotFound);
}

TEST(ProviderRegistryTest, CollectorsOfBeforeAndAfterTheListener) {
  static auto& registry = *new ProviderRegistry;  // its collectors live as long as the process
  FakeProvider provider;
  ASSERT_TRUE(registry.Register("first", provider.callbacks()).ok());
  std::vector<std::string> joined;
  registry.SetListener(
      [&joined](ProviderCollector* collector) { joined.emplace_back(collector->name()); });
  ASSERT_TRUE(registry.Register("second", provider.callbacks()).ok());
  ASSERT_TRUE(registry.Unregister("first").ok());
  ASSERT_TRUE(registry.Register("first", provider.callbacks()).ok());
  EXPECT_THAT(joined, ElementsAre("first", "second"));
}

TEST(ProviderRegistryTest, NamesAreBounded) {
  static auto& registry = *new ProviderRegistry;  // its collectors live as long as the process
  FakeProvider provider;
  for (size_t i = 0; i < ProviderRegistry::kMaxNames; ++i) {
    ASSERT_TRUE(registry.Register("p" + std::to_string(i), provider.callbacks()).ok());
    ASSERT_TRUE(registry.Unregister("p" + std::to_string(i)).ok());
  }
  EXPECT_EQ(registry.Register("one_more", provider.callbacks()).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(registry.Register("p0", provider.callbacks()).ok());
}

// A child that is forked while another thread registers may register, too.
TEST(ProviderRegistryTest, AChildOfThatMomentRegisters) {
  constexpr unsigned kChildLimitS = 10;
  static auto& registry = *new ProviderRegistry;  // its collectors live as long as the process
  FakeProvider provider;
  std::atomic<bool> inside{false};
  registry.SetListener([&inside](ProviderCollector*) {
    inside = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  });
  // Runs until the child has ended: to ThreadSanitizer, a thread that ended before is a leak there.
  std::promise<void> child_ended;
  std::thread other([&provider, ended = child_ended.get_future()] {
    EXPECT_TRUE(registry.Register("first", provider.callbacks()).ok());
    ended.wait();
  });
  while (!inside) std::this_thread::yield();
  const pid_t child = fork();
  if (child == 0) {
    alarm(kChildLimitS);
    const bool again =
        registry.Register("first", provider.callbacks()).code() == absl::StatusCode::kAlreadyExists;
    const bool first = registry.Register("second", provider.callbacks()).ok();
    _exit(again && first && registry.Unregister("first").ok() ? 0 : 1);
  }
  int status = -1;
  const pid_t ended = waitpid(child, &status, 0);
  child_ended.set_value();
  other.join();
  ASSERT_EQ(ended, child);
  EXPECT_EQ(status, 0) << "it hung in a lock that nobody can release";
}

// With the session's own deadlines.
class ProviderSessionTest : public SessionTest {
 protected:
  ProviderSessionTest() { Make({&a_}); }

  v1::CollectorState StateOf(const SessionResult& result, const std::string& name) {
    for (const v1::CollectorState& state : result.summary.collectors()) {
      if (state.name() == name) return state;
    }
    return {};
  }

  FakeProvider provider_;
};

TEST_F(ProviderSessionTest, JoinsFromTheNextSessionOn) {
  EXPECT_EQ(StateOf(Submit(For(absl::Milliseconds(1))).Get(), "disk").state(), "");
  ProviderCollector collector("disk", 0);
  ASSERT_TRUE(collector.Register(provider_.callbacks()).ok());
  EXPECT_TRUE(manager_->AddCollector(&collector));
  EXPECT_FALSE(manager_->AddCollector(&collector));
  EXPECT_EQ(StateOf(Submit(For(absl::Milliseconds(1))).Get(), "disk").state(), "on");
  EXPECT_THAT(provider_.calls(), ElementsAre("arm", "start", "stop"));
  EXPECT_EQ(manager_->DescribeCollectors().size(), 2u);
}

TEST_F(ProviderSessionTest, OneThatHangsIsWedgedAndTheOthersGoOn) {
  auto collector = std::make_unique<ProviderCollector>("disk", 0);
  ASSERT_TRUE(collector->Register(provider_.callbacks()).ok());
  ASSERT_TRUE(manager_->AddCollector(collector.get()));
  provider_.HangIn("start");
  const SessionResult first = Submit(For(absl::Milliseconds(10))).Get();
  EXPECT_TRUE(first.status.ok());
  EXPECT_EQ(StateOf(first, "disk").state(), "wedged");
  EXPECT_EQ(StateOf(first, "a").state(), "on");
  EXPECT_EQ(manager_->DescribeCollectors()[1].state(), "wedged");
  provider_.Release();
  // It is stopped, and takes part again.
  ASSERT_TRUE(provider_.AwaitCall("stop"));
  EXPECT_TRUE(Becomes([this] { return manager_->DescribeCollectors()[1].state() == "on"; }));
  EXPECT_EQ(StateOf(Submit(For(absl::Milliseconds(1))).Get(), "disk").state(), "on");
}

}  // namespace
}  // namespace jobscope
