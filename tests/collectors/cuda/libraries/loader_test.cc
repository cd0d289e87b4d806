// SPDX-License-Identifier: Apache-2.0
//
// Tests which libcupti is loaded. Each case is a process of its own, because libraries stay loaded.
#include "collectors/cuda/libraries/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/subprocess.h"
#include "tests/temporary_directory.h"

namespace jobscope::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

namespace fs = std::filesystem;

struct Result {
  int code = 0;
  std::string out;
};

Result Probe(std::vector<std::string> arguments, std::vector<std::string> environment = {}) {
  arguments.insert(arguments.begin(), CUPTI_PROBE);
  Subprocess process(std::move(arguments), std::move(environment));
  Result result;
  result.code = process.Wait();
  result.out = process.out();
  return result;
}

class LoaderTest : public ::testing::Test {
 protected:
  // A copy of the fake under this path in the test's own folder.
  std::string Place(const std::string& path, const std::string& library = FAKE_CUPTI) {
    const fs::path target = fs::path(folder_.path()) / path;
    fs::create_directories(target.parent_path());
    fs::copy_file(library, target);
    return target.string();
  }
  std::string Folder(const std::string& path) { return (fs::path(folder_.path()) / path).string(); }
  TemporaryDirectory folder_;
};

TEST_F(LoaderTest, AnExplicitLibraryIsTaken) {
  const std::string path = Place("here/libcupti.so.12");
  const Result result = Probe({"--library", path, "--walk"});
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_THAT(result.out, HasSubstr("loaded 130001 " + path));
}

TEST_F(LoaderTest, AnExplicitLibraryThatIsNoneIsAnErrorAndNothingElseIsTried) {
  const Result result = Probe({"--map", Place("a/libcupti.so.12"), "--library", "/nowhere.so"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("JOBSCOPE_CUPTI_LIBRARY cannot be loaded: /nowhere.so"));
}

TEST_F(LoaderTest, ALibraryWithoutCuptisFunctionsIsNamed) {
  const Result result = Probe({"--library", FAKE_CUDA});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("lacks cuptiGetVersion"));
}

TEST_F(LoaderTest, TheCopyThatIsMappedAlreadyWins) {
  const std::string mapped = Place("framework/libcupti.so.12");
  Place("toolkit/extras/CUPTI/lib64/libcupti.so.13");
  const Result result = Probe({"--map", mapped}, {"CUDA_HOME=" + Folder("toolkit"),
                                                  "LD_LIBRARY_PATH=" + Folder("toolkit/extras")});
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_THAT(result.out, HasSubstr(mapped));
}

TEST_F(LoaderTest, TheRuntimeOfTheProcessLeadsToIts) {
  const std::string runtime = Place("cuda/lib64/libcudart.so.12", FAKE_CUDA);
  const std::string cupti = Place("cuda/extras/CUPTI/lib64/libcupti.so.12");
  const Result result = Probe({"--map", runtime});
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_THAT(fs::weakly_canonical(result.out.substr(result.out.find('/'),
                                                     result.out.find('\n') - result.out.find('/'))),
              fs::weakly_canonical(cupti));
}

TEST_F(LoaderTest, PipPackagesOfTheRunningInterpreterAreFound) {
  const std::string site = "venv/lib/python3.11/site-packages/";
  const std::string extension = Place(site + "numpy/core.so", FAKE_CUDA);
  const std::string cupti = Place(site + "nvidia/cuda_cupti/lib/libcupti.so.12", FAKE_CUPTI_BARE);
  // A driver that a toolkit on this machine is too new for. (The fake says what version it is.)
  const Result result =
      Probe({"--map", extension, "--driver", "11080"}, {"CUDA_HOME=", "FAKE_CUPTI_VERSION=18"});
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_THAT(result.out, HasSubstr(cupti));
}

TEST_F(LoaderTest, OneThatIsNewerThanTheDriverIsPassedOverAndNamed) {
  Place("toolkit/extras/CUPTI/lib64/libcupti.so", FAKE_CUPTI_BARE);
  const Result result =
      Probe({"--driver", "10020"}, {"CUDA_HOME=" + Folder("toolkit"), "FAKE_CUPTI_VERSION=22"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("libcupti.so is of CUDA 12.4, the driver of CUDA 10"));
}

// Its file's name does not tell that it is of CUDA 13, and any call would end the process.
TEST_F(LoaderTest, OneOfCuda13IsNotCalledOnAnOlderDriver) {
  const std::string newer = Place("cuda/lib64/libcupti.so");
  const Result refused =
      Probe({"--library", newer, "--driver", "12040"}, {"FAKE_CUPTI_CANNOT_START=1"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.out, HasSubstr(newer + " is of CUDA 13 or later, the driver of CUDA 12"));
  const std::string runtime = Place("cuda/lib64/libcudart.so.12", FAKE_CUDA);
  Place("cuda/extras/CUPTI/lib64/libcupti.so.12", FAKE_CUPTI_BARE);
  std::vector<std::string> arguments = {"--map", runtime, "--driver", "12040"};
  for (const char* const before : {"found on the way", "mapped already"}) {
    SCOPED_TRACE(before);
    const Result result = Probe(arguments, {"FAKE_CUPTI_CANNOT_START=1", "FAKE_CUPTI_VERSION=22"});
    EXPECT_EQ(result.code, 0) << result.out;
    EXPECT_THAT(result.out, AllOf(HasSubstr("loaded 22 "), HasSubstr("libcupti.so.12")));
    arguments.insert(arguments.end(), {"--map", newer});
  }
}

TEST_F(LoaderTest, WithoutTheNewerFunctionsItIsLoadedAllTheSame) {
  const Result result = Probe({"--library", FAKE_CUPTI_BARE});
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_THAT(result.out, StartsWith("loaded "));
}

TEST(CandidatesTest, ThoseOfALaterMajorThanTheDriversComeLast) {
  LoadOptions options;
  options.driver_version = 12020;
  const std::vector<std::string> candidates = CuptiCandidates(options);
  const auto at = [&](const std::string& name) {
    return std::find(candidates.begin(), candidates.end(), name) - candidates.begin();
  };
  EXPECT_LT(at("libcupti.so.12"), at("libcupti.so.11.8"));
  EXPECT_LT(at("libcupti.so.11.0"), at("libcupti.so.13"));
  EXPECT_LT(at("libcupti.so.13"), static_cast<std::ptrdiff_t>(candidates.size()));
  options.driver_version = 13000;
  const std::vector<std::string> newer = CuptiCandidates(options);
  EXPECT_EQ(newer.front(), "libcupti.so.13");
}

#ifdef TOOLKIT_CUPTI
TEST(ToolkitTest, ItsLibraryWalksOurRecords) {
  const Result result = Probe({"--library", TOOLKIT_CUPTI, "--walk"});
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_THAT(result.out, HasSubstr("walked 9"));
}

// The real library's failing calls, without a GPU: a session ends in a reason, the process lives.
TEST(ToolkitTest, WhatFailsInItsLibraryIsReportedAndLeavesMemoryAlone) {
  const Result result = Probe({"--library", TOOLKIT_CUPTI, "--fail"});
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_THAT(result.out, HasSubstr("message of 35: User doesn't have sufficient privileges"));
  EXPECT_THAT(result.out, HasSubstr("session: "));
  if (access("/dev/nvidiactl", F_OK) != 0) {
    EXPECT_THAT(result.out, HasSubstr("cuptiSubscribe: 999 UNKNOWN, CUPTI 13"));
  }
}
#endif

}  // namespace
}  // namespace jobscope::cuda
