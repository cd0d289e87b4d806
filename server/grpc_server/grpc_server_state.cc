// SPDX-License-Identifier: Apache-2.0
#include "server/grpc_server/grpc_server_state.h"

#include <fcntl.h>
#include <grpc/grpc.h>
#include <grpcpp/health_check_service_interface.h>

#include <algorithm>
#include <exception>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/clock/clock.h"
#include "common/clock/monotonic.h"
#include "common/descriptors/standard_descriptors.h"
#include "common/log/log.h"
#include "rpc/arguments.h"
#include "rpc/deadline.h"
#include "server/grpc_server/request_watch.h"
#include "server/guard/resource_guard.h"
#include "server/rpc/self_call.h"
#include "server/security/stranger_credentials.h"

namespace jobscope {
namespace {

// Limit of the server's first answer to itself. It takes under a millisecond, but on a starved
// machine the threads wait to be scheduled.
constexpr absl::Duration kAnswerLimit = absl::Milliseconds(2'500);

// Otherwise gRPC's next descriptor would take the number of a standard descriptor that the job has
// closed, and the job's output would go there. Closed on exec, so child programs find the
// descriptors unchanged. Runs before the library's other initialisers, one of which (gRPC's) opens
// an eventfd, and at each start for those closed since. Later descriptors of ours avoid the numbers
// (AboveStandard).
__attribute__((constructor(101))) void KeepStandardDescriptors() { OpenClosedStandard(O_CLOEXEC); }

// The last shutdown of gRPC waits for ever for threads that it has counted but that the system has
// refused. So the first server initialises gRPC, and it is never shut down.
void KeepGrpcInitialised() {
  static const bool initialised = [] {
    grpc_init();
    return true;
  }();
  (void)initialised;
}

}  // namespace

ServiceContext GrpcServer::State::Context() {
  ServiceContext context;
  context.sessions = options.sessions;
  context.calls = &calls;
  context.steps = options.steps;
  context.gpus = options.gpus;
  context.store_bytes = options.store_bytes;
  context.ceilings = options.ceilings;
  context.rate = rate;
  return context;
}

TensorflowService::Dependencies GrpcServer::State::TensorflowDependencies() {
  TensorflowService::Dependencies dependencies;
  static_cast<ServiceContext&>(dependencies) = Context();
  dependencies.continuous = &continuous;
  dependencies.host = options.identity().host();
  dependencies.max_answer_bytes = options.max_answer_bytes;
  dependencies.answer_timeouts = options.answer_timeouts;
  return dependencies;
}

NativeService::Dependencies GrpcServer::State::NativeDependencies() {
  NativeService::Dependencies dependencies;
  static_cast<ServiceContext&>(dependencies) = Context();
  dependencies.continuous_on = [this] { return continuous.on(); };
  dependencies.identity = options.identity;
  dependencies.uses_tsc = options.uses_tsc;
  dependencies.start_unix_ns = static_cast<uint64_t>(RealtimeNs());
  dependencies.limits = options.native_limits;
  dependencies.closer = options.closer;
  return dependencies;
}

void GrpcServer::State::Start() {
  KeepStandardDescriptors();  // before the listeners are opened
  KeepGrpcInitialised();
  // A setting of the whole process, as far as it shares our gRPC: restored for others.
  const bool others_want_health = grpc::DefaultHealthCheckServiceEnabled();
  absl::Status status;
  {
    grpc::EnableDefaultHealthCheckService(true);
    const absl::Cleanup restored = [others_want_health] {
      grpc::EnableDefaultHealthCheckService(others_want_health);
    };
    status = Bind();
  }
  if (status.ok() && !AnswersItself(server.get(), kAnswerLimit)) {
    status = absl::UnavailableError(absl::StrCat(
        "the profiler server on ", address, " did not answer itself within ",
        absl::FormatDuration(kAnswerLimit),
        ": the machine is overloaded, or has no thread or memory left; try again later"));
  }
  {
    const absl::MutexLock lock(&start_mutex);
    if (start_abandoned) status = absl::DeadlineExceededError("nobody waits for this start");
    started = status;
  }
  if (!status.ok() && server != nullptr) ShutDown(SteadyNow());
}

void GrpcServer::State::StartOrFail() {
  try {
    Start();
    return;
  } catch (const std::exception&) {
    // Out of memory. The caller would wait for the time limit, and blame a name server.
  }
  if (server != nullptr) ShutDown(SteadyNow());
  const absl::MutexLock lock(&start_mutex);
  if (!started.has_value()) started = OutOfMemoryError();
}

absl::Status GrpcServer::State::Bind() {
  auto targets = ResolveListenAddress(options.address);
  if (!targets.ok()) return targets.status();
  const auto credentials = Credentials::Load(options.credentials);
  if (!credentials.ok()) return credentials.status();
  auto status = credentials->CheckReach(*targets, options.insecure);
  if (!status.ok()) return status;
  const bool any_port = !options.address.is_unix() && options.address.port == 0;
  ListenSocketOptions socket_options;
  socket_options.user_timeout_ms = options.keepalive_timeout_ms;
  if (options.insecure) {
    socket_options.unix_mode = UnixSocketMode::kUmask;
  } else if (options.allowed_users.others() && credentials->ChecksUsers(targets->front())) {
    socket_options.unix_mode = UnixSocketMode::kAll;
  }
  auto listeners = OpenListeners(*targets, any_port, socket_options, &guards);
  if (!listeners.ok()) return listeners.status();
  return Serve(*std::move(listeners), *credentials);
}

void GrpcServer::State::Configure(grpc::ServerBuilder* builder) {
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, limits::kMaxStreamsPerConnection);
  // Callers send little: measuring how fast they could would only wake the job's threads.
  builder->AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, options.keepalive_time_ms);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, options.keepalive_timeout_ms);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              limits::kMinClientPingIntervalMs);
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, options.handshake_timeout_ms);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, options.max_idle_ms);
  SetServerArguments(limits::kMaxRequestBytes, builder);
  // The answer checks its size itself, with a better error text.
  builder->SetMaxSendMessageSize(-1);
  builder->RegisterService(&tensorflow);
  builder->RegisterService(&native);
}

