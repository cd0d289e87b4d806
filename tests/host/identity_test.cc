// SPDX-License-Identifier: Apache-2.0
#include "common/identity.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <initializer_list>
#include <string>
#include <utility>

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
    return ReadIdentity();
  }
};

TEST_F(IdentityTest, KnowsTheProcess) {
  const v1::Identity identity = ReadIdentity();
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

TEST(VersionTest, HasThreeNumbers) { EXPECT_STREQ(Version(), "0.1.0"); }

}  // namespace
}  // namespace jobscope
