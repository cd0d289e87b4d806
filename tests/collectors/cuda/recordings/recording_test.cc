// SPDX-License-Identifier: Apache-2.0
//
// Reads every recording in this folder: those of CUPTI on a GPU (recorded_*), and those of the
// record builder (handmade_*).
#include "tests/collectors/cuda/recordings/recording.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "collectors/cuda/libraries/cupti_api.h"
#include "collectors/cuda/records/record.h"
#include "tests/collectors/cuda/recordings/handmade_recording.h"

namespace jobscope::cuda {
namespace {

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::filesystem::path> Recordings() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(RECORDINGS)) {
    if (entry.path().extension() == ".cuptirec") paths.push_back(entry.path());
  }
  return paths;
}

// The records of a buffer, by our own strides. Records are aligned to 8 bytes.
std::vector<Activity> Walk(const std::vector<uint8_t>& buffer, uint32_t version) {
  std::vector<Activity> all;
  size_t at = 0;
  while (at < buffer.size()) {
    uint32_t kind = 0;
    if (buffer.size() - at < sizeof(kind)) break;
    std::memcpy(&kind, buffer.data() + at, sizeof(kind));
    Activity activity;
    const ParseResult result =
        ParseRecord(buffer.data() + at, buffer.size() - at, version, &activity);
    EXPECT_EQ(result, ParseResult::kOk) << "kind " << kind << " at " << at;
    if (result != ParseResult::kOk) break;
    all.push_back(activity);
    at += RecordBytes(kind, version);
  }
  return all;
}

TEST(RecordingTest, ThereAreRecordings) { EXPECT_FALSE(Recordings().empty()); }

TEST(RecordingTest, EveryRecordIsReadAndMakesSense) {
  for (const auto& path : Recordings()) {
    SCOPED_TRACE(path.filename());
    Recording recording;
    ASSERT_EQ(ParseRecording(ReadFile(path), &recording), "");
    EXPECT_FALSE(recording.origin.empty());
    const bool handmade = path.filename().string().rfind("handmade_", 0) == 0;
    EXPECT_EQ(recording.origin.rfind("handmade", 0) == 0, handmade) << recording.origin;
    ASSERT_FALSE(recording.buffers.empty());
    std::set<uint32_t> calls;
    std::vector<Activity> kernels;
    for (const std::vector<uint8_t>& buffer : recording.buffers) {
      for (const Activity& activity : Walk(buffer, recording.version)) {
        EXPECT_LT(activity.device, 64u);
        EXPECT_LT(activity.bytes, uint64_t{1} << 48);
        if (activity.start_ns != 0 && activity.end_ns != 0) {
          EXPECT_LE(activity.start_ns, activity.end_ns);
          EXPECT_LT(activity.end_ns - activity.start_ns, 600'000'000'000u);
        }
        if (activity.type == ActivityType::kApi) calls.insert(activity.correlation);
        if (activity.type == ActivityType::kKernel) kernels.push_back(activity);
      }
    }
    ASSERT_FALSE(kernels.empty());
    for (const Activity& kernel : kernels) {
      EXPECT_EQ(calls.count(kernel.correlation), 1u) << kernel.correlation;
      // The pointer is of another process: it is looked up, never followed.
      const auto name = recording.strings.find(reinterpret_cast<uintptr_t>(kernel.name));
      ASSERT_NE(name, recording.strings.end());
      EXPECT_FALSE(name->second.empty());
      EXPECT_GT(kernel.block[0], 0);
      EXPECT_LE(kernel.block[0] * kernel.block[1] * kernel.block[2], 1024 * 64);
    }
  }
}

// The handmade one is what make_recording writes.
TEST(RecordingTest, HandmadeRecordingIsReproducible) {
  const std::filesystem::path path = std::filesystem::path(RECORDINGS) / "handmade_13_0.cuptirec";
  EXPECT_EQ(ReadFile(path), FormatRecording(HandmadeRecording()))
      << "write it anew: make_recording " << path;
}

TEST(RecordingTest, WhatIsWrittenIsRead) {
  const Recording made = HandmadeRecording();
  Recording read;
  ASSERT_EQ(ParseRecording(FormatRecording(made), &read), "");
  EXPECT_EQ(read.version, made.version);
  EXPECT_EQ(read.origin, made.origin);
  EXPECT_EQ(read.strings, made.strings);
  EXPECT_EQ(read.buffers, made.buffers);
  EXPECT_FALSE(read.cut);
}

TEST(RecordingTest, CutsAndForeignFilesAreSeen) {
  const std::string bytes = FormatRecording(HandmadeRecording());
  Recording whole;
  ASSERT_EQ(ParseRecording(bytes, &whole), "");
  for (size_t size = 0; size < bytes.size(); ++size) {
    Recording cut;
    const std::string error = ParseRecording(std::string_view(bytes).substr(0, size), &cut);
    EXPECT_EQ(error.empty(), size >= 16) << size;
    EXPECT_LE(cut.buffers.size(), whole.buffers.size());
  }
  Recording cut;
  ASSERT_EQ(ParseRecording(std::string_view(bytes).substr(0, bytes.size() - 100), &cut), "");
  EXPECT_TRUE(cut.cut);
  EXPECT_EQ(cut.buffers.size(), whole.buffers.size() - 1);
  Recording foreign;
  EXPECT_NE(ParseRecording(std::string(64, 'x'), &foreign), "");
  std::string unknown = bytes.substr(0, 16);
  recording_detail::AppendBlock(static_cast<RecordingTag>(9), "?", &unknown);
  EXPECT_NE(ParseRecording(unknown, &foreign), "");
}

#ifdef TOOLKIT_CUPTI
// The installed libcupti finds the same records as we do, in recordings of its own version.
TEST(RecordingTest, TheRealLibraryWalksTheSame) {
  void* const library = dlopen(TOOLKIT_CUPTI, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) GTEST_SKIP() << dlerror();
  CuptiApi api;
  ASSERT_EQ(api.Resolve(library), nullptr);
  ASSERT_EQ(api.cuptiGetVersion(&api.version), kCuptiSuccess);
  for (const auto& path : Recordings()) {
    SCOPED_TRACE(path.filename());
    Recording recording;
    ASSERT_EQ(ParseRecording(ReadFile(path), &recording), "");
    if (recording.version != api.version) continue;
    for (std::vector<uint8_t>& buffer : recording.buffers) {
      const std::vector<Activity> ours = Walk(buffer, recording.version);
      std::vector<uint64_t> aligned((buffer.size() + 7) / 8);
      std::memcpy(aligned.data(), buffer.data(), buffer.size());
      auto* const data = reinterpret_cast<uint8_t*>(aligned.data());
      uint8_t* record = nullptr;
      size_t found = 0;
      while (api.cuptiActivityGetNextRecord(data, buffer.size(), &record) == kCuptiSuccess) {
        Activity activity;
        const auto left = static_cast<size_t>(data + buffer.size() - record);
        ASSERT_EQ(ParseRecord(record, left, api.version, &activity), ParseResult::kOk);
        ASSERT_LT(found, ours.size());
        EXPECT_EQ(activity.type, ours[found].type);
        EXPECT_EQ(activity.start_ns, ours[found].start_ns);
        EXPECT_EQ(activity.correlation, ours[found].correlation);
        ++found;
      }
      EXPECT_EQ(found, ours.size());
    }
  }
}
#endif

}  // namespace
}  // namespace jobscope::cuda
