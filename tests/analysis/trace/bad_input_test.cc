// SPDX-License-Identifier: Apache-2.0
//
// Tests reports of runs with missing or invalid files: the report uses the rest, and states what it
// leaves out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "analysis/digest/digest_worker.h"
#include "analysis/output/report_text.h"
#include "analysis/trace/trace_reader.h"
#include "tensorflow/xplane.pb.h"
#include "tests/analysis/run_fixture.h"

namespace jobscope::analysis {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class BadInputTest : public RunFixture {
 protected:
  // Eight ranks of which one waits for its input.
  void AddStraggler(int steps = 30) {
    AddRanks(
        8, steps,
        [](int rank, int step) { return (rank == 5 ? 45 : 5) + (rank + step * 3) % 7 * 0.1; },
        [](int, int) { return 50.0; });
  }
  std::string Path(const std::string& name) const { return directory_.path() + "/" + name; }
};

TEST_F(BadInputTest, ATruncatedTraceIsLeftOut) {
  AddStraggler();
  WriteManifest();
  const auto size = std::filesystem::file_size(Path("w2.xplane.pb"));
  std::filesystem::resize_file(Path("w2.xplane.pb"), size / 2);
  const json report = ReportOfRun();
  EXPECT_EQ(report["verdict"]["workers"], json({"w5"}));
  EXPECT_EQ(report["missing"][0]["worker"], "w2");
  EXPECT_THAT(report["missing"][0]["reason"].get<std::string>(), HasSubstr("cut off"));
  EXPECT_THAT(report["sure"].get<std::string>(), HasSubstr("7 of 8 workers (w2"));
}

// One worker with two parts: ten steps in each.
class PartsTest : public BadInputTest {
 protected:
  PartsTest() {
    worker_.name = "w";
    for (int part = 0; part < 2; ++part) {
      TraceFile trace;
      for (int step = 10 * part; step < 10 * part + 10; ++step) {
        trace.Step(step, step * 10, step * 10 + 10);
        trace.Input(step * 10, step * 10 + 4);
        for (int i = 0; i < 100; ++i) {
          const double begin_ms = step * 10 + i * 0.1;
          trace.Event("augment", begin_ms, begin_ms + 0.05, {}, {}, "/host:CPU", 2);
          trace.Kernel("gemm", begin_ms, begin_ms + 0.05);
        }
      }
      const std::string name = absl::StrCat("w", part + 1, ".xplane.pb");
      worker_.files.push_back(directory_.Write(name, trace.Bytes()));
    }
  }
  // Opens files, and truncates the `nth` one before it is read: to its kernels, which come first.
  OpenFile Truncating(int nth) {
    return [this, nth](const std::string& path) {
      absl::StatusOr<MappedFile> file = MappedFile::Open(path);
      if (++opened_ == nth) std::filesystem::resize_file(path, file->bytes().size() * 6 / 10);
      return file;
    };
  }

  RunWorker worker_;
  int opened_ = 0;
};

TEST_F(PartsTest, APartThatIsTruncatedWhileItIsReadIsLeftOut) {
  RunWorker first = worker_;
  first.files.pop_back();
  const absl::StatusOr<v1::Digest> expected = DigestWorker(first);
  ASSERT_TRUE(expected.ok()) << expected.status();
  absl::StatusOr<v1::Digest> digest = DigestWorker(worker_, Truncating(2));
  ASSERT_TRUE(digest.ok()) << digest.status();
  ASSERT_EQ(digest->warnings_size(), 1);
  EXPECT_THAT(digest->warnings(0),
              HasSubstr("a part of its trace is left out: w2.xplane.pb: it was truncated"));
  digest->clear_warnings();
  EXPECT_EQ(digest->SerializeAsString(), expected->SerializeAsString());
}

TEST_F(PartsTest, AWorkerWhoseOnlyFileIsTruncatedWhileItIsReadIsMissing) {
  worker_.files.pop_back();
  const absl::Status status = DigestWorker(worker_, Truncating(1)).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("w1.xplane.pb: it was truncated"));
}

