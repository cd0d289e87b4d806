// SPDX-License-Identifier: Apache-2.0
//
// Reads files in /proc, and single values of them. Nothing: there is no such file, or it does not
// hold the value.
#ifndef COMMON_PROCESS_PROC_FILES_H_
#define COMMON_PROCESS_PROC_FILES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace jobscope {

// Returns the first `max_bytes` of a file; empty if it cannot be read. Not by std::ifstream, whose
// descriptor a program inherits that another thread executes meanwhile. Thread-safe.
std::string FileText(const std::string& path, size_t max_bytes = size_t{4} << 20);

// Returns the number that the file at `path` begins with. Nothing also for "max".
std::optional<uint64_t> ReadProcNumber(const std::string& path);

// Returns the threads of the whole machine, from a file like /proc/loadavg.
std::optional<uint64_t> ReadThreadCount(const std::string& path);

// Returns the state in the text of /proc/PID/stat or /proc/PID/task/TID/stat: 'R', 'S', 'Z', ....
// The functions on texts allocate nothing.
std::optional<char> StateInStat(std::string_view stat);

struct ThreadTimes {
  uint64_t cpu_ns = 0;
  uint64_t waited_ns = 0;  // runnable but not running, up to the last time that it ran
};
// Returns the times in the text of /proc/PID/task/TID/schedstat.
std::optional<ThreadTimes> TimesInSchedstat(std::string_view schedstat);

// Returns the resident memory in the text of /proc/PID/statm, in pages.
std::optional<uint64_t> ResidentPagesInStatm(std::string_view statm);

}  // namespace jobscope

#endif  // COMMON_PROCESS_PROC_FILES_H_
