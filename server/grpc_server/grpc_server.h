// SPDX-License-Identifier: Apache-2.0
//
// Runs the gRPC server: binds, serves both profiler services and gRPC's health service, and shuts
// down within a bounded time.
#ifndef SERVER_GRPC_SERVER_GRPC_SERVER_H_
#define SERVER_GRPC_SERVER_GRPC_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/process/identity.h"
#include "jobscope/v1/item.pb.h"
#include "server/limits.h"
#include "server/listen/acceptor.h"
#include "server/listen/listen_address.h"
#include "server/native/native_captures.h"
#include "server/rpc/ceilings.h"
#include "server/security/allowed_users.h"
#include "server/security/credentials.h"
#include "server/services/gpu_source.h"
#include "server/services/server_closer.h"
#include "server/services/step_source.h"
#include "server/session/session_manager.h"
#include "server/tensorflow/answer.h"
#include "server/tensorflow/continuous_profiling.h"

namespace jobscope {

struct GrpcServerOptions {
  ListenAddress address;
  bool insecure = false;  // serve addresses that other hosts reach without credentials
  // Users who may connect to loopback addresses and Unix sockets that require no credential. With
  // `insecure`, all may.
  AllowedUsers allowed_users;
  CredentialFiles credentials;
  uint64_t store_bytes = limits::kDefaultStoreBytes;
  Ceilings ceilings;
  uint64_t max_answer_bytes = limits::kMaxAnswerBytes;
  AnswerTimeouts answer_timeouts;
  NativeCaptureLimits native_limits;
  int keepalive_time_ms = limits::kKeepaliveTimeMs;  // tests use shorter ones
  int keepalive_timeout_ms = limits::kKeepaliveTimeoutMs;
  int handshake_timeout_ms = limits::kHandshakeTimeoutMs;
  int max_idle_ms = limits::kMaxIdleMs;
  AcceptorLimits acceptor;

  std::shared_ptr<SessionManager> sessions;
  ContinuousProfiling::SetRecording set_recording;
  StepSource steps;
  GpuSource gpus;
  ServerCloser closer;
  IdentitySource identity = [] { return v1::Identity(); };
  bool uses_tsc = true;
};

// Runs one server. Not restartable. Thread-safe, except that Stop is called once.
class GrpcServer {
 public:
  // Binds, serves, and checks that the server answers. Takes a few milliseconds, up to 0.5 s more
  // to identify the holder of a taken port, and at most 10 s if a name server is slow. Uses gRPC
  // only on a helper thread, from which its threads inherit the settings of our threads
  // (common/threads/worker_thread.h): no signal meant for the application is delivered to one. gRPC
  // stays initialised, with about six idle threads, until the process ends. Returns
  // RESOURCE_EXHAUSTED (the limits of the process leave no room: resource_guard.h), ALREADY_EXISTS
  // (address taken, and by whom), UNAVAILABLE (cannot be bound, or does not answer),
  // PERMISSION_DENIED (reachable from other hosts without the required credentials),
  // INVALID_ARGUMENT (a credential file), ABORTED (a forked child) or DEADLINE_EXCEEDED (10 s have
  // passed).
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(GrpcServerOptions options);

  // Only after Stop.
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  // The address as bound: "127.0.0.1:40123", "[::1]:40123", "unix:/path".
  const std::string& address() const;

  // Calls that gRPC still uses.
  size_t open_calls() const;
  // Native captures that run, or whose items are held.
  size_t open_captures() const;

  // Closes the port, and refuses calls from now on; open ones continue. Blocks for at most 2 s,
  // typically for microseconds. Stop follows.
  void StopAccepting();

  // Ends the capture that runs for one of our callers (EndedBy::kShutdown) and delivers it,
  // refuses queued requests, closes the port. Blocks for at most `limit`, plus 0.5 s for calls
  // that end late and 0.5 s for gRPC to close its sockets; if the server needs longer, its helper
  // thread continues, with a warning. The SessionManager continues. Ends calls on the helper
  // thread, too: no thread of gRPC's is started by the caller's. Not beside DeliverBeforeExit.
  void Stop(absl::Duration limit);

  // The process exits: like Stop, but leaves gRPC itself running, because its threads run until the
  // end. Returns at once if no capture runs. Called by an exit handler.
  void DeliverBeforeExit(absl::Duration grace);

 private:
  struct State;
  explicit GrpcServer(std::shared_ptr<State> state);
  void RunOnHelper(absl::Time end, std::function<void(State&)> end_calls);
  // Shared with the helper thread.
  const std::shared_ptr<State> state_;
};

}  // namespace jobscope

#endif  // SERVER_GRPC_SERVER_GRPC_SERVER_H_
