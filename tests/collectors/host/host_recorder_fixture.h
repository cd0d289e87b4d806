// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_COLLECTORS_HOST_HOST_RECORDER_FIXTURE_H_
#define TESTS_COLLECTORS_HOST_HOST_RECORDER_FIXTURE_H_

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "collectors/host/host_collector.h"
#include "collectors/host/host_report.h"
#include "jobscope/detail/ticks.h"
#include "jobscope/trace.h"
#include "tests/collectors/host/session_driver.h"

namespace jobscope {

inline int64_t Tid() { return syscall(SYS_gettid); }

// All steps of these tests: the first step site that records is the process's source of steps,
// whichever test comes first.
template <typename Body>
void Step(int64_t number, Body body) {
  JOBSCOPE_STEP("train", number);
  body();
}

class HostRecorderTest : public testing::Test {
 protected:
  static const host::Reader* reader() { return ::jobscope_trace_reader(); }
  static bool uses_tsc() { return reader()->uses_tsc != 0; }
  static uint64_t Now() { return jobscope::detail::ReadTicks(uses_tsc()); }

  HostCollector collector_{reader()};
};

}  // namespace jobscope

#endif  // TESTS_COLLECTORS_HOST_HOST_RECORDER_FIXTURE_H_
