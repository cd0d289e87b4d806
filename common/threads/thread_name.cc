// SPDX-License-Identifier: Apache-2.0
#include "common/threads/thread_name.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

#include "absl/strings/str_cat.h"

namespace jobscope {
namespace {

// Prefix of the names of all threads that this library starts.
constexpr std::string_view kOwnPrefix = "jobscope-";

}  // namespace

std::string ThreadName(int64_t tid) {
  const int comm =
      open(absl::StrCat("/proc/self/task/", tid, "/comm").c_str(), O_RDONLY | O_CLOEXEC);
  if (comm < 0) return {};
  std::array<char, 64> text = {};
  const ssize_t size = read(comm, text.data(), text.size());
  close(comm);
  std::string name(text.data(), size > 0 ? static_cast<size_t>(size) : 0);
  if (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

std::string ThreadLineName(int64_t tid) {
  const std::string name = ThreadName(tid);
  return absl::StrCat(name.empty() ? "thread" : name, "/", tid);
}

bool IsOwnThreadName(std::string_view name) {
  return name.substr(0, kOwnPrefix.size()) == kOwnPrefix;
}

}  // namespace jobscope
