// SPDX-License-Identifier: Apache-2.0
//
// The dictionary: names that many threads add at once, long names, unknown ids.
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

uint32_t DynamicSite(const std::string& name) {
  return jobscope_trace_site(name.c_str(), "", "", 0, JOBSCOPE_BIT_LEVEL1, JOBSCOPE_ROLE_SCOPE,
                             nullptr, 0);
}

std::string SiteName(uint32_t id) {
  jobscope_site_info info;
  return Reader()->site(id, &info) == 0 ? info.name : "?";
}

TEST(Dictionary, ThreadsThatAddTheSameNamesAgree) {
  constexpr int kThreads = 8;
  constexpr int kNames = 500;
  std::vector<std::vector<uint32_t>> sites(kThreads), names(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kNames; ++i) {
        const std::string name = "shared " + std::to_string(i);
        sites[t].push_back(DynamicSite(name));
        names[t].push_back(jobscope_trace_intern(name.data(), name.size()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 1; t < kThreads; ++t) {
    EXPECT_EQ(sites[t], sites[0]);
    EXPECT_EQ(names[t], names[0]);
  }
  EXPECT_EQ(std::set<uint32_t>(sites[0].begin(), sites[0].end()).size(), size_t{kNames});
  for (int i = 0; i < kNames; ++i) {
    EXPECT_EQ(SiteName(sites[0][i]), "shared " + std::to_string(i));
    EXPECT_EQ(Reader()->name(names[0][i]), "shared " + std::to_string(i));
  }
}

TEST(Dictionary, LongStringsAreCutPathsKeepTheirEnd) {
  const std::string name(300, 'n');
  const std::string file = std::string(300, 'd') + "/file.cc";
  const char* keys[] = {"a key that is much longer than thirty-one bytes"};
  const uint32_t id = jobscope_trace_site(name.c_str(), std::string(100, 'c').c_str(), file.c_str(),
                                          3, JOBSCOPE_BIT_LEVEL1, JOBSCOPE_ROLE_SCOPE, keys, 1);
  EXPECT_EQ(id, jobscope_trace_site(name.c_str(), nullptr, file.c_str(), 3, JOBSCOPE_BIT_LEVEL1,
                                    JOBSCOPE_ROLE_SCOPE, nullptr, 0));
  jobscope_site_info info;
  ASSERT_EQ(Reader()->site(id, &info), 0);
  EXPECT_EQ(info.name, std::string(127, 'n'));
  EXPECT_EQ(info.category, std::string(31, 'c'));
  EXPECT_EQ(std::string(info.file).size(), 127u);
  EXPECT_EQ(std::string(info.file).substr(127 - 8), "/file.cc");
  EXPECT_EQ(std::string(info.keys[0]), std::string(keys[0]).substr(0, 31));
}

TEST(Dictionary, StringsAreCutBetweenCharacters) {
  std::string wide;  // characters of 2, 3 and 4 bytes
  while (wide.size() < 300) wide += "\u00e9\u20ac\U0001f600";
  const auto begins = [](const std::string& text) { return (text[0] & 0xc0) != 0x80; };
  for (size_t first = 0; first < 9; ++first) {
    // Every byte of a character is once the first one that does not fit.
    const std::string text = std::string(first, 'x') + wide;
    const std::string path = wide + std::string(first, 'x');
    const char* keys[] = {text.c_str()};
    const uint32_t id = jobscope_trace_site(text.c_str(), text.c_str(), path.c_str(), 4,
                                            JOBSCOPE_BIT_LEVEL1, JOBSCOPE_ROLE_SCOPE, keys, 1);
    jobscope_site_info info;
    ASSERT_EQ(Reader()->site(id, &info), 0);
    const std::string name =
        Reader()->name(jobscope_trace_writer()->intern(text.data(), text.size()));
    EXPECT_EQ(name, info.name);
    for (const std::string& cut : {name, std::string(info.category), std::string(info.keys[0])}) {
      ASSERT_EQ(cut, text.substr(0, cut.size()));
      EXPECT_TRUE(begins(text.substr(cut.size()))) << cut;
    }
    EXPECT_GE(name.size(), 124u);
    const std::string file = info.file;
    EXPECT_TRUE(begins(file)) << file;
    EXPECT_GE(file.size(), 124u);
    EXPECT_EQ(file, path.substr(path.size() - file.size()));
  }
}

TEST(Dictionary, UnknownIds) {
  jobscope_site_info info;
  for (uint32_t id : {0u, 15000u, 100000u, ~0u}) EXPECT_NE(Reader()->site(id, &info), 0) << id;
}

}  // namespace
}  // namespace jobscope::recorder_test
