// SPDX-License-Identifier: Apache-2.0
//
// Files of /proc and of a cgroup hierarchy with any content: no crash, no more files than the
// limit. The input is three texts, separated by NUL: cgroup, mountinfo, cpu.stat. "@" in mountinfo
// stands for the directory of the hierarchy.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "collectors/system/cgroup_throttling.h"
#include "tests/temporary_directory.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const jobscope::TemporaryDirectory directory;
  const std::string input(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> texts = absl::StrSplit(input, absl::MaxSplits('\0', 2));
  texts.resize(3);
  std::ofstream(directory.path() + "/cgroup") << texts[0];
  std::ofstream(directory.path() + "/mountinfo")
      << absl::StrReplaceAll(texts[1], {{"@", directory.path()}});
  std::ofstream(directory.path() + "/cpu.stat") << texts[2];
  const jobscope::CgroupThrottling throttling(directory.path());
  if (throttling.files().size() > jobscope::CgroupThrottling::kMaxCgroups) std::abort();
  (void)throttling.Read();
  return 0;
}
