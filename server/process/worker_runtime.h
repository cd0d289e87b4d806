// SPDX-License-Identifier: Apache-2.0
//
// Holds what exists once per process, for the server and for programmatic captures: the collectors
// and the session manager.
#ifndef SERVER_PROCESS_WORKER_RUNTIME_H_
#define SERVER_PROCESS_WORKER_RUNTIME_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/host/encoding/reader.h"
#include "common/clock/clock_baseline.h"
#include "common/process/identity.h"
#include "jobscope/v1/item.pb.h"
#include "server/services/gpu_source.h"
#include "server/services/step_source.h"
#include "server/session/session_manager.h"

namespace jobscope {

class HostCollector;
class NvmlCollector;

// Creates and holds the collectors; the only code that knows the concrete ones. Created at the
// first use, never destroyed: threads of collectors and of the application may use it until the
// process ends. Creating it loads the recorder, unless it is loaded, and records nothing.
// Thread-safe.
class WorkerRuntime {
 public:
  // How long a start or a stop of this process waits for another thread that is inside of one: as
  // long as GrpcServer::Start may take.
  static constexpr absl::Duration kBusyLimit = absl::Seconds(10);

  static WorkerRuntime& Get();
  // Creates the instance. If another thread is doing that, waits for it until `deadline`, of
  // SteadyNow, and returns false if it has not ended by then. Call it first in functions that a
  // constructor of a library may call: that thread holds the loader's lock, for which the other one
  // then waits.
  static bool Create(absl::Time deadline);

  // The current identity of this process (common/process/identity.h).
  v1::Identity identity() { return identity_.Read(); }
  bool uses_tsc() const { return uses_tsc_; }
  const std::shared_ptr<SessionManager>& sessions() const { return sessions_; }

  // Sets the size of rings that threads take from now on, and the cap of all rings; 0 keeps the
  // current value. Returns INVALID_ARGUMENT, which names the option. Returns OK without a recorder,
  // because the other collectors do not need one.
  absl::Status ConfigureRings(uint32_t ring_records, uint64_t cap_bytes);

  // Sets whether steps, input waits and coarse scopes are recorded between captures.
  void SetAlwaysOn(bool on);
  // Sets the host level of continuous profiling; nullopt: off.
  void SetContinuous(std::optional<int> host_level);

  StepHistory Steps() const;
  GpuSource Gpus() const;

 private:
  WorkerRuntime();

  ProcessIdentity identity_;
  const host::Reader* reader_ = nullptr;  // null: no recorder, and `host_` is off
  bool uses_tsc_ = true;
  std::shared_ptr<ClockBaseline> clock_;
  // Never freed, like all collectors: they live as long as the process.
  HostCollector* host_ = nullptr;
  NvmlCollector* nvml_ = nullptr;  // likewise
  std::shared_ptr<SessionManager> sessions_;
};

}  // namespace jobscope

#endif  // SERVER_PROCESS_WORKER_RUNTIME_H_
