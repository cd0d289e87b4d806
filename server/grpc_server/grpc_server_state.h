// SPDX-License-Identifier: Apache-2.0
//
// Holds the parts of a server. Its helper thread starts and ends them.
#ifndef SERVER_GRPC_SERVER_GRPC_SERVER_STATE_H_
#define SERVER_GRPC_SERVER_GRPC_SERVER_STATE_H_

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/threads/detached_caller.h"
#include "server/grpc_server/door.h"
#include "server/grpc_server/grpc_server.h"
#include "server/grpc_server/listeners.h"
#include "server/limits.h"
#include "server/listen/acceptor.h"
#include "server/listen/listen_socket.h"
#include "server/native/native_service.h"
#include "server/rpc/call_registry.h"
#include "server/security/audit.h"
#include "server/security/credentials.h"
#include "server/security/user_check.h"
#include "server/services/service_context.h"
#include "server/tensorflow/continuous_profiling.h"
#include "server/tensorflow/tensorflow_service.h"

namespace jobscope {

// Shared by the GrpcServer and its helper thread, which may outlive it.
struct GrpcServer::State {
  // The part of Stop's time limit reserved for gRPC to write out answers; also the limit for
  // connections whose closing handshake gets no reply because their peer is cut off.
  static constexpr absl::Duration kFlushTime = absl::Milliseconds(300);

  explicit State(GrpcServerOptions options)
      : options(std::move(options)),
        continuous(this->options.set_recording,
                   absl::Milliseconds(static_cast<int64_t>(this->options.ceilings.duration_ms))),
        calls(limits::kMaxCalls, limits::kMaxCallsWithAnswered, audit),
        tensorflow(TensorflowDependencies()),
        native(NativeDependencies()) {}

  ServiceContext Context();
  TensorflowService::Dependencies TensorflowDependencies();
  NativeService::Dependencies NativeDependencies();
  // Runs the whole start, on the helper thread; undoes what it has begun if it fails. StartOrFail
  // also if memory runs out.
  void Start();
  void StartOrFail();
  absl::Status Bind();
  // Sets gRPC's limits, and registers both services.
  void Configure(grpc::ServerBuilder* builder);
  // Adds a door for each listener, in their order.
  std::vector<Door> AddDoors(const std::vector<ListenSocket>& listeners,
                             const Credentials& credentials, const UserCheck& users,
                             grpc::ServerBuilder* builder);
  absl::Status Serve(std::vector<ListenSocket> listeners, const Credentials& credentials);
  // Ends and delivers the capture that runs for one of our callers, delivers captures that have
  // ended, abandons the other calls, and blocks until gRPC has written the answers out, until
  // `end` (SteadyNow). Runs on the helper thread.
  void EndCalls(absl::Time end);
  // Turns continuous profiling off, and drops captures without a stream. Runs on the helper thread.
  void EndCaptures();
  // Runs on the helper thread, which is abandoned if it takes long.
  void ShutDown(absl::Time end);

  const GrpcServerOptions options;
  const std::shared_ptr<AuditLog> audit = std::make_shared<AuditLog>();
  const std::shared_ptr<CaptureRate> rate =
      std::make_shared<CaptureRate>(options.ceilings.captures_per_minute);
  // Starts and ends gRPC. Created at the beginning, because no thread may be available at the end.
  DetachedCaller helper{"jobscope-serve"};
  absl::Mutex start_mutex;
  std::optional<absl::Status> started ABSL_GUARDED_BY(start_mutex);  // nullopt: in progress
  bool start_abandoned ABSL_GUARDED_BY(start_mutex) = false;         // the caller no longer waits
  ContinuousProfiling continuous;
  CallRegistry calls;
  TensorflowService tensorflow;
  NativeService native;
  std::vector<std::shared_ptr<grpc::ServerCredentials>> port_credentials;  // outlive the server
  std::vector<ListenerGuard> guards;  // of its listeners, until all connections are closed
  std::unique_ptr<grpc::Server> server;
  std::shared_ptr<Acceptor> acceptor;
  std::string address;
};

}  // namespace jobscope

#endif  // SERVER_GRPC_SERVER_GRPC_SERVER_STATE_H_
