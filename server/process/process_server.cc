// SPDX-License-Identifier: Apache-2.0
#include "server/process/process_server.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/clock/monotonic.h"
#include "common/log/log.h"
#include "common/threads/worker_thread.h"
#include "jobscope/jobscope_c.h"
#include "server/grpc_server/grpc_server.h"
#include "server/guard/fork_guard.h"
#include "server/guard/resource_guard.h"
#include "server/listen/listen_address.h"
#include "server/process/exit_delivery.h"
#include "server/process/published_address.h"
#include "server/process/server_options.h"
#include "server/process/start_settings.h"
#include "server/process/worker_runtime.h"
#include "server/services/server_closer.h"

namespace jobscope {
namespace {

constexpr absl::Duration kStopLimit = absl::Seconds(2);
constexpr absl::Duration kLockPoll = absl::Milliseconds(1);

constexpr char kBusyText[] =
    "another thread is starting or stopping the server of this process; try again later";

struct Running {
  StartSettings settings;
  std::unique_ptr<GrpcServer> server;
  uint64_t number = 0;  // of the start, in this process
};

// Never destroyed: gRPC's threads run until the process ends.
struct Process {
  absl::Mutex mutex;
  std::optional<Running> running ABSL_GUARDED_BY(mutex);
  // Whether there is a running server that accepts calls. Written under the mutex, read without it:
  // a reader that waited for the mutex could hold the loader's lock (StartProcessServer).
  std::atomic<bool> accepts{false};
  PublishedAddress published ABSL_GUARDED_BY(mutex);  // of the running server
  uint64_t starts ABSL_GUARDED_BY(mutex) = 0;
  std::atomic<std::thread::id> holder{};  // of `mutex`
};

Process& TheProcess() {
  static auto* const process = new Process;
  return *process;
}

// Locks the mutex. Returns false if this thread holds it, or another one until `deadline`.
bool LockBy(Process& process, absl::Time deadline)
    ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true, process.mutex) {
  while (!process.mutex.TryLock()) {
    if (process.holder == std::this_thread::get_id() || SteadyNow() >= deadline) return false;
    absl::SleepFor(kLockPoll);
  }
  return true;
}

// Holds the mutex while it exists, and records for an exit handler which thread holds it.
class ABSL_SCOPED_LOCKABLE ProcessLock {
 public:
  explicit ProcessLock(Process* process) ABSL_EXCLUSIVE_LOCK_FUNCTION(process->mutex)
      : process_(process) {
    process_->mutex.Lock();
    process_->holder = std::this_thread::get_id();
  }
  // Takes over the mutex, which this thread has locked.
  ProcessLock(Process* process, std::adopt_lock_t) ABSL_EXCLUSIVE_LOCKS_REQUIRED(process->mutex)
      : process_(process) {
    process_->holder = std::this_thread::get_id();
  }
  ~ProcessLock() ABSL_UNLOCK_FUNCTION() {
    process_->holder = std::thread::id();
    process_->mutex.Unlock();
  }
  ProcessLock(const ProcessLock&) = delete;
  ProcessLock& operator=(const ProcessLock&) = delete;

 private:
  Process* const process_;
};

int CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return JOBSCOPE_E_INVALID;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kUnavailable:
      return JOBSCOPE_E_ADDRESS;
    case absl::StatusCode::kPermissionDenied:
      return JOBSCOPE_E_REFUSED;
    case absl::StatusCode::kAborted:
      return JOBSCOPE_E_FORKED;
    default:
      return JOBSCOPE_E_INTERNAL;
  }
}

StartOutcome Failed(const absl::Status& status) {
  return {CodeOf(status), std::string(status.message()), ""};
}

// Stops the server. Calls `closed` as soon as it accepts nothing more.
void StopRunning(Process& process, absl::FunctionRef<void()> closed)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(process.mutex) {
  WorkerRuntime& worker = WorkerRuntime::Get();
  const Running& running = *process.running;
  const std::string address = running.server->address();
  const absl::Time end = SteadyNow() + kStopLimit;
  process.published.Withdraw();
  running.server->StopAccepting();
  process.accepts = false;  // before a caller learns that the server is closed
  closed();
  running.server->Stop(absl::Ceil(end - SteadyNow(), absl::Milliseconds(10)));
  process.running.reset();
  worker.SetAlwaysOn(false);
  Log(LogLevel::kInfo, absl::StrCat("profiler server on ", address, " has ended"));
}

// Returns the closer of the server of that start. Ignores later servers.
ServerCloser CloserOf(uint64_t number) {
  return [number](std::function<void()> closed) {
    return StartWorkerThread("jobscope-close", [number, closed = std::move(closed)] {
      Process& process = TheProcess();
      const ProcessLock lock(&process);
      if (process.running.has_value() && process.running->number == number) {
        StopRunning(process, closed);
      }
    });
  };
}

