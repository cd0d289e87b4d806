// SPDX-License-Identifier: Apache-2.0
//
// Every recording once more, through the whole collector: its buffers are given back by the fake
// libcupti, with their times moved into a capture of now and their pointers into this process.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "collectors/cuda/records/kernel_names.h"
#include "collectors/cuda/records/record.h"
#include "tests/collectors/cuda/collector_fixture.h"
#include "tests/collectors/cuda/moved_record.h"
#include "tests/collectors/cuda/recordings/recording.h"

namespace jobscope {
namespace {

using cuda::Activity;
using cuda::ActivityType;
using cuda::ParseResult;
using cuda::Recording;

// Calls `visit` with each record of a buffer and its place.
template <typename Visit>
void ForEach(std::vector<uint8_t>* buffer, uint32_t version, const Visit& visit) {
  size_t at = 0;
  Activity activity;
  while (at < buffer->size() && cuda::ParseRecord(buffer->data() + at, buffer->size() - at, version,
                                                  &activity) == ParseResult::kOk) {
    uint32_t kind = 0;
    std::memcpy(&kind, buffer->data() + at, sizeof(kind));
    visit(activity, buffer->data() + at);
    at += cuda::RecordBytes(kind, version);
  }
  EXPECT_EQ(at, buffer->size()) << "a record that cannot be read";
}

class ReplayTest : public CudaCollectorTest, public ::testing::WithParamInterface<std::string> {};

std::vector<std::string> Recordings() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(RECORDINGS)) {
    if (entry.path().extension() == ".cuptirec") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

TEST_P(ReplayTest, AllKernelsComeOutUnderTheirNames) {
  std::ifstream file(GetParam(), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  Recording recording;
  ASSERT_EQ(cuda::ParseRecording(bytes, &recording), "");
  options_.cupti_library = UseVersion(recording.version);

  uint64_t earliest_ns = UINT64_MAX;
  uint64_t latest_ns = 0;
  std::map<std::string, size_t> expected;
  for (std::vector<uint8_t>& buffer : recording.buffers) {
    ForEach(&buffer, recording.version, [&](const Activity& activity, const uint8_t*) {
      if (activity.start_ns == 0) return;
      earliest_ns = std::min(earliest_ns, activity.start_ns);
      latest_ns = std::max(latest_ns, std::max(activity.start_ns, activity.end_ns));
      if (activity.type != ActivityType::kKernel) return;
      const auto name = recording.strings.find(reinterpret_cast<uintptr_t>(activity.name));
      ASSERT_NE(name, recording.strings.end());
      ++expected[cuda::KernelName(name->second)];
    });
  }
  ASSERT_FALSE(expected.empty());

  Begin();
  const uint64_t now_ns = cuda::RealtimeNs();
  for (std::vector<uint8_t> buffer : recording.buffers) {
    ForEach(&buffer, recording.version, [&](const Activity& activity, uint8_t* data) {
      const auto name = recording.strings.find(reinterpret_cast<uintptr_t>(activity.name));
      cuda::RecordPointers pointers;
      if (name != recording.strings.end()) pointers.name = name->second.c_str();
      cuda::MoveRecord(
          activity, recording.version, [&](uint64_t ns) { return ns - earliest_ns + now_ns; },
          pointers, data);
    });
    ASSERT_TRUE(gpu().Deliver(buffer));
    (void)session().Drain();
  }
  session().StopAt(session().Now() + (latest_ns - earliest_ns) + 1'000'000'000);

  session().ExpectIdentity();
  for (const auto& [name, count] : expected) {
    EXPECT_EQ(session().Named(name).size(), count) << name;
  }
  for (const std::string& warning : session().report().warnings) {
    EXPECT_EQ(warning.find("start before the call"), std::string::npos) << warning;
    EXPECT_EQ(warning.find("could not be read"), std::string::npos) << warning;
  }
}

INSTANTIATE_TEST_SUITE_P(Recordings, ReplayTest, ::testing::ValuesIn(Recordings()),
                         [](const auto& info) {
                           return std::filesystem::path(info.param).stem().string();
                         });

}  // namespace
}  // namespace jobscope
