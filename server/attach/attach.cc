// SPDX-License-Identifier: Apache-2.0
//
// libjobscope_attach.so: adds the profiler server to a program that knows nothing of it, by
// LD_PRELOAD, CUDA_INJECTION64_PATH or NVTX_INJECTION64_PATH. The constructor decides everything,
// before main if preloaded; docs/attach.md explains the rules. Without JOBSCOPE_LISTEN it reads
// that one variable and returns.
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/single_threaded.h>
#include <unistd.h>

#include "server/attach/environment.h"
#include "server/attach/listen_text.h"
#include "server/attach/program.h"
#include "server/attach/start_thread.h"

#define JOBSCOPE_ATTACH_API extern "C" __attribute__((visibility("default")))

JOBSCOPE_ATTACH_API int InitializeInjection(void);
JOBSCOPE_ATTACH_API int InitializeInjectionNvtx2(void* get_export_table);
JOBSCOPE_ATTACH_API int InitializeInjectionNvtxExtension(void* module);

namespace {

using jobscope::attach::Above;
using jobscope::attach::LogLevel;

// How long to wait before loading anything: a process that ends sooner is left unchanged.
// `nvidia-smi -L`, `uname` and similar take 1 to 15 ms; a Python interpreter needs 20 to reach its
// script.
constexpr int kDelayMs = 20;

// Static, because the paths need room and the constructor runs on the stack of the loading thread.
jobscope::attach::StartPlan plan;
bool attaching = false;
// An ancestor process is the worker of this role, so this process was left unattached.
bool below_worker = false;

// Finds libjobscope.so beside our own file, by its absolute path: the program may change its
// directory. Looks up the address of a static, because another library's InitializeInjection may
// replace ours.
bool FindLibrary(char* own_path, char* library) {
  Dl_info info;
  if (dladdr(&plan, &info) == 0 || info.dli_fname == nullptr ||
      realpath(info.dli_fname, own_path) == nullptr) {
    return false;
  }
  const char* const slash = strrchr(own_path, '/');
  constexpr char kName[] = "libjobscope.so";
  const size_t folder = static_cast<size_t>(slash - own_path) + 1;
  if (folder + sizeof(kName) > PATH_MAX) return false;
  memcpy(library, own_path, folder);
  memcpy(library + folder, kName, sizeof(kName));
  return true;
}

// Sets variables for the processes that this one starts. CUDA and NVTX, in this process and in its
// descendants, then load this library, so that one variable is enough; values set by the user are
// kept. Only while no other thread could be reading the environment.
void TellDescendants(const char* own_path, const char* role) {
  if (__libc_single_threaded == 0) return;
  char mark[96];
  jobscope::attach::WriteMark(plan.pid, role, mark, sizeof(mark));
  setenv(jobscope::attach::kMarkVariable, mark, 1);
  setenv("CUDA_INJECTION64_PATH", own_path, 0);
  setenv("NVTX_INJECTION64_PATH", own_path, 0);
}

// Removes the mark that this process has set before it executed a program that is not a worker: its
// role is free for a descendant. Only while no other thread could be reading the environment.
void ForgetOwnMark() {
  using jobscope::attach::kMarkVariable;
  if (__libc_single_threaded != 0 && jobscope::attach::IsMarkOf(getenv(kMarkVariable), getpid())) {
    unsetenv(kMarkVariable);
  }
}

// Starts the thread that attaches this process, which has `role`, after `delay_ms`.
void Attach(const char* listen, const char* role, int delay_ms) {
  plan.delay_ms = delay_ms;
  plan.local_rank = jobscope::attach::LocalRank(&getenv);
  if (!jobscope::attach::WriteAddress(listen, plan.local_rank, plan.address,
                                      sizeof(plan.address))) {
    Say(plan.log_level, LogLevel::kWarning, "not attached: JOBSCOPE_LISTEN is over 1,024 bytes");
    return;
  }
  char own_path[PATH_MAX];
  if (!FindLibrary(own_path, plan.library)) {
    Say(plan.log_level, LogLevel::kWarning, "not attached: cannot find the path of this library");
    return;
  }
  TellDescendants(own_path, role);
  attaching = jobscope::attach::StartServerLater(&plan);
  if (!attaching) {
    Say(plan.log_level, LogLevel::kWarning,
        "not attached: cannot start a thread; raise the limit on processes (ulimit -u)");
  }
}

// Decides again for a descendant of a worker that itself uses CUDA. It may well train: processes
// that a training script spawns get their rank after this library has been loaded into them. Runs
// on the thread that makes the process's first CUDA call.
void LookAgain() {
  const char* const listen = getenv("JOBSCOPE_LISTEN");
  if (listen == nullptr || *listen == '\0') return;
  char role[64];
  jobscope::attach::ReadRole(&getenv, role, sizeof(role));
  plan.above = jobscope::attach::ReadMark(getenv(jobscope::attach::kMarkVariable), plan.pid, role);
  if (plan.above != Above::kSameRole) return Attach(listen, role, 0);
  Say(plan.log_level, LogLevel::kWarning,
      "not attached: this process uses CUDA, but a process above it is the worker with %s already; "
      "if this one trains, set its own RANK and LOCAL_RANK before it uses CUDA, or start its "
      "server in code",
      role);
}

void Decide(int argc, char** argv) {
  const char* const listen = getenv("JOBSCOPE_LISTEN");
  if (listen == nullptr || *listen == '\0' || jobscope::attach::Disabled(&getenv)) return;
  // A program with more rights than its caller ignores its caller's variables.
  if (getauxval(AT_SECURE) != 0) return;
  plan.log_level = jobscope::attach::ReadLogLevel(&getenv);
  // A file that the program opens on a closed stderr must not receive our log lines.
  if (fcntl(STDERR_FILENO, F_GETFD) < 0) plan.log_level = LogLevel::kOff;

  char executable[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", executable, sizeof(executable) - 1);
  executable[length > 0 ? length : 0] = '\0';
  const auto program = jobscope::attach::DescribeProgram(executable, argc, argv);
  const auto decision = jobscope::attach::DecideAttach(program, getenv("JOBSCOPE_PROGRAMS"));
  if (decision != jobscope::attach::AttachDecision::kWanted) {
    ForgetOwnMark();
    Say(plan.log_level, LogLevel::kDebug, "not attached: %s%s%s %s", program.executable,
        program.script[0] == '\0' ? "" : " ", program.script, jobscope::attach::Reason(decision));
    return;
  }

  char role[64];
  jobscope::attach::ReadRole(&getenv, role, sizeof(role));
  plan.pid = getpid();
  plan.above = jobscope::attach::ReadMark(getenv(jobscope::attach::kMarkVariable), plan.pid, role);
  if (plan.above == Above::kSameRole) {
    // The ancestor has the worker's name, and in a port directory its file, of which there is only
    // one.
    below_worker = true;
    Say(plan.log_level, LogLevel::kInfo,
        "not attached: a process above this one is the worker with %s", role);
    return;
  }
  int delay_ms = kDelayMs;
  if (!jobscope::attach::ReadDelayMs(&getenv, &delay_ms)) {
    Say(plan.log_level, LogLevel::kWarning,
        "JOBSCOPE_ATTACH_DELAY_MS must be 0 to 10000, is \"%.32s\": using %d",
        getenv("JOBSCOPE_ATTACH_DELAY_MS"), kDelayMs);
  }
  Attach(listen, role, delay_ms);
}

__attribute__((constructor)) void OnLoad(int argc, char** argv, char** /*environment*/) {
  Decide(argc, argv);
}

// A forked child has no server, whatever its parent has.
bool AttachingHere() { return attaching && getpid() == plan.pid; }

// Passes an injection to the handler of that name in libjobscope.so, at once: it must be in place
// when the caller's first event comes, so it cannot wait for the thread. Returns 0 if there is no
// handler.
int HandOver(const char* handler_name, void* argument) {
  if (!AttachingHere()) return 0;
  jobscope::attach::StartServerNow();
  void* const library = jobscope::attach::LoadServerLibrary(plan);
  if (library == nullptr) return 0;  // the thread logs the reason
  const auto handler = reinterpret_cast<int (*)(void*)>(dlsym(library, handler_name));
  return handler == nullptr ? 0 : handler(argument);
}

}  // namespace

// Called by libcuda in the first cuInit of the process. Returns 1: continue.
int InitializeInjection(void) {
  if (below_worker && getpid() == plan.pid) {
    below_worker = false;
    LookAgain();
  }
  if (AttachingHere()) jobscope::attach::StartServerNow();
  return 1;
}

// Called by the first NVTX function of each program or library that uses NVTX. After a return of 0
// its functions do nothing and do not call again.
int InitializeInjectionNvtx2(void* get_export_table) {
  return HandOver("jobscope_nvtx_initialize", get_export_table);
}

// The same for payloads and counters (NVTX 3.1 and later).
int InitializeInjectionNvtxExtension(void* module) {
  return HandOver("jobscope_nvtx_initialize_extension", module);
}
