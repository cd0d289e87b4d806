// SPDX-License-Identifier: Apache-2.0
//
// Reports by way of digests, from one directory or merged from several.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tensorflow/xplane.pb.h"
#include "tests/analysis/run_fixture.h"

namespace jobscope::analysis {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class MergeTest : public RunFixture {
 protected:
  std::string JsonOf(const std::string& directory) {
    const absl::StatusOr<Digests> digests = ReadDigests(directory);
    EXPECT_TRUE(digests.ok()) << digests.status();
    return digests.ok() ? ReportJson(Reduce(*digests)) : std::string();
  }
  // Adds the digests of `run` to the directory of all, and returns that.
  std::string AddDigests(const std::string& run) {
    const absl::StatusOr<Digests> digests = ReadDigests(run);
    EXPECT_TRUE(digests.ok()) << digests.status();
    if (digests.ok()) {
      EXPECT_TRUE(WriteDigests(*digests, digests_.path()).ok());
    }
    return digests_.path();
  }
  // A directory with the manifest and some of the traces.
  void CopyRun(const std::string& to, const std::vector<int>& ranks) {
    fs::copy(directory_.path() + "/capture.json", to + "/capture.json");
    for (const int rank : ranks) {
      const std::string name = "/w" + std::to_string(rank) + ".xplane.pb";
      fs::copy(directory_.path() + name, to + name);
    }
  }
  void AddRun() {
    AddRanks(
        4, 20, [](int rank, int step) { return (rank == 1 ? 30 : 5) + Jitter(rank, step); },
        [](int, int) { return 50.0; });
  }

  TemporaryDirectory digests_;
};

// Each machine has the manifest, and the traces of its own workers.
TEST_F(MergeTest, DigestsOfTwoMachinesGiveTheReportOfTheWhole) {
  AddRun();
  WriteManifest();
  const std::string whole = JsonOf(directory_.path());
  const TemporaryDirectory one;
  const TemporaryDirectory other;
  CopyRun(one.path(), {0, 1});
  CopyRun(other.path(), {2, 3});
  AddDigests(one.path());
  EXPECT_EQ(JsonOf(AddDigests(other.path())), whole);
  // The run's own digest is now that of the first machine.
  EXPECT_EQ(JsonOf(AddDigests(one.path())), whole);
}

TEST_F(MergeTest, AMissingAndAnUnreadableWorkerGiveTheSameReport) {
  AddRun();
  AddMissing("w8", "unreachable", "connection refused");
  workers_.push_back({{"name", "w9"}, {"outcome", "ok"}, {"files", {{{"path", "w9.xplane.pb"}}}}});
  WriteManifest();
  directory_.Write("w9.xplane.pb", "\x0a\xff\xff");
  const std::string whole = JsonOf(directory_.path());
  EXPECT_THAT(whole, HasSubstr("connection refused"));
  EXPECT_THAT(whole, HasSubstr("not an XSpace"));
  EXPECT_EQ(JsonOf(AddDigests(directory_.path())), whole);
}

// The directory of digests already holds those of an earlier run.
class StaleDigestsTest : public MergeTest {
 protected:
  StaleDigestsTest() : earlier_run_(earlier_.path(), "earlier") {}

  // Ranks of the earlier run are twice as many.
  void AddRuns(int ranks) {
    const auto input_ms = [](int rank, int step) { return rank == 1 ? 30 : Jitter(rank, step); };
    const auto compute_ms = [](int, int) { return 50.0; };
    earlier_run_.AddRanks(2 * ranks, 20, input_ms, compute_ms);
    earlier_run_.WriteManifest();
    AddRanks(ranks, 20, input_ms, compute_ms);
  }