TEST_F(PartsTest, APartThatIsTruncatedBeforeItsSecondReadingHasNoTimeline) {
  const absl::StatusOr<v1::Digest> whole = DigestWorker(worker_);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_TRUE(whole->has_timeline());
  absl::StatusOr<v1::Digest> digest = DigestWorker(worker_, Truncating(4));
  ASSERT_TRUE(digest.ok()) << digest.status();
  EXPECT_FALSE(digest->has_timeline());
  ASSERT_EQ(digest->warnings_size(), 1);
  EXPECT_THAT(digest->warnings(0), HasSubstr("no timeline, because a part of its trace"));
  EXPECT_EQ(digest->steps().number_size(), 20);
}

TEST_F(BadInputTest, AnEmptyFileAFifoAndAFolderAreNoTraces) {
  AddStraggler();
  WriteManifest();
  std::filesystem::resize_file(Path("w0.xplane.pb"), 0);
  std::filesystem::remove(Path("w1.xplane.pb"));
  ASSERT_EQ(mkfifo(Path("w1.xplane.pb").c_str(), 0600), 0);
  std::filesystem::remove(Path("w2.xplane.pb"));
  std::filesystem::create_directory(Path("w2.xplane.pb"));
  std::filesystem::remove(Path("w3.xplane.pb"));
  const json report = ReportOfRun();
  EXPECT_EQ(report["verdict"]["workers"], json({"w5"}));
  EXPECT_EQ(report["missing"].size(), 4u) << report["missing"];
}

TEST_F(BadInputTest, AFirstPartAloneIsUsedAndSaid) {
  AddStraggler();
  workers_[4]["files"].push_back({{"path", "../r.part2/w4.xplane.pb"}});
  WriteManifest();
  const json report = ReportOfRun();
  EXPECT_EQ(report["verdict"]["workers"], json({"w5"}));
  EXPECT_THAT(report["warnings"][0].get<std::string>(),
              HasSubstr("w4: a part of its trace is left out"));
}

TEST_F(BadInputTest, PathsLeadNowhereElse) {
  AddStraggler();
  workers_[4]["files"] = json::array({{{"path", "../../../../etc/w4.xplane.pb"}}});
  WriteManifest();
  const json report = ReportOfRun();
  // The file that lies there is a worker that the manifest does not know.
  EXPECT_THAT(report["warnings"].dump(), HasSubstr("w4.xplane.pb is not in capture.json"));
}

TEST_F(BadInputTest, WithoutAManifestAndWithABrokenOne) {
  AddStraggler();
  json report = ReportOfRun();
  EXPECT_EQ(report["verdict"]["workers"], json({"w5"}));
  EXPECT_EQ(report["verdict"]["class"], "input");
  EXPECT_THAT(report["warnings"].dump(), HasSubstr("no capture.json"));
  EXPECT_THAT(report["warnings"].dump(), HasSubstr("only if the traces state them"));
  EXPECT_THAT(report["sure"].get<std::string>(), HasSubstr("clocks not compared"));
  EXPECT_THAT(report["sure"].get<std::string>(), HasSubstr("losses not known"));
  EXPECT_FALSE(report["workers"][0].contains("lost"));
  for (const char* broken : {"{", "[]", "7", "{\"workers\":7}", "\xff\xfe"}) {
    directory_.Write("capture.json", broken);
    report = ReportOfRun();
    EXPECT_EQ(report["verdict"]["workers"], json({"w5"})) << broken;
    EXPECT_THAT(report["warnings"].dump(), HasSubstr("cannot be read")) << broken;
  }
  directory_.Write("capture.json", "{\"workers\":[7,{\"name\":3,\"files\":{}},{\"files\":[0]}]}");
  EXPECT_EQ(ReportOfRun()["verdict"]["workers"], json({"w5"}));
}

// Ends this process, which is a death test's. Prints why a user that is not the owner of
// `directory` has no report of it.
[[noreturn]] void ReadAsAnother(const std::string& directory) {
  const uid_t nobody = 65534;
  if (geteuid() == 0 && setresuid(nobody, nobody, nobody) != 0) _exit(2);
  fprintf(stderr, "%s\n", std::string(ReadDigests(directory).status().message()).c_str());
  _exit(0);
}

