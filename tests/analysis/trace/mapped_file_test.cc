// SPDX-License-Identifier: Apache-2.0
#include "analysis/trace/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/trace/timeline_reader.h"
#include "analysis/trace/trace_reader.h"
#include "analysis/trace/xspace_reader.h"
#include "tensorflow/xplane.pb.h"
#include "tests/temporary_directory.h"

namespace jobscope::analysis {
namespace {

using ::testing::HasSubstr;

constexpr size_t kMiB = size_t{1} << 20;

TEST(MappedFileTest, WhatIsTruncatedHasTheValue0AndIsSaid) {
  const TemporaryDirectory directory;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const std::string path = directory.Write("file", std::string(8 * page, 'x'));
  const std::string other_path = directory.Write("other", std::string(page, 'y'));
  absl::StatusOr<MappedFile> opened = MappedFile::Open(path);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const MappedFile file = *std::move(opened);
  const absl::StatusOr<MappedFile> other = MappedFile::Open(other_path);
  ASSERT_TRUE(other.ok()) << other.status();

  EXPECT_EQ(file.bytes()[5 * page], 'x');
  EXPECT_TRUE(file.status().ok());
  std::filesystem::resize_file(path, 2 * page);
  EXPECT_EQ(file.bytes()[2 * page - 1], 'x');
  EXPECT_TRUE(file.status().ok()) << "all that was used could be read";
  EXPECT_EQ(file.bytes()[5 * page], '\0');
  EXPECT_EQ(file.bytes()[8 * page - 1], '\0');
  EXPECT_EQ(file.bytes()[2 * page - 1], 'x');
  EXPECT_EQ(file.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(other->bytes()[0], 'y');
  EXPECT_TRUE(other->status().ok());
}

TEST(MappedFileDeathTest, AFaultElsewhereIsNotHidden) {
  const TemporaryDirectory directory;
  const std::string path = directory.Write("file", "x");
  EXPECT_DEATH(
      {
        const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
        const int fd = memfd_create("other", MFD_CLOEXEC);
        const auto* memory =
            static_cast<const volatile char*>(mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, fd, 0));
        (void)*memory;
      },
      "");
}

// The resident memory of what this process has mapped of a file.
size_t ResidentBytes(const std::string& path) {
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  size_t bytes = 0;
  bool of_file = false;
  while (std::getline(maps, line)) {
    std::istringstream words(line);
    std::string first;
    size_t kib = 0;
    words >> first;
    if (first.find('-') != std::string::npos) of_file = line.find(path) != std::string::npos;
    if (of_file && first == "Rss:" && words >> kib) bytes += kib << 10;
  }
  return bytes;
}

// A plane whose lines take 64 MiB, so that already their begins are all over its pages.
class LargePlaneTest : public ::testing::Test {
 protected:
  LargePlaneTest() {
    tensorflow::profiler::XSpace space;
    auto* plane = space.add_planes();
    plane->set_name("/device:GPU:0");
    for (const int64_t id : {1, 2}) {
      (*plane->mutable_stat_metadata())[id].set_id(id);
      (*plane->mutable_stat_metadata())[id].set_name(id == 1 ? "payload" : "gpu_device_name");
    }
    (*plane->mutable_event_metadata())[1].set_id(1);
    (*plane->mutable_event_metadata())[1].set_name("kernel");
    for (int64_t id = 1; id <= 1024; ++id) {
      auto* line = plane->add_lines();
      line->set_id(id);
      auto* event = line->add_events();
      event->set_metadata_id(1);
      event->set_offset_ps(id * 1000);
      event->set_duration_ps(1000);
      auto* stat = event->add_stats();
      stat->set_metadata_id(1);
      stat->set_bytes_value(std::string(kMiB / 16, 'p'));
    }
    auto* model = plane->add_stats();
    model->set_metadata_id(2);
    model->set_str_value("GPU X");
    path_ = directory_.Write("w.xplane.pb", space.SerializeAsString());
    absl::StatusOr<MappedFile> file = MappedFile::Open(path_);
    EXPECT_TRUE(file.ok()) << file.status();
    file_.emplace(*std::move(file));
    EXPECT_GT(file_->bytes().size(), 64 * kMiB);
  }
  // The plane's message: behind its tag and a length of four bytes.
  std::string_view Plane() const { return file_->bytes().substr(5); }
  // What a pass leaves of its last 4 MiB, with the huge pages around them.
  void ExpectLittleIsResident() {
    EXPECT_LT(ResidentBytes(path_), 12 * kMiB);
    file_->Release(0, file_->bytes().size());
  }

  const TemporaryDirectory directory_;
  std::string path_;
  std::optional<MappedFile> file_;
};

TEST_F(LargePlaneTest, ItsNameAndItsNamesAreFoundWithLittleMemory) {
  const std::string_view plane = Plane();
  PassedPages passed(&*file_);
  EXPECT_EQ(PlaneName({plane.data(), plane.size()}, &passed), "/device:GPU:0");
  ExpectLittleIsResident();
  const PlaneNames names = ReadPlaneNames({plane.data(), plane.size()}, &passed);
  EXPECT_EQ(names.events.size(), 1u);
  ExpectLittleIsResident();
  std::string_view model;
  ForEachPlaneStat({plane.data(), plane.size()}, &passed,
                   [&](const Stat& stat) { model = names.Text(stat); });
  EXPECT_EQ(model, "GPU X");
  ExpectLittleIsResident();
}

TEST_F(LargePlaneTest, BothReadersUseLittleMemory) {
  TraceReader reader;
  EXPECT_TRUE(reader.Read(*file_).ok());
  ExpectLittleIsResident();
  const std::vector<LineStretch> stretches = reader.TakeStretches();
  const std::unique_ptr<WorkerTrace> trace = reader.Finish();
  EXPECT_EQ(trace->events, 1024u);
  EXPECT_EQ(trace->gpu_model, "GPU X");
  TimelineReader timeline({{0, 2000}}, 0);
  EXPECT_TRUE(timeline.Read(*file_, stretches).ok());
  ExpectLittleIsResident();
  EXPECT_FALSE(timeline.TakeBlocks(0).empty());
}

TEST_F(LargePlaneTest, BothReadersSayThatItWasTruncatedWhileTheyRead) {
  TraceReader first;
  EXPECT_TRUE(first.Read(*file_).ok());
  const std::vector<LineStretch> stretches = first.TakeStretches();
  std::filesystem::resize_file(path_, 32 * kMiB);
  TraceReader reader;
  const absl::Status status = reader.Read(*file_);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("truncated"));
  TimelineReader timeline({{0, 2000}}, 0);
  EXPECT_EQ(timeline.Read(*file_, stretches).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace jobscope::analysis
