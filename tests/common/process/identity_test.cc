// SPDX-License-Identifier: Apache-2.0
#include "common/process/identity.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/process/own_environment.h"

namespace jobscope {
namespace {

class IdentityTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS",
          "SLURM_JOB_ID", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
          "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "MPI_LOCALRANKID",
          "LSB_JOBID", "PBS_JOBID", "KUBERNETES_SERVICE_HOST", "HOSTNAME", "TORCHELASTIC_RUN_ID"}) {
      unsetenv(name);
    }
  }
  static v1::Identity With(std::initializer_list<std::pair<const char*, const char*>> environment) {
    for (const auto& [name, value] : environment) setenv(name, value, 1);
    return ProcessIdentity().Read();
  }
};

TEST_F(IdentityTest, KnowsTheProcess) {
  const v1::Identity identity = ProcessIdentity().Read();
  EXPECT_EQ(identity.pid(), getpid());
  EXPECT_FALSE(identity.host().empty());
  EXPECT_NE(identity.executable().find("identity_test"), std::string::npos);
  EXPECT_FALSE(identity.has_rank());
  EXPECT_FALSE(identity.has_local_rank());
  EXPECT_FALSE(identity.has_world_size());
  EXPECT_EQ(identity.job(), "");
}

TEST_F(IdentityTest, ReadsTorchrun) {
  const v1::Identity identity = With({{"RANK", "11"}, {"LOCAL_RANK", "3"}, {"WORLD_SIZE", "16"}});
  EXPECT_EQ(identity.rank(), 11);
  EXPECT_EQ(identity.local_rank(), 3);
  EXPECT_EQ(identity.world_size(), 16);
}

TEST_F(IdentityTest, ReadsSlurm) {
  const v1::Identity identity = With({{"SLURM_PROCID", "0"},
                                      {"SLURM_LOCALID", "0"},
                                      {"SLURM_NTASKS", "8"},
                                      {"SLURM_JOB_ID", "4711"}});
  EXPECT_TRUE(identity.has_rank());
  EXPECT_EQ(identity.rank(), 0);
  EXPECT_TRUE(identity.has_local_rank());
  EXPECT_EQ(identity.world_size(), 8);
  EXPECT_EQ(identity.job(), "4711");
}

TEST_F(IdentityTest, TheInnermostLauncherWins) {
  // mpirun started its daemon by srun: the Slurm rank is the daemon's.
  v1::Identity identity = With({{"SLURM_PROCID", "0"},
                                {"SLURM_NTASKS", "2"},
                                {"OMPI_COMM_WORLD_RANK", "5"},
                                {"OMPI_COMM_WORLD_SIZE", "8"}});
  EXPECT_EQ(identity.rank(), 5);
  EXPECT_EQ(identity.world_size(), 8);
  identity = With({{"RANK", "7"}});
  EXPECT_EQ(identity.rank(), 7);
}

TEST_F(IdentityTest, WhatIsNoNumberInRangeIsAbsent) {
  const v1::Identity identity =
      With({{"RANK", "seven"}, {"LOCAL_RANK", "-1"}, {"WORLD_SIZE", "0"}});
  EXPECT_FALSE(identity.has_rank());
  EXPECT_FALSE(identity.has_local_rank());
  EXPECT_FALSE(identity.has_world_size());
  EXPECT_FALSE(With({{"RANK", "99999999999"}}).has_rank());
}

TEST_F(IdentityTest, NamesThePodOfTheJob) {
  EXPECT_EQ(With({{"HOSTNAME", "trainer-0"}}).job(), "") << "a host name alone is no job";
  EXPECT_EQ(With({{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}}).job(), "trainer-0");
}

TEST_F(IdentityTest, ForeignBytesStayValidUtf8) {
  EXPECT_EQ(With({{"SLURM_JOB_ID", "a\xff\nb"}}).job(), "a??b");
}

TEST_F(IdentityTest, ARankThatIsSetLaterIsSeen) {
  ProcessIdentity identity;
  EXPECT_FALSE(identity.Read().has_rank());
  setenv("SLURM_PROCID", "0", 1);  // the launcher's
  EXPECT_EQ(identity.Read().rank(), 0);
  setenv("RANK", "11", 1);
  setenv("WORLD_SIZE", "16", 1);
  EXPECT_EQ(identity.Read().rank(), 11);
  EXPECT_EQ(identity.Read().world_size(), 16);
  static char by_putenv[] = "RANK=12";
  putenv(by_putenv);
  EXPECT_EQ(identity.Read().rank(), 12);
}

TEST_F(IdentityTest, ARankThatIsRemovedIsStillKnown) {
  setenv("SLURM_PROCID", "0", 1);
  setenv("RANK", "11", 1);
  ProcessIdentity identity;
  unsetenv("RANK");
  EXPECT_EQ(identity.Read().rank(), 11) << "the variable of an outer launcher does not take over";
  clearenv();
  EXPECT_EQ(identity.Read().rank(), 11);
}

