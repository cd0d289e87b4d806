// SPDX-License-Identifier: Apache-2.0
#include "common/process/proc_files.h"

#include <charconv>
#include <cstddef>
#include <fstream>
#include <system_error>

namespace jobscope {
namespace {

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

std::optional<uint64_t> ReadProcNumber(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

std::optional<uint64_t> ReadThreadCount(const std::string& path) {
  std::ifstream file(path);  // "0.20 0.18 0.12 1/80 11206"
  std::string load;
  uint64_t running = 0;
  uint64_t threads = 0;
  char slash = 0;
  for (int i = 0; i < 3; ++i) file >> load;
  if (!(file >> running >> slash >> threads)) return std::nullopt;
  return threads;
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
