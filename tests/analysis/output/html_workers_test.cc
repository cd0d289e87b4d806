// SPDX-License-Identifier: Apache-2.0
//
// The table of workers, in the page and in the JSON.
#include "analysis/output/html_workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "jobscope/v1/item.pb.h"
#include "tensorflow/xplane.pb.h"
#include "tests/analysis/run_fixture.h"

namespace jobscope::analysis {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class WorkersTableTest : public RunFixture {
 protected:
  static TraceFile Trace() {
    TraceFile trace;
    for (int step = 0; step < 10; ++step) {
      trace.Step(step, step * 10, step * 10 + 10);
      trace.Event("forward", step * 10, step * 10 + 8);
    }
    return trace;
  }
  std::string SectionOf(const std::string& directory) {
    const absl::StatusOr<Digests> digests = ReadDigests(directory);
    EXPECT_TRUE(digests.ok()) << digests.status();
    return digests.ok() ? WorkersSection(Reduce(*digests)) : std::string();
  }
  std::string Section() { return SectionOf(directory_.path()); }
};

TEST_F(WorkersTableTest, GpusHaveAColumn) {
  TraceFile trace = Trace();
  trace.Kernel("gemm", 1, 5);
  trace.PlaneText("/device:GPU:0", "gpu_device_name", "NVIDIA H100 80GB HBM3");
  AddWorker(0, "node0", trace);
  AddWorker(1, "node1", Trace());
  WriteManifest();
  const std::string section = Section();
  EXPECT_THAT(section, HasSubstr("host</th><th scope=col class=text>GPU</th>"
                                 "<th scope=col class=text>outcome</th><th scope=col>steps</th>"));
  EXPECT_THAT(section, HasSubstr("<td class=text>node0</td><td class=text>NVIDIA H100 80GB HBM3"
                                 "</td><td class=text>ok</td><td>10</td>"));
  EXPECT_THAT(section, HasSubstr("<td class=text>node1</td><td class=text></td>"
                                 "<td class=text>ok</td><td>10</td>"));
}

TEST_F(WorkersTableTest, WithoutGpusThereIsNoColumn) {
  AddWorker(0, "node0", Trace());
  WriteManifest();
  EXPECT_THAT(Section(), HasSubstr("host</th><th scope=col class=text>outcome</th>"));
}

TEST_F(WorkersTableTest, LossesHaveTheirCauses) {
  for (const int rank : {0, 1}) AddWorker(rank, "node0", Trace());
  workers_[1]["lost"] = 15;
  workers_[1]["lost_by_cause"] = {{"overwritten", 3}, {"buffer_full", 12}};
  WriteManifest();
  const std::string cells =
      "<td>15</td><td class=text>buffer_full 12, overwritten 3</td><td>0.0200</td>";
  EXPECT_THAT(Section(), HasSubstr("<th scope=col class=text>lost by cause</th>"));
  EXPECT_THAT(Section(), HasSubstr(cells));
  EXPECT_THAT(Section(), HasSubstr("<td>0</td><td class=text></td><td>0.0200</td>"));
  const json report = ReportOfRun();
  EXPECT_FALSE(report["workers"][0].contains("lost_by_cause"));
  EXPECT_EQ(report["workers"][1]["lost_by_cause"], json({{"buffer_full", 12}, {"overwritten", 3}}));

  // A directory of digests has no manifest.
  const absl::StatusOr<Digests> digests = ReadDigests(directory_.path());
  ASSERT_TRUE(digests.ok()) << digests.status();
  const TemporaryDirectory folder;
  ASSERT_TRUE(WriteDigests(*digests, folder.path()).ok());
  EXPECT_EQ(ReportOf(folder.path()), report);
  EXPECT_THAT(SectionOf(folder.path()), HasSubstr(cells));
}

// The worker's trace was copied without its manifest: its own summary has the losses.
TEST_F(WorkersTableTest, LossesOfATraceAlone) {
  tensorflow::profiler::XSpace space;
  ASSERT_TRUE(space.ParseFromString(Trace().Bytes()));
  v1::Summary summary;
  summary.set_lost(7);
  v1::LossByCause* loss = summary.add_lost_by_cause();
  loss->set_cause("store_full");
  loss->set_events(7);
  auto* plane = space.add_planes();
  plane->set_name("Task Environment");
  (*plane->mutable_stat_metadata())[1].set_id(1);
  (*plane->mutable_stat_metadata())[1].set_name("jobscope_summary");
  auto* stat = plane->add_stats();
  stat->set_metadata_id(1);
  stat->set_bytes_value(summary.SerializeAsString());
  directory_.Write("w0.xplane.pb", space.SerializeAsString());
  const json worker = ReportOfRun()["workers"][0];
  EXPECT_EQ(worker["lost"], 7);
  EXPECT_EQ(worker["lost_by_cause"], json({{"store_full", 7}}));
  EXPECT_THAT(Section(), HasSubstr("<td>7</td><td class=text>store_full 7</td>"));
}

TEST_F(WorkersTableTest, WithoutLossesThereIsNoColumnOfCauses) {
  AddWorker(0, "node0", Trace());
  WriteManifest();
  EXPECT_THAT(Section(), Not(HasSubstr("lost by cause")));
  EXPECT_FALSE(ReportOfRun()["workers"][0].contains("lost_by_cause"));
}

}  // namespace
}  // namespace jobscope::analysis