std::vector<Door> GrpcServer::State::AddDoors(const std::vector<ListenSocket>& listeners,
                                              const Credentials& credentials,
                                              const UserCheck& users,
                                              grpc::ServerBuilder* builder) {
  const auto add_way = [&](std::shared_ptr<grpc::ServerCredentials> way_credentials) {
    port_credentials.push_back(std::move(way_credentials));
    return builder->experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        port_credentials.back());
  };
  std::vector<Door> doors;
  for (const ListenSocket& listener : listeners) {
    Door door;
    door.open = add_way(credentials.ForPort(listener.target(), audit));
    door.checks_users = !options.insecure && credentials.ChecksUsers(listener.target());
    if (door.checks_users && !credentials.tls()) {
      door.strangers = add_way(std::make_shared<StrangerCredentials>(users.refusal()));
    }
    doors.push_back(std::move(door));
  }
  return doors;
}

absl::Status GrpcServer::State::Serve(std::vector<ListenSocket> listeners,
                                      const Credentials& credentials) {
  grpc::ServerBuilder builder;
  Configure(&builder);
  address = listeners.front().target().text;
  const auto users = std::make_shared<UserCheck>(options.allowed_users, audit);
  std::vector<Door> doors = AddDoors(listeners, credentials, *users, &builder);
  acceptor = std::make_shared<Acceptor>(std::move(listeners), options.acceptor);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> watches;
  watches.push_back(std::make_unique<RequestWatch>(acceptor));
  builder.experimental().SetInterceptorCreators(std::move(watches));
  server = builder.BuildAndStart();
  absl::Status status = absl::UnavailableError(
      "gRPC does not start: JOBSCOPE_LOG_LEVEL=debug shows its own messages");
  if (server != nullptr) {
    status =
        acceptor->Start([doors](size_t door, int listener_fd, int fd,
                                bool admitted) { doors[door].HandOver(listener_fd, fd, admitted); },
                        [doors, users](size_t door, int fd, absl::string_view peer) {
                          return !doors[door].checks_users || users->Admits(fd, peer);
                        });
  }
  if (status.ok()) return status;
  if (server != nullptr) server->Shutdown();
  server.reset();
  acceptor.reset();
  guards.clear();
  return status;
}

void GrpcServer::State::EndCalls(absl::Time end) {
  // The session manager continues: the process may capture itself, or start another server.
  const std::optional<v1::Busy> busy = options.sessions->busy();
  bool records = false;
  const size_t kept = calls.AbandonUnless([&busy, &records](const OpenCall& call) {
    const bool its_own = busy.has_value() && call.Records(busy->session_id(), busy->peer());
    records = records || its_own;
    return its_own || call.Delivers();
  });
  if (kept > 0) {
    if (records) options.sessions->Stop(busy->session_id(), EndedBy::kShutdown);
    calls.AwaitNone(std::max(end - kFlushTime - SteadyNow(), absl::ZeroDuration()));
    // A collector hangs, and the answer does not come in time.
    calls.AbandonUnless([](const OpenCall&) { return false; });
  }
  calls.AwaitNone(std::max(end - SteadyNow(), absl::ZeroDuration()));
}

void GrpcServer::State::ShutDown(absl::Time end) {
  acceptor->Stop();
  server->Shutdown(DeadlineIn(end - SteadyNow()));
  server.reset();
  guards.clear();
}

void GrpcServer::State::EndCaptures() {
  continuous.TurnOff();
  try {
    native.EndCaptures();
  } catch (const std::exception&) {
    Log(LogLevel::kError, "captures without a client end by their timers only: out of memory");
  }
}

}  // namespace jobscope
