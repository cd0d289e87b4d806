// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_COLLECTORS_PROVIDER_PROVIDER_FIXTURE_H_
#define TESTS_COLLECTORS_PROVIDER_PROVIDER_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "collectors/provider/provider_collector.h"
#include "tests/collectors/provider/fake_provider.h"

namespace jobscope {

// For SessionDriver: the session's ticks are MONOTONIC.
inline constexpr bool kMonotonic = false;
inline constexpr int64_t kUs = 1000;  // in ns

// A provider that is registered with its collector.
class ProviderTest : public ::testing::Test {
 protected:
  ProviderTest() { EXPECT_TRUE(collector_.Register(provider_.callbacks()).ok()); }

  // Of the session's sink, once it has started.
  void KeepSink() {
    provider_.On("start", [this](const jobscope_provider_session& session) { session_ = session; });
  }
  int Add(const std::vector<jobscope_provider_event>& events) {
    return session_.sink->add(session_.sink, events.data(), events.size());
  }

  FakeProvider provider_;
  ProviderCollector collector_{"disk", 3};
  jobscope_provider_session session_ = {};
};

}  // namespace jobscope

#endif  // TESTS_COLLECTORS_PROVIDER_PROVIDER_FIXTURE_H_