absl::StatusOr<std::unique_ptr<GrpcServer>> Launch(const StartSettings& settings, uint64_t number,
                                                   WorkerRuntime& worker) {
  const v1::Identity identity = worker.identity();
  const auto local_rank =
      identity.has_local_rank() ? std::optional<int>(identity.local_rank()) : std::nullopt;
  auto address = ParseListenAddress(settings.options.address, local_rank);
  if (!address.ok()) return address.status();
  auto status = worker.ConfigureRings(static_cast<uint32_t>(settings.options.ring_records),
                                      settings.options.rings_cap_bytes);
  if (!status.ok()) return status;
  GrpcServerOptions options;
  options.address = *std::move(address);
  options.insecure = settings.options.insecure;
  options.credentials = settings.credentials;
  options.allowed_users = settings.allowed_users;
  options.ceilings = settings.ceilings;
  options.store_bytes = settings.options.store_bytes;
  options.sessions = worker.sessions();
  options.set_recording = [&worker](std::optional<int> level) { worker.SetContinuous(level); };
  options.steps = [&worker] { return worker.Steps(); };
  options.gpus = worker.Gpus();
  if (settings.options.allow_close) options.closer = CloserOf(number);
  options.identity = [&worker] { return worker.identity(); };
  options.uses_tsc = worker.uses_tsc();
  return GrpcServer::Start(std::move(options));
}

void DeliverBeforeExit(absl::Time deadline) {
  Process& process = TheProcess();
  // Waits for a thread that stops a server at this moment, and so delivers the running capture.
  if (!LockBy(process, deadline)) return;
  const ProcessLock lock(&process, std::adopt_lock);
  if (process.running.has_value()) {
    process.running->server->DeliverBeforeExit(deadline - SteadyNow());
  }
}

void WithdrawBeforeExit(absl::Time deadline) {
  Process& process = TheProcess();
  if (!LockBy(process, deadline)) return;
  const ProcessLock lock(&process, std::adopt_lock);
  process.published.Withdraw();
}

}  // namespace

StartOutcome StartProcessServer(const ServerOptions& options) {
  // Before any lock of ours: in a child forked during the first start that lock would stay locked
  // for ever.
  InstallForkGuard();
  if (InForkedChild()) return {JOBSCOPE_E_FORKED, kForkedText, ""};
  if (absl::Status room = CheckRoomToEnter(); !room.ok()) return Failed(room);
  auto settings = ResolveSettings(options);
  if (!settings.ok()) return Failed(settings.status());
  Process& process = TheProcess();
  // Not for ever: if a constructor of a library calls this, the thread that holds the lock may wait
  // for the loader's, which this one holds.
  // The start itself has its own limit in addition: while it creates the runtime, the loader may
  // keep it waiting, which must not fail it.
  const absl::Time deadline = SteadyNow() + WorkerRuntime::kBusyLimit;
  if (!LockBy(process, deadline)) return {JOBSCOPE_E_BUSY, kBusyText, ""};
  const ProcessLock lock(&process, std::adopt_lock);
  if (process.running.has_value()) {
    const std::string& bound = process.running->server->address();
    if (process.running->settings.SameAs(*settings)) return {JOBSCOPE_OK, "", bound};
    if (process.running->settings.by_environment) {
      Log(LogLevel::kInfo,
          absl::StrCat("profiler server: keeps the one that the environment requested, on ", bound,
                       "; ignores the options in code (", settings->options.address, ")"));
      return {JOBSCOPE_OK, "", bound};
    }
    return {JOBSCOPE_E_BUSY,
            absl::StrCat("this process already serves ", bound,
                         " with other options: stop that server first, or start with the "
                         "same options"),
            bound};
  }
  if (!WorkerRuntime::Create(deadline)) return {JOBSCOPE_E_BUSY, kBusyText, ""};
  WorkerRuntime& worker = WorkerRuntime::Get();
  const uint64_t number = ++process.starts;
  auto server = Launch(*settings, number, worker);
  if (!server.ok()) return Failed(server.status());
  const std::string address = (*server)->address();
  // Before the address is published: a client that finds it finds the worker's steps recorded.
  worker.SetAlwaysOn(!settings->options.no_always_on);
  if (!settings->absolute_port_dir.empty()) {
    auto published =
        process.published.Publish(settings->absolute_port_dir, worker.identity(), address);
    if (!published.ok()) {
      worker.SetAlwaysOn(false);
      (*server)->Stop(kStopLimit);
      return {JOBSCOPE_E_IO, std::string(published.message()), ""};
    }
  }
  DeliverAtExit(&DeliverBeforeExit, &WithdrawBeforeExit);
  process.running = Running{*std::move(settings), *std::move(server), number};
  process.accepts = true;
  Log(LogLevel::kInfo, absl::StrCat("profiler server listens on ", address));
  return {JOBSCOPE_OK, "", address};
}

int StopProcessServer() {
  if (InForkedChild()) return JOBSCOPE_OK;
  Process& process = TheProcess();
  if (!LockBy(process, SteadyNow() + WorkerRuntime::kBusyLimit))
    return JOBSCOPE_E_BUSY;  // as in a start
  const ProcessLock lock(&process, std::adopt_lock);
  if (process.running.has_value()) {
    StopRunning(process, [] {});
  }
  return JOBSCOPE_OK;
}

bool ProcessServerRuns() { return !InForkedChild() && TheProcess().accepts; }

}  // namespace jobscope