TEST_F(BadInputTest, ARunOfAnotherUserSaysWhatItsOwnerCanDo) {
  AddStraggler();
  WriteManifest();
  constexpr char kSays[] = "Permission denied; ask its owner: .*--file_mode";
  for (const char* hidden : {"/run", ""}) {  // the run, and the directory that holds it
    const std::string run = Path("run");
    std::filesystem::create_directory(run);
    for (const std::string& name : List(directory_.path())) {
      if (name != "run") std::filesystem::rename(Path(name), absl::StrCat(run, "/", name));
    }
    ASSERT_EQ(chmod(directory_.path().c_str(), 0755), 0);
    ASSERT_EQ(chmod((directory_.path() + hidden).c_str(), 0), 0);
    EXPECT_EXIT(ReadAsAnother(run), ::testing::ExitedWithCode(0), kSays) << hidden;
    ASSERT_EQ(chmod((directory_.path() + hidden).c_str(), 0755), 0);
  }
}

// Viewers list the directories of further parts as runs, too.
TEST_F(BadInputTest, AFurtherPartNamesItsRun) {
  AddStraggler();
  const std::string part = Path("r.part2");
  std::filesystem::create_directory(part);
  std::filesystem::rename(Path("w2.xplane.pb"), part + "/w2.xplane.pb");
  EXPECT_THAT(ReportOf(part)["warnings"].dump(),
              HasSubstr("this is only a part of the run r; name its directory"));
}

TEST_F(BadInputTest, ANewerSchemaIsAnAnswerWithAWarning) {
  AddStraggler();
  WriteManifest(/*schema=*/2);
  const json report = ReportOfRun();
  EXPECT_EQ(report["verdict"]["workers"], json({"w5"}));
  EXPECT_THAT(report["warnings"].dump(), HasSubstr("newer than this program"));
}

TEST_F(BadInputTest, StepsBeforeTheStartLackWhatWasNotRecordedThen) {
  AddStraggler();
  WriteManifest();
  EXPECT_EQ(ReportOfRun()["warnings"], json::array());
  WriteManifest(/*schema=*/1, /*lookback_ns=*/2'500'000'000);
  EXPECT_THAT(ReportOfRun()["warnings"].dump(),
              AllOf(HasSubstr("2.5 s of this run"), HasSubstr("--lookback_ms"),
                    HasSubstr("only steps, input waits and coarse scopes")));
}

TEST_F(BadInputTest, ADuplicateRankIsSaid) {
  AddStraggler();
  workers_[3]["rank"] = 5;
  WriteManifest();
  EXPECT_THAT(ReportOfRun()["warnings"].dump(), HasSubstr("rank 5 twice: w3 and w5"));
}

TEST_F(BadInputTest, AWorkerWithFewStepsDoesNotKeepOthersFromBeingCompared) {
  AddStraggler(40);
  TraceFile late;
  late.Step(110, 5000, 5100);
  late.Input(5000, 5050);
  AddWorker(8, "node2", late);
  WriteManifest();
  const json report = ReportOfRun();
  EXPECT_EQ(report["steps"]["common"], 40);
  EXPECT_EQ(report["verdict"]["workers"], json({"w5"}));
  EXPECT_THAT(report["warnings"].dump(), HasSubstr("1 worker recorded fewer than 8 steps"));
}

TEST_F(BadInputTest, StepsThatDifferAreComparedWhereTheyMeet) {
  AddStraggler(40);
  WriteManifest();
  // Without the first 25 steps of one rank.
  tensorflow::profiler::XSpace space;
  ASSERT_TRUE(space.ParseFromString(ReadAll(Path("w2.xplane.pb"))));
  for (auto& plane : *space.mutable_planes()) {
    auto* events = plane.mutable_lines(0)->mutable_events();
    events->DeleteSubrange(0, events->size() * 25 / 40);
  }
  directory_.Write("w2.xplane.pb", space.SerializeAsString());
  const json report = ReportOfRun();
  EXPECT_EQ(report["steps"]["common"], 15);
  EXPECT_EQ(report["verdict"]["workers"], json({"w5"}));
}

// The straggler's own events are lost: what it did is not known.
TEST_F(BadInputTest, ACauseThatMayBeLostIsNotNamed) {
  AddStraggler();
  tensorflow::profiler::XSpace space;
  ASSERT_TRUE(space.ParseFromString(ReadAll(Path("w5.xplane.pb"))));
  v1::Summary summary;
  v1::ThreadLoss* loss = summary.add_threads();
  loss->set_tid(1);
  loss->set_attempted(1000);
  loss->set_lost(20);
  auto* plane = space.add_planes();
  plane->set_name("Task Environment");
  (*plane->mutable_stat_metadata())[1].set_id(1);
  (*plane->mutable_stat_metadata())[1].set_name("jobscope_summary");
  auto* stat = plane->add_stats();
  stat->set_metadata_id(1);
  stat->set_bytes_value(summary.SerializeAsString());
  directory_.Write("w5.xplane.pb", space.SerializeAsString());
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["finding"], "undecidable") << verdict;
  EXPECT_THAT(verdict["why_undecidable"].get<std::string>(),
              HasSubstr("2.0 % of its step thread's events are lost"));
}