  TemporaryDirectory earlier_;
  MadeRun earlier_run_;
};

TEST_F(StaleDigestsTest, ADigestOfAnotherRunIsLeftOutAndReported) {
  AddRuns(4);
  WriteManifest();
  AddDigests(earlier_.path());
  json report = ReportOf(AddDigests(directory_.path()));
  EXPECT_EQ(report["workers"].size(), 4u);
  EXPECT_EQ(report["missing"].size(), 0u) << report["missing"];
  EXPECT_THAT(report["warnings"].dump(),
              HasSubstr("w7.digest is left out: it is of another run: earlier"));

  const TemporaryDirectory only_earlier;
  const absl::StatusOr<Digests> earlier = ReadDigests(earlier_.path());
  ASSERT_TRUE(earlier.ok() && WriteDigests(*earlier, only_earlier.path()).ok());
  fs::copy(only_earlier.path() + "/w3.digest", digests_.path() + "/w3.digest",
           fs::copy_options::overwrite_existing);
  report = ReportOf(digests_.path());
  EXPECT_EQ(report["workers"].size(), 3u);
  EXPECT_EQ(
      report["missing"],
      json::array({json({{"worker", "w3"}, {"reason", "its digest is of another run: earlier"}})}));
}

TEST_F(StaleDigestsTest, ATruncatedTraceHadADigestToo) {
  AddRuns(4);
  workers_[3]["outcome"] = "truncated";
  workers_[3]["reason"] = "shutdown";
  WriteManifest();
  AddDigests(directory_.path());
  fs::remove(digests_.path() + "/w3.digest");
  const absl::StatusOr<Digests> earlier = ReadDigests(earlier_.path());
  const TemporaryDirectory only_earlier;
  ASSERT_TRUE(earlier.ok() && WriteDigests(*earlier, only_earlier.path()).ok());
  fs::copy(only_earlier.path() + "/w3.digest", digests_.path() + "/w3.digest");
  const json report = ReportOf(digests_.path());
  EXPECT_EQ(
      report["missing"],
      json::array({json({{"worker", "w3"}, {"reason", "its digest is of another run: earlier"}})}));
}

TEST_F(StaleDigestsTest, AMissingWorkerIsNotTakenFromAnotherRun) {
  AddRuns(4);
  for (int rank = 4; rank < 8; ++rank) {
    AddMissing("w" + std::to_string(rank), "unreachable", "connection refused");
  }
  WriteManifest();
  AddDigests(earlier_.path());
  EXPECT_EQ(JsonOf(AddDigests(directory_.path())), JsonOf(directory_.path()));
}

// As earlier revisions wrote them.
TEST_F(StaleDigestsTest, DigestsWithoutTheNameOfTheirRunAreTaken) {
  AddRun();
  WriteManifest();
  absl::StatusOr<Digests> digests = ReadDigests(directory_.path());
  ASSERT_TRUE(digests.ok()) << digests.status();
  for (v1::Digest& digest : digests->workers) digest.clear_run();
  ASSERT_TRUE(WriteDigests(*digests, digests_.path()).ok());
  EXPECT_EQ(JsonOf(digests_.path()), JsonOf(directory_.path()));
}

// Another tool's run: names of directories and files are any bytes, those in digests are UTF-8.
TEST_F(MergeTest, NamesOfFilesThatAreNoUtf8) {
  const std::string run = directory_.path() + "/run\xff";
  ASSERT_TRUE(fs::create_directory(run));
  ASSERT_TRUE(fs::create_directory(run + ".part2"));
  for (const char* name : {"w\xfe", "w\xff"}) {
    TraceFile trace;
    for (int step = 0; step < 10; ++step) {
      trace.Step(step, step * 10, step * 10 + 10);
      trace.Event("forward", step * 10, step * 10 + 8);
    }
    std::ofstream(run + "/" + name + ".xplane.pb", std::ios::binary) << trace.Bytes();
  }
  std::ofstream(run + ".part2/w\xff.xplane.pb") << "no trace";
  std::ofstream(run + "/broken\xff.xplane.pb") << "no trace";
  const std::string digests = AddDigests(run);
  const json report = json::parse(JsonOf(digests));
  EXPECT_EQ(report.dump(), json::parse(JsonOf(run)).dump());
  EXPECT_EQ(report["run"], "run?");
  ASSERT_EQ(report["workers"].size(), 2u) << report["missing"];
  EXPECT_EQ(report["workers"][0]["name"], "w?");
  EXPECT_EQ(report["workers"][1]["name"], "w?_");
  ASSERT_EQ(report["missing"].size(), 1u) << report["missing"];
  EXPECT_EQ(report["missing"][0]["worker"], "broken?");
  EXPECT_THAT(report["warnings"].dump(),
              HasSubstr("a part of its trace is left out: w?.xplane.pb"));
}

}  // namespace
}  // namespace jobscope::analysis
