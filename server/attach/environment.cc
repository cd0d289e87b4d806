// SPDX-License-Identifier: Apache-2.0
#include "server/attach/environment.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

namespace jobscope::attach {
namespace {

constexpr int kMaxDelayMs = 10'000;

// In the order of common/process/identity.cc: the innermost launcher takes precedence.
constexpr const char* kLocalRankVariables[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                                               "MPI_LOCALRANKID", "PMI_LOCAL_RANK",
                                               "SLURM_LOCALID"};
constexpr const char* kRankVariables[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                          "SLURM_PROCID"};

// Parses a number in [0, INT_MAX], with blanks around it or not, as the server does; returns -1 if
// `text` is none.
int ToNumber(const char* text) {
  if (text == nullptr) return -1;
  char* end = nullptr;
  errno = 0;
  const long number = strtol(text, &end, 10);
  if (errno != 0 || end == text || number < 0 || number > INT_MAX) return -1;
  return end[strspn(end, " \t\n\v\f\r")] == '\0' ? static_cast<int>(number) : -1;
}

template <size_t kCount>
bool WriteFirst(GetVariable get, const char* const (&names)[kCount], char* role, size_t size) {
  for (const char* name : names) {
    const int number = ToNumber(get(name));
    if (number < 0) continue;
    snprintf(role, size, "%s=%d", name, number);
    return true;
  }
  return false;
}

// Returns the process of a mark, and sets `role` to the rest; returns 0 if `mark` is none.
pid_t ReadPid(const char* mark, const char** role) {
  if (mark == nullptr) return 0;
  char* end = nullptr;
  errno = 0;
  const long pid = strtol(mark, &end, 10);
  if (errno != 0 || end == mark || *end != ' ' || pid <= 0 || pid > INT_MAX) return 0;
  *role = end + 1;
  return static_cast<pid_t>(pid);
}

}  // namespace

bool Disabled(GetVariable get) {
  const char* value = get("JOBSCOPE_DISABLE");
  if (value == nullptr) return false;
  constexpr const char* kNo[] = {"", "0", "false", "no", "off"};
  for (const char* no : kNo) {
    if (strcasecmp(value, no) == 0) return false;
  }
  return true;
}

LogLevel ReadLogLevel(GetVariable get) {
  const char* value = get("JOBSCOPE_LOG_LEVEL");
  if (value == nullptr) return LogLevel::kWarning;
  if (strcasecmp(value, "debug") == 0) return LogLevel::kDebug;
  if (strcasecmp(value, "info") == 0) return LogLevel::kInfo;
  if (strcasecmp(value, "error") == 0) return LogLevel::kError;
  if (strcasecmp(value, "off") == 0) return LogLevel::kOff;
  return LogLevel::kWarning;
}

bool ReadDelayMs(GetVariable get, int* delay_ms) {
  const char* const text = get("JOBSCOPE_ATTACH_DELAY_MS");
  if (text == nullptr || *text == '\0') return true;
  const int number = ToNumber(text);
  if (number < 0 || number > kMaxDelayMs) return false;
  *delay_ms = number;
  return true;
}

int LocalRank(GetVariable get) {
  for (const char* name : kLocalRankVariables) {
    const int number = ToNumber(get(name));
    if (number >= 0) return number;
  }
  return -1;
}

void ReadRole(GetVariable get, char* role, size_t size) {
  role[0] = '\0';
  if (!WriteFirst(get, kRankVariables, role, size)) {
    WriteFirst(get, kLocalRankVariables, role, size);
  }
}

void WriteMark(pid_t pid, const char* role, char* mark, size_t size) {
  snprintf(mark, size, "%d %s", static_cast<int>(pid), role);
}

bool IsMarkOf(const char* mark, pid_t pid) {
  const char* role = nullptr;
  return ReadPid(mark, &role) == pid;
}

Above ReadMark(const char* mark, pid_t self, const char* role) {
  const char* worker_role = "";
  const pid_t pid = ReadPid(mark, &worker_role);
  if (pid == 0 || pid == self) return Above::kNobody;
  if (kill(pid, 0) != 0 && errno == ESRCH) return Above::kNobody;
  if (strcmp(worker_role, role) != 0) return Above::kOther;
  return *role == '\0' ? Above::kNoRole : Above::kSameRole;
}

}  // namespace jobscope::attach
