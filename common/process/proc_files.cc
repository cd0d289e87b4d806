// SPDX-License-Identifier: Apache-2.0
#include "common/process/proc_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <system_error>

namespace jobscope {
namespace {

// More than one number, or the line of /proc/loadavg, takes.
constexpr size_t kProcLineBytes = 128;

// Reads the beginning of a file into `text`; empty if that fails. A std::ifstream would allocate
// 8 KiB and set up a locale for it.
std::string_view ReadLine(const std::string& path, char (*text)[kProcLineBytes]) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  const ssize_t length = read(file, *text, kProcLineBytes);
  close(file);
  return {*text, static_cast<size_t>(std::max<ssize_t>(length, 0))};
}

// Takes one number, and the spaces before it, from the front of the text.
std::optional<uint64_t> TakeNumber(std::string_view* text) {
  text->remove_prefix(std::min(text->find_first_not_of(' '), text->size()));
  uint64_t number = 0;
  const char* const end = text->data() + text->size();
  const std::from_chars_result result = std::from_chars(text->data(), end, number);
  if (result.ec != std::errc()) return std::nullopt;
  text->remove_prefix(static_cast<size_t>(result.ptr - text->data()));
  return number;
}

}  // namespace

std::string FileText(const std::string& path, size_t max_bytes) {
  std::string text;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  char buffer[4096];
  while (text.size() < max_bytes) {
    const ssize_t got = read(file, buffer, std::min(sizeof(buffer), max_bytes - text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  close(file);
  return text;
}

std::optional<uint64_t> ReadProcNumber(const std::string& path) {
  char text[kProcLineBytes];
  std::string_view line = ReadLine(path, &text);
  return TakeNumber(&line);
}

// Format: "0.20 0.18 0.12 1/80 11206": loads, running threads, all threads, the last process.
std::optional<uint64_t> ReadThreadCount(const std::string& path) {
  char text[kProcLineBytes];
  std::string_view line = ReadLine(path, &text);
  line.remove_prefix(std::min(line.find('/'), line.size()));
  if (line.empty()) return std::nullopt;
  line.remove_prefix(1);
  return TakeNumber(&line);
}

// Format: "id (name) state ..."; the name may hold any byte.
std::optional<char> StateInStat(std::string_view stat) {
  const size_t name_end = stat.rfind(") ");
  if (name_end == std::string_view::npos || name_end + 2 >= stat.size()) return std::nullopt;
  return stat[name_end + 2];
}

// Format: "time on a processor, time waiting for one, time slices", in nanoseconds.
std::optional<ThreadTimes> TimesInSchedstat(std::string_view schedstat) {
  const std::optional<uint64_t> cpu_ns = TakeNumber(&schedstat);
  const std::optional<uint64_t> waited_ns = TakeNumber(&schedstat);
  if (!cpu_ns.has_value() || !waited_ns.has_value()) return std::nullopt;
  return ThreadTimes{*cpu_ns, *waited_ns};
}

// Format: "size resident shared text lib data dt".
std::optional<uint64_t> ResidentPagesInStatm(std::string_view statm) {
  return TakeNumber(&statm).has_value() ? TakeNumber(&statm) : std::nullopt;
}

}  // namespace jobscope
