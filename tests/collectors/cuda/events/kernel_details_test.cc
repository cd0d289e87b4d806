// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <clocale>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "collectors/cuda/events/gpu_plane.h"
#include "tests/collectors/cuda/events/writer_rig.h"

namespace jobscope::cuda {
namespace {

// Returns the text of a launch of 3 blocks, each of 23 warps, of which a multiprocessor holds 2.
std::string DetailsOf(const DeviceInfo& device) {
  WriterRig rig;
  (void)rig.kernels.Find("_Z3addv");
  GpuPlane plane(&rig.store, &rig.names, &rig.kernels, &rig.window, &device);
  EXPECT_TRUE(plane.Declare("/device:GPU:0", 1));
  TimedActivity timed = At(ActivityType::kKernel, 100);
  timed.activity.grid[0] = 3;
  timed.activity.block[0] = 23 * 32;
  timed.activity.grid[1] = timed.activity.grid[2] = 1;
  timed.activity.block[1] = timed.activity.block[2] = 1;
  plane.Write(timed, nullptr);
  plane.Flush();
  const tensorflow::profiler::XSpace space = SpaceOf(rig.store);
  for (const auto& written : space.planes()) {
    for (const auto& [id, stat] : written.stat_metadata()) {
      if (stat.name().rfind("regs:", 0) == 0) return stat.name();
    }
  }
  return "";
}

DeviceInfo Device() {
  DeviceInfo device;
  device.max_threads_per_multiprocessor = 2048;
  device.max_blocks_per_multiprocessor = 32;
  return device;
}

constexpr char kLaunch[] = "regs:0 static_shared:0 dynamic_shared:0 grid:3,1,1 block:736,1,1";

TEST(KernelDetails, HaveTheOccupancyIfItIsKnown) {
  EXPECT_EQ(DetailsOf(Device()), std::string(kLaunch) + " occ_pct:71.875");
  EXPECT_EQ(DetailsOf(DeviceInfo()), kLaunch);
}

// XProf reads the number, with a point, whatever the program's locale.
TEST(KernelDetails, DoNotDependOnTheLocale) {
  std::string folder = ::testing::TempDir() + "locale_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::ofstream(folder + "/source") << "LC_NUMERIC\ndecimal_point \"<U002C>\"\n"
                                       "thousands_sep \"\"\ngrouping -1\nEND LC_NUMERIC\n";
  const std::string command = "localedef -c -f ANSI_X3.4-1968 -i " + folder + "/source " + folder +
                              "/comma > /dev/null 2>&1";
  (void)std::system(command.c_str());  // NOLINT(bugprone-command-processor)
  setenv("LOCPATH", folder.c_str(), 1);
  const bool has_comma = std::setlocale(LC_NUMERIC, "comma") != nullptr;
  const std::string details = DetailsOf(Device());
  std::setlocale(LC_NUMERIC, "C");
  unsetenv("LOCPATH");
  std::filesystem::remove_all(folder);
  if (!has_comma) GTEST_SKIP() << "localedef cannot make a locale here";
  EXPECT_EQ(details, std::string(kLaunch) + " occ_pct:71.875");
}

}  // namespace
}  // namespace jobscope::cuda
