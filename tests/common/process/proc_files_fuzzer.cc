// SPDX-License-Identifier: Apache-2.0
//
// Files of /proc and of cgroups with any content. The first byte says which; the rest is the text.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "collectors/host/recorder/second_number.h"
#include "common/net/socket_table.h"
#include "common/process/cgroup_limits.h"
#include "common/process/proc_files.h"
#include "tests/fuzz_input.h"
#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

constexpr absl::string_view kLocal = "0100007F:1F90";
constexpr absl::string_view kRemote = "0100007F:C001";

const TemporaryDirectory& Folder() {
  static const TemporaryDirectory folder;
  return folder;
}

// Decides who may connect: a socket that is found is a line of the table with these two ends in
// their columns, wherever the parts end in which the table is read.
void CheckSocketTable(FuzzInput* input) {
  const size_t others = input->Take<uint16_t>() % 1'000;
  const std::string text = input->TakeBytes(std::numeric_limits<size_t>::max());
  std::string table;
  for (size_t i = 0; i < others; ++i) table += std::string(149, ' ') + '\n';
  table += text;
  bool readable = false;
  const auto found = SearchTable(Folder().Write("tcp", table).c_str(), kLocal, kRemote, &readable);
  Require(!(found.has_value() && readable));
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  lines.pop_back();  // ends in no line break
  bool listed = false;
  bool long_line = false;
  for (const absl::string_view line : lines) {
    const std::vector<absl::string_view> columns = absl::StrSplit(line, ' ', absl::SkipEmpty());
    listed |= columns.size() > 9 && columns[1] == kLocal && columns[2] == kRemote;
    long_line |= line.size() > 60'000;
  }
  if (found.has_value()) Require(listed);
  if (!listed && !long_line && text.size() < 60'000) Require(readable);
}

void CheckUserMap(FuzzInput* input) {
  const std::string text = input->TakeBytes(std::numeric_limits<size_t>::max());
  const bool all = AllUsersHaveNumbers(Folder().Write("uid_map", text).c_str());
  if (all) Require(text.find("4294967295") != std::string::npos);
}

// The text of each file follows the one before, and a zero byte. The groups are /a and /a/b.
void CheckCgroups(FuzzInput* input) {
  constexpr std::array kFiles = {"membership",
                                 "mount/a/b/memory.max",
                                 "mount/a/b/memory.current",
                                 "mount/a/b/memory.stat",
                                 "mount/a/b/pids.max",
                                 "mount/a/b/pids.current",
                                 "mount/a/pids.max",
                                 "mount/a/pids.current",
                                 "mount/memory/a/memory.limit_in_bytes",
                                 "mount/memory/a/memory.usage_in_bytes",
                                 "mount/memory/a/memory.stat",
                                 "mount/pids/a/pids.max",
                                 "mount/pids/a/pids.current"};
  static const bool made = [] {
    for (const char* group : {"mount/a/b", "mount/memory/a", "mount/pids/a"}) {
      std::filesystem::create_directories(Folder().path() + "/" + group);
      (void)Folder().Write(std::string(group) + "/cgroup.procs", "");
    }
    return true;
  }();
  Require(made);
  const std::string text = input->TakeBytes(4'096);
  std::vector<absl::string_view> texts = absl::StrSplit(text, absl::MaxSplits('\0', 12));
  texts.resize(kFiles.size());
  for (size_t i = 0; i < kFiles.size(); ++i) (void)Folder().Write(kFiles[i], std::string(texts[i]));
  const std::string membership = Folder().path() + "/membership";
  const std::string mount = Folder().path() + "/mount";
  const uint64_t bytes = CgroupMemoryLeft(membership, mount);
  Require(bytes == UINT64_MAX || bytes < uint64_t{1} << 60);
  const auto threads = CgroupThreadsLeft(membership, mount);
  if (threads == uint64_t{0}) {
    Require(!texts[4].empty() || !texts[6].empty() || !texts[11].empty());  // there is a limit
  }
}

void CheckTexts(FuzzInput* input) {
  const std::string text = input->TakeBytes(4'096);
  const std::vector<char> copy(text.begin(), text.end());  // a sanitizer sees a read beyond it
  const std::string_view view(copy.data(), copy.size());
  if (const auto state = StateInStat(view)) {
    Require(text.find(std::string(") ") + *state) != std::string::npos);
  }
  const auto times = TimesInSchedstat(view);
  const auto pages = ResidentPagesInStatm(view);
  Require(times.has_value() == pages.has_value() && (!times || times->waited_ns == *pages));
  // The recorder's own reader of the same file finds the same.
  uint64_t delay_ns = 0;
  const bool found = recorder::SecondNumber(copy.data(), static_cast<long>(copy.size()), &delay_ns);
  Require(!found || !times || times->waited_ns == delay_ns);
  const std::string path = Folder().Write("numbers", text);
  (void)ReadProcNumber(path);
  (void)ReadThreadCount(path);
}

}  // namespace
}  // namespace jobscope

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace jobscope;  // NOLINT(google-build-using-namespace): one function
  FuzzInput input(data, size);
  switch (input.Take<uint8_t>() % 4) {
    case 0:
      CheckSocketTable(&input);
      break;
    case 1:
      CheckUserMap(&input);
      break;
    case 2:
      CheckCgroups(&input);
      break;
    default:
      CheckTexts(&input);
  }
  return 0;
}