// Killed before it wrote its summary: by thread its losses are not known.
TEST_F(BadInputTest, LossesWithoutThreadsDecideToo) {
  for (const uint64_t lost : {0, 100}) {
    workers_ = json::array();
    AddStraggler();
    workers_[5]["lost"] = lost;
    WriteManifest();
    const json verdict = ReportOfRun()["verdict"];
    EXPECT_EQ(verdict["finding"], lost == 0 ? "straggler" : "undecidable") << verdict;
    if (lost == 0) continue;
    EXPECT_THAT(verdict["why_undecidable"].get<std::string>(),
                HasSubstr("% of its events are lost, on which threads is not known"));
  }
}

TEST_F(BadInputTest, WhatIsNoRunIsAnError) {
  EXPECT_EQ(ReadDigests(Path("nothing")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadDigests(directory_.path()).status().code(), absl::StatusCode::kNotFound);
  directory_.Write("file", "x");
  EXPECT_EQ(ReadDigests(Path("file")).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(BadInputTest, BrokenDigestsAreMissingWorkers) {
  AddStraggler();
  WriteManifest();
  const absl::StatusOr<Digests> digests = ReadDigests(directory_.path());
  ASSERT_TRUE(digests.ok());
  const std::string folder = Path("digests");
  ASSERT_TRUE(WriteDigests(*digests, folder).ok());
  std::ofstream(folder + "/w1.digest") << "nonsense";
  std::filesystem::resize_file(folder + "/w2.digest", 0);
  std::filesystem::remove(folder + "/w3.digest");
  v1::Digest other = digests->workers[0];
  other.set_schema(kDigestSchema + 1);
  std::ofstream(folder + "/w0.digest") << other.SerializeAsString();
  other = digests->workers[4];
  other.set_schema(kDigestSchema - 1);
  std::ofstream(folder + "/w4.digest") << other.SerializeAsString();
  const json report = ReportOf(folder);
  EXPECT_EQ(report["verdict"]["workers"], json({"w5"}));
  EXPECT_EQ(report["missing"].size(), 5u) << report["missing"];
  EXPECT_THAT(report["missing"].dump(), HasSubstr("use a newer jobscope"));
  EXPECT_THAT(report["missing"].dump(),
              HasSubstr(absl::StrCat("has schema ", kDigestSchema - 1, ", this program knows ",
                                     kDigestSchema, "; write it again from the run")));
}

TEST_F(BadInputTest, OfTooManyThreadsTheFirstAreUsedAndThatIsSaid) {
  tensorflow::profiler::XSpace space;
  auto* plane = space.add_planes();
  plane->set_name("/host:CPU");
  constexpr int64_t kThreads = int64_t{WorkerTrace::kMaxThreads};
  for (int64_t id = 1; id <= kThreads + 7; ++id) plane->add_lines()->set_id(id);
  plane->add_lines()->set_id(1);  // more of a thread that is known
  TraceReader reader;
  ASSERT_TRUE(reader.Read(space.SerializeAsString()).ok());
  const std::unique_ptr<WorkerTrace> trace = reader.Finish();
  EXPECT_EQ(trace->threads.size(), WorkerTrace::kMaxThreads);
  const v1::Digest digest = BuildDigest(RunWorker(), trace.get());
  ASSERT_EQ(digest.warnings_size(), 1);
  EXPECT_EQ(digest.warnings(0), "more than 65536 threads: 7 of their lines are left out");
}

// Cut at each byte, and each byte changed: an answer or an error.
TEST_F(BadInputTest, NoByteOfATraceCrashes) {
  TraceFile trace;
  for (int step = 0; step < 3; ++step) {
    trace.Step(step, step * 10, step * 10 + 9);
    trace.Input(step * 10, step * 10 + 4);
    trace.AllReduce(step, step * 10 + 5, step * 10 + 9);
    trace.Kernel("gemm", step * 10 + 1, step * 10 + 2);
  }
  const std::string bytes = trace.Bytes();
  const auto digest = [](const std::string& damaged) {
    TraceReader reader;
    (void)reader.Read(damaged);  // an error is right, too
    RunWorker worker;
    worker.name = "w";
    const std::unique_ptr<WorkerTrace> read = reader.Finish();
    Digests digests;
    digests.workers = {BuildDigest(worker, read.get())};
    EXPECT_TRUE(ViewOf(digests.workers[0]).ok());
    EXPECT_FALSE(ReportText(Reduce(digests)).empty());
  };
  for (size_t size = 0; size < bytes.size(); ++size) digest(bytes.substr(0, size));
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    digest(damaged);
  }
}

TEST_F(BadInputTest, DigestsOfANewerProgramAreNoWorkersWithoutSteps) {
  AddStraggler();
  WriteManifest();
  absl::StatusOr<Digests> digests = ReadDigests(directory_.path());
  ASSERT_TRUE(digests.ok());
  for (v1::Digest& digest : digests->workers) digest.set_schema(99);
  const json report = json::parse(ReportJson(Reduce(*digests)));
  EXPECT_EQ(report["verdict"]["finding"], "undecidable");
  EXPECT_THAT(report["verdict"]["why_undecidable"].get<std::string>(), HasSubstr("has schema 99"));
  EXPECT_THAT(report["sure"].get<std::string>(), HasSubstr("0 of 8 workers"));
  EXPECT_THAT(report["sure"].get<std::string>(), Not(HasSubstr("events lost")));
}

TEST_F(BadInputTest, AWorkerThatDiedInTheMiddleIsUsedAndSaid) {
  AddStraggler();
  workers_[4]["outcome"] = "truncated";
  workers_[4]["reason"] = "the process was killed";
  WriteManifest();
  const json report = ReportOfRun();
  EXPECT_EQ(report["verdict"]["workers"], json({"w5"}));
  ASSERT_EQ(report["warnings"].size(), 1u) << report["warnings"];
  EXPECT_THAT(report["warnings"][0].get<std::string>(),
              HasSubstr("w4: truncated (the process was killed)"));
}

// Beside it a single step of another rank is certain.
TEST_F(BadInputTest, AStragglerInDoubtIsSaidBesideAFinding) {
  AddRanks(
      8, 40, [](int rank, int step) { return (rank == 5 ? 45 : 5) + Jitter(rank, step); },
      [](int rank, int step) { return rank == 2 && step == 17 ? 1500.0 : 50.0; });
  WriteManifest();
  absl::StatusOr<Digests> digests = ReadDigests(directory_.path());
  ASSERT_TRUE(digests.ok());
  for (v1::Digest& digest : digests->workers) {
    if (digest.name() != "w5") continue;
    digest.set_step_thread_attempted(1000);
    digest.set_step_thread_lost(100);
  }
  const json report = json::parse(ReportJson(Reduce(*digests)));
  EXPECT_EQ(report["verdict"]["workers"], json({"w2"})) << report["verdict"];
  EXPECT_EQ(report["findings"].size(), 1u);
  EXPECT_THAT(report["warnings"].dump(), HasSubstr("w5 stands out, but 10.0 %"));
}

}  // namespace
}  // namespace jobscope::analysis
