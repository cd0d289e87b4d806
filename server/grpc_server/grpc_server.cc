// SPDX-License-Identifier: Apache-2.0
#include "server/grpc_server/grpc_server.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/clock/monotonic.h"
#include "common/log/log.h"
#include "server/grpc_server/grpc_log.h"
#include "server/grpc_server/grpc_server_state.h"
#include "server/guard/fork_guard.h"
#include "server/guard/resource_guard.h"

namespace jobscope {
namespace {

// Limit of a start: it looks up a host name, and name servers have time limits of their own.
constexpr absl::Duration kStartLimit = absl::Seconds(10);
// For gRPC to close its sockets, after Stop's own time limit.
constexpr absl::Duration kShutdownGrace = absl::Milliseconds(500);

}  // namespace

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
        "cannot start the thread of the profiler server; raise the limit on threads (ulimit -u, "
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
  const absl::Time shutdown_end = std::clamp(end, now, now + State::kFlushTime);
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
