// SPDX-License-Identifier: Apache-2.0
//
// The dictionary when there is no memory for it at first. A process of its own: it is mapped once.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <set>
#include <string>

#include "jobscope/trace.h"
#include "tests/collectors/host/recorder/recorded.h"

namespace jobscope::recorder_test {
namespace {

// Pages that the process has mapped now.
uint64_t MappedBytes() {
  unsigned long pages = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr || std::fscanf(file, "%lu", &pages) != 1) pages = 0;
  if (file != nullptr) std::fclose(file);
  return uint64_t{pages} * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

void Work() { JOBSCOPE_SCOPE("work"); }

TEST(DictionaryMemory, ASiteThatCameTooEarlyGetsItsNameLater) {
  Recording recording(kAllBits);
  const uint64_t serial = MySerial();  // the ring is there; only the dictionary is not
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
  const rlimit tight = {MappedBytes() + (uint64_t{1} << 20), limit.rlim_max};
  ASSERT_GT(tight.rlim_cur, uint64_t{1} << 20);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  Work();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  for (int i = 0; i < 2000; ++i) Work();

  const jobscope_thread_info info = FindThread(serial);
  jobscope_cursor cursor = {info.first_record, info.first_event};
  const ReadAllResult all = ReadAll(serial, &cursor);
  ASSERT_EQ(all.events.size(), 2001u);
  EXPECT_EQ(all.events.front().name, "(dictionary full)");
  EXPECT_EQ(all.events.back().name, "work");
}

}  // namespace
}  // namespace jobscope::recorder_test