class OwnEnvironmentTest : public testing::Test {
 protected:
  static Variables Read(std::initializer_list<std::string_view> names) {
    auto variables = ReadOwnEnvironment(names);
    EXPECT_TRUE(variables.ok()) << variables.status();
    return variables.ok() ? *variables : Variables();
  }
};

TEST_F(OwnEnvironmentTest, ReadsWhatGetenvReads) {
  setenv("JOBSCOPE_TEST_SET", "a=b", 1);
  setenv("JOBSCOPE_TEST_EMPTY", "", 1);
  setenv("JOBSCOPE_TEST_LONG", std::string(5000, 'x').c_str(), 1);
  unsetenv("JOBSCOPE_TEST_NONE");
  static char nothing[] = "JOBSCOPE_TEST_BARE";  // putenv of glibc would remove it
  std::vector<char*> with_odd = {nothing};
  for (char** variable = environ; *variable != nullptr; ++variable) with_odd.push_back(*variable);
  static char second[] = "JOBSCOPE_TEST_EMPTY=second";
  with_odd.push_back(second);
  with_odd.push_back(nullptr);
  char** const before = environ;
  environ = with_odd.data();
  const Variables variables =
      Read({"JOBSCOPE_TEST_SET", "JOBSCOPE_TEST_EMPTY", "JOBSCOPE_TEST_LONG", "JOBSCOPE_TEST_NONE",
            "JOBSCOPE_TEST_BARE", "JOBSCOPE_TEST"});
  environ = before;
  EXPECT_EQ(variables.size(), 3u);
  EXPECT_EQ(variables.at("JOBSCOPE_TEST_SET"), "a=b");
  EXPECT_EQ(variables.at("JOBSCOPE_TEST_EMPTY"), "");
  EXPECT_EQ(variables.at("JOBSCOPE_TEST_LONG"), std::string(4096, 'x'));
}

// A string that ends where memory ends, one that lies across pages, and one that is gone.
TEST_F(OwnEnvironmentTest, FollowsNoPointerBeyondMemory) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto* const pages = static_cast<char*>(
      mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(munmap(pages + 2 * page, page), 0);
  const std::string last = "RANK=7";
  const std::string across = "WORLD_SIZE=16";
  char* const last_at = pages + 2 * page - last.size() - 1;
  char* const across_at = pages + page - 5;
  std::memcpy(last_at, last.c_str(), last.size() + 1);
  std::memcpy(across_at, across.c_str(), across.size() + 1);
  char* strings[] = {pages + 2 * page, last_at, across_at, nullptr};
  char** const before = environ;
  environ = strings;
  const Variables variables = Read({"RANK", "WORLD_SIZE"});
  environ = nullptr;
  const Variables none = Read({"RANK"});
  environ = before;
  munmap(pages, 2 * page);
  EXPECT_EQ(variables, (Variables{{"RANK", "7"}, {"WORLD_SIZE", "16"}}));
  EXPECT_TRUE(none.empty());
}

// A program that rebuilds its environment all the time: the identity has its values, or fewer.
TEST_F(IdentityTest, StandsBesideThreadsThatChangeTheEnvironment) {
  static constexpr int kReadings = 500;
  std::atomic<bool> stop = false;
  setenv("RANK", "1", 1);
  setenv("LOCAL_RANK", "5", 1);
  ProcessIdentity identity;
  std::thread changer([&stop] {
    for (int round = 0; !stop; ++round) {
      if (round % 7 == 0) clearenv();
      setenv("LOCAL_RANK", "5", 1);
      setenv("RANK", round % 2 == 0 ? "1" : "22222", 1);
      for (int i = 0; i < 100; ++i) {
        const std::string name = "JOBSCOPE_TEST_" + std::to_string((i * 37 + round) % 300);
        if (i % 3 == 0) {
          unsetenv(name.c_str());
        } else {
          setenv(name.c_str(), std::string(static_cast<size_t>(round % 200), 'x').c_str(), 1);
        }
      }
    }
  });
  std::set<int> seen;
  for (int i = 0; i < kReadings || (seen.size() < 2 && i < 20'000); ++i) {
    const v1::Identity now = identity.Read();
    ASSERT_TRUE(now.rank() == 1 || now.rank() == 22222) << now.rank();
    ASSERT_EQ(now.local_rank(), 5);
    ASSERT_EQ(now.job(), "");
    seen.insert(now.rank());
  }
  stop = true;
  changer.join();
  EXPECT_EQ(seen.size(), 2u) << "changes are still seen";
  clearenv();
}

TEST(VersionTest, HasThreeNumbers) { EXPECT_STREQ(Version(), "0.1.0"); }

}  // namespace
}  // namespace jobscope
