// SPDX-License-Identifier: Apache-2.0
#include "server/grpc_server/grpc_server.h"

#include <fcntl.h>
#include <grpc/grpc.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/clock/clock.h"
#include "common/clock/monotonic.h"
#include "common/log/log.h"
#include "common/threads/detached_caller.h"
#include "rpc/arguments.h"
#include "rpc/deadline.h"
#include "server/grpc_server/door.h"
#include "server/grpc_server/grpc_log.h"
#include "server/grpc_server/listeners.h"
#include "server/grpc_server/request_watch.h"
#include "server/guard/fork_guard.h"
#include "server/guard/resource_guard.h"
#include "server/listen/acceptor.h"
#include "server/listen/listen_socket.h"
#include "server/native/native_service.h"
#include "server/rpc/call_registry.h"
#include "server/rpc/self_call.h"
#include "server/rpc/unary_call.h"
#include "server/security/audit.h"
#include "server/security/stranger_credentials.h"
#include "server/security/user_check.h"
#include "server/services/service_context.h"
#include "server/tensorflow/tensorflow_service.h"

namespace jobscope {
namespace {

// The part of Stop's time limit reserved for gRPC to write out answers; also the limit for
// connections whose closing handshake gets no reply because their peer is cut off.
constexpr absl::Duration kFlushTime = absl::Milliseconds(300);
// Limit of a start: it looks up a host name, and name servers have time limits of their own.
constexpr absl::Duration kStartLimit = absl::Seconds(10);
// Limit of the server's first answer to itself. It takes under a millisecond, but on a starved
// machine the threads wait to be scheduled.
constexpr absl::Duration kAnswerLimit = absl::Milliseconds(2'500);
// For gRPC to close its sockets, after Stop's own time limit.
constexpr absl::Duration kShutdownGrace = absl::Milliseconds(500);

// Opens /dev/null for standard descriptors that a job has closed: otherwise gRPC's next descriptor
// would take the number, and the job's output would go there. Closed on exec, so child programs
// find the descriptors unchanged. Runs before the library's other initialisers, one of which
// (gRPC's) opens an eventfd, and at each start for those closed since. Later descriptors of ours
// avoid the numbers (AboveStandard).
__attribute__((constructor(101))) void KeepStandardDescriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) < 0) (void)open("/dev/null", O_RDWR | O_CLOEXEC);  // the lowest free one
  }
}

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

struct GrpcServer::State {
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

// Runs `end_calls` on the helper thread, and waits for it until `end` and a grace time. gRPC may
// start a thread for the end of a call, which keeps the signal mask of the thread that ends it: the
// application's threads must not.
void GrpcServer::RunOnHelper(absl::Time end, std::function<void(State&)> end_calls) {
  const absl::Duration left = std::max(end - SteadyNow(), absl::ZeroDuration()) + kShutdownGrace;
  state_->helper.Wait(left);  // the end of its start
  const auto run = [state = state_, end_calls = std::move(end_calls)] {
    try {
      end_calls(*state);
    } catch (const std::exception&) {  // it would end the helper, which also closes the server
      Log(LogLevel::kError, "the calls of the profiler server could not be ended: out of memory");
    }
  };
  if (!state_->helper.Run("end of calls", left, run)) {
    Log(LogLevel::kWarning,
        "the calls of the profiler server end late, on a thread of its own; their captures may be "
        "lost");
  }
}

GrpcServer::GrpcServer(std::shared_ptr<State> state) : state_(std::move(state)) {}
GrpcServer::~GrpcServer() = default;

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(GrpcServerOptions options) {
  InstallForkGuard();
  if (InForkedChild()) return absl::AbortedError(kForkedText);
  if (absl::Status room = CheckRoomForServer(); !room.ok()) return room;
  TakeOverGrpcLog();
  auto state = std::make_shared<State>(std::move(options));
  if (!state->helper.has_thread()) {
    return absl::ResourceExhaustedError(
        "can't start the thread of the profiler server; raise the limit on threads (ulimit -u, "
        "pids.max of the cgroup)");
  }
  state->helper.Post("start", [state] { state->StartOrFail(); });
  {
    const absl::MutexLock lock(&state->start_mutex);
    const bool ended = state->start_mutex.AwaitWithTimeout(
        absl::Condition(
            +[](std::optional<absl::Status>* started) { return started->has_value(); },
            &state->started),
        kStartLimit);
    if (!ended) {
      state->start_abandoned = true;
      return absl::DeadlineExceededError(absl::StrCat(
          "the profiler server has not started within ", absl::FormatDuration(kStartLimit),
          ": a name server does not answer, or the machine is overloaded; give a numeric address, "
          "or try again later"));
    }
    if (!state->started->ok()) return *state->started;
  }
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(state)));
}

const std::string& GrpcServer::address() const { return state_->address; }

size_t GrpcServer::open_calls() const { return state_->calls.open(); }

size_t GrpcServer::open_captures() const { return state_->native.captures(); }

void GrpcServer::StopAccepting() {
  state_->calls.Close();
  state_->acceptor->Stop();
}

void GrpcServer::Stop(absl::Duration limit) {
  State& state = *state_;
  const absl::Time end = SteadyNow() + limit;
  state.calls.Close();
  RunOnHelper(end, [end](State& ending) {
    ending.EndCaptures();
    ending.EndCalls(end);
  });
  // No call is open any more. A connection whose peer is cut off would keep gRPC waiting for its
  // closing handshake until the time limit.
  const absl::Time now = SteadyNow();
  const absl::Time shutdown_end = std::clamp(end, now, now + kFlushTime);
  const absl::Duration left = shutdown_end - now + kShutdownGrace;
  if (!state.helper.Run("stop", left,
                        [state = state_, shutdown_end] { state->ShutDown(shutdown_end); })) {
    Log(LogLevel::kWarning,
        absl::StrCat("gRPC has not closed the profiler server on ", state.address, " within ",
                     absl::FormatDuration(limit + kShutdownGrace),
                     "; it closes on a thread of its own"));
  }
}

void GrpcServer::DeliverBeforeExit(absl::Duration grace) {
  state_->calls.Close();
  if (state_->calls.open() == 0) return;
  const absl::Time end = SteadyNow() + grace;
  RunOnHelper(end, [end](State& ending) { ending.EndCalls(end); });
}

}  // namespace jobscope
