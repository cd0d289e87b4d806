// SPDX-License-Identifier: Apache-2.0
//
// The bounds of the dictionary. A process of its own, since it only grows; one test, since the
// order matters.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "jobscope/trace.h"
#include "jobscope/trace_c.h"
#include "tests/collectors/host/recorder/recorded.h"

namespace jobscope::recorder_test {
namespace {

const struct jobscope_trace_reader* Reader() { return jobscope_trace_reader(); }

uint64_t Full() {
  jobscope_totals totals;
  Reader()->totals(&totals);
  return totals.dictionary_full;
}

uint32_t DynamicSite(const std::string& name) {
  return jobscope_trace_site(name.c_str(), "", "", 0, JOBSCOPE_BIT_LEVEL1, JOBSCOPE_ROLE_SCOPE,
                             nullptr, 0);
}

std::string SiteName(uint32_t id) {
  jobscope_site_info info;
  return Reader()->site(id, &info) == 0 ? info.name : "?";
}

TEST(DictionaryFull, RefusesAndCountsExactly) {
  uint64_t before = Full();
  std::set<uint32_t> ids;
  uint32_t full_id = 0;
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    const uint32_t id = DynamicSite("dynamic " + std::to_string(i));
    if (SiteName(id) == "(dictionary full)") {
      full_id = id;
      ++refused;
    } else {
      ids.insert(id);
    }
  }
  EXPECT_EQ(ids.size(), 4096u);
  EXPECT_EQ(ids.size() + refused, 5000u);
  EXPECT_EQ(Full() - before, static_cast<uint64_t>(refused));
  // What is in, stays.
  EXPECT_EQ(SiteName(DynamicSite("dynamic 0")), "dynamic 0");
  EXPECT_EQ(Full() - before, static_cast<uint64_t>(refused));

  before = Full();
  refused = 0;
  for (int i = 0; i < 5000; ++i) {
    const std::string text = "text " + std::to_string(i);
    refused += jobscope_trace_intern(text.data(), text.size()) == 0 ? 1 : 0;
  }
  EXPECT_EQ(refused, 5000 - 4096);
  EXPECT_EQ(Full() - before, static_cast<uint64_t>(refused));

  // Sites in the code have a table of their own; events of refused names are still recorded.
  const auto events = Record(JOBSCOPE_BIT_LEVEL1, [&] {
    JOBSCOPE_SCOPE("static");
    jobscope_trace_event(full_id, JOBSCOPE_KIND_INSTANT, nullptr, 0);
  });
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].name, "(dictionary full)");
  EXPECT_EQ(events[1].name, "static");

  // But that is bounded, too.
  constexpr int kSites = 17000;
  std::vector<jobscope_site> sites(kSites);
  before = Full();
  refused = 0;
  for (int i = 0; i < kSites; ++i) {
    sites[i] = {sizeof(jobscope_site),
                0,
                "generated",
                "",
                "f.cc",
                static_cast<uint32_t>(i),
                JOBSCOPE_BIT_LEVEL1,
                JOBSCOPE_ROLE_SCOPE,
                0};
    const uint32_t id = jobscope_trace_writer()->register_site(&sites[i], nullptr, 0);
    EXPECT_EQ(sites[i].id, id);
    refused += SiteName(id) == "(dictionary full)" ? 1 : 0;
  }
  EXPECT_EQ(refused, kSites - 16384 + 1);  // one is "static" above
  EXPECT_EQ(Full() - before, static_cast<uint64_t>(refused));
  // A site asks once, whatever the answer.
  jobscope_trace_writer()->register_site(&sites[kSites - 1], nullptr, 0);
  EXPECT_EQ(Full() - before, static_cast<uint64_t>(refused));
}

}  // namespace
}  // namespace jobscope::recorder_test
