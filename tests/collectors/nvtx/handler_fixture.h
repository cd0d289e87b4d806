// SPDX-License-Identifier: Apache-2.0
//
// Attaches two units that use NVTX to the handler, which records their events with the real
// recorder.
#ifndef TESTS_COLLECTORS_NVTX_HANDLER_FIXTURE_H_
#define TESTS_COLLECTORS_NVTX_HANDLER_FIXTURE_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "collectors/host/recorder/reader_abi.h"
#include "collectors/nvtx/handler.h"
#include "common/xspace/segment/nvtx_place.h"
#include "tests/collectors/host/recorder/recorded.h"
#include "tests/collectors/nvtx/nvtx_unit.h"

namespace jobscope::nvtx_test {

using recorder_test::Record;
using recorder_test::Recording;

using Program = Unit<0>;
using Plugin = Unit<1>;

inline constexpr uint32_t kOn = JOBSCOPE_BIT_LEVEL1;

inline int Initialize(void* get_export_table) {
  return nvtx::Attach(jobscope_trace_writer(), get_export_table) ? 1 : 0;
}
inline int InitializeExtension(void* module) {
  return nvtx::AttachExtension(jobscope_trace_writer(), module) ? 1 : 0;
}

inline std::string FileOf(const recorder_test::Event& event) {
  jobscope_site_info info = {};
  return jobscope_trace_reader()->site(event.site, &info) == 0 ? info.file : "";
}
inline NvtxPlace PlaceOf(const std::string& file) {
  EXPECT_TRUE(IsNvtxPlace(file)) << file;
  return ParseNvtxPlace(file);
}

inline std::vector<std::string> NamesOf(const std::vector<recorder_test::Event>& events) {
  std::vector<std::string> names;
  for (const recorder_test::Event& event : events) names.push_back(event.name);
  return names;
}

class Handler : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(Program::Attach(&Initialize));
    ASSERT_TRUE(Plugin::Attach(&Initialize));
    ASSERT_TRUE(Program::AttachPayloads(&InitializeExtension));
  }
};

}  // namespace jobscope::nvtx_test

#endif  // TESTS_COLLECTORS_NVTX_HANDLER_FIXTURE_H_
