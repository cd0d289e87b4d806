// SPDX-License-Identifier: Apache-2.0
#include "server/native/native_service.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/clock/clock_id.h"
#include "common/process/identity.h"
#include "common/process/pid_space.h"
#include "server/limits.h"
#include "server/native/clock_stream.h"
#include "server/native/native_validation.h"
#include "server/native/step_progress.h"
#include "server/rpc/raw_message.h"
#include "server/rpc/unary_call.h"

namespace jobscope {

NativeService::NativeService(Dependencies dependencies)
    : dependencies_(std::move(dependencies)),
      captures_(NativeCaptures::Make(dependencies_.sessions, dependencies_.steps,
                                     dependencies_.limits)) {}

grpc::ServerUnaryReactor* NativeService::Describe(grpc::CallbackServerContext* context,
                                                  const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  return UnaryCall::Serve(
      dependencies_.calls, "jobscope.v1.Profiler/Describe", context,
      [&](const std::shared_ptr<UnaryCall>& call) {
        v1::DescribeRequest message;
        if (const absl::Status status = ParseRequest(*request, &message); !status.ok()) {
          call->Finish(status);
          return;
        }
        // The service outlives its open calls, and `Description` runs only in an open one.
        const auto answer = [this, call, response] {
          call->Finish(absl::OkStatus(), [&] { WriteResponse(Description(), response); });
        };
        const GpuSource gpus = dependencies_.gpus;  // once answered, the service may be destroyed
        WithGpus(gpus, absl::InfiniteDuration(), limits::kFirstGpusWait, answer);
        // Refreshes them for the next request.
        if (gpus) (void)gpus.refresh(limits::kGpusAge, [] {});
      });
}

grpc::ServerUnaryReactor* NativeService::Stop(grpc::CallbackServerContext* context,
                                              const grpc::ByteBuffer* request,
                                              grpc::ByteBuffer* response) {
  return UnaryCall::Serve(
      dependencies_.calls, "jobscope.v1.Profiler/Stop", context,
      [&](const std::shared_ptr<UnaryCall>& call) {
        v1::StopRequest message;
        absl::Status status = ParseRequest(*request, &message);
        status.Update(ValidateStop(message));
        if (!status.ok()) {
          call->Finish(status);
          return;
        }
        call->Describe(absl::StrCat("session \"", message.session_id(), "\""));
        const auto busy = dependencies_.sessions->busy();
        const auto stopped = dependencies_.sessions->Stop(message.session_id());
        v1::StopResponse answer;
        answer.set_stopped(stopped.has_value());
        if (stopped.has_value()) answer.set_session_id(*stopped);
        if (stopped.has_value() && busy.has_value() && busy->session_id() == *stopped) {
          answer.set_peer(busy->peer());
          answer.set_client_lost_ms(busy->client_lost_ms());
        }
        call->Finish(
            absl::OkStatus(), [&] { WriteResponse(answer, response); },
            stopped.has_value() ? "stopped" : "no such session was recording");
      });
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* NativeService::SyncClock(
    grpc::CallbackServerContext* context) {
  return ClockStream::Start(dependencies_.calls, context, dependencies_.limits);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* NativeService::Capture(
    grpc::CallbackServerContext* context) {
  return CaptureStream::Capture(dependencies_, captures_, context);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* NativeService::Fetch(
    grpc::CallbackServerContext* context) {
  return CaptureStream::Fetch(dependencies_, captures_, context);
}

grpc::ServerUnaryReactor* NativeService::Close(grpc::CallbackServerContext* context,
                                               const grpc::ByteBuffer* request,
                                               grpc::ByteBuffer* response) {
  return UnaryCall::Serve(
      dependencies_.calls, "jobscope.v1.Profiler/Close", context,
      [&](const std::shared_ptr<UnaryCall>& call) {
        v1::CloseRequest message;
        absl::Status status = ParseRequest(*request, &message);
        if (status.ok() && !dependencies_.closer) {
          status = absl::PermissionDeniedError(
              "this worker does not let callers close its server: have it started with "
              "JOBSCOPE_ALLOW_CLOSE=1 (options.allow_close)");
        }
        if (status.ok()) {
          status = dependencies_.closer([call, response] {
            call->Finish(
                absl::OkStatus(), [&] { WriteResponse(v1::CloseResponse(), response); },
                "the server is closed");
          });
        }
        if (!status.ok()) call->Finish(status);
      });
}

v1::DescribeResponse NativeService::Description() const {
  v1::DescribeResponse response;
  response.set_version(Version());
  response.set_clock_id(ClockId());
  response.set_pid_space(PidSpace());
  *response.mutable_identity() = dependencies_.identity();
  response.set_tick_source(dependencies_.uses_tsc ? "tsc" : "monotonic");
  for (v1::CollectorState& state : dependencies_.sessions->DescribeCollectors()) {
    *response.add_collectors() = std::move(state);
  }
  if (auto busy = dependencies_.sessions->busy()) *response.mutable_busy() = *std::move(busy);
  response.set_continuous_profiling(dependencies_.continuous_on());
  response.mutable_limits()->set_max_duration_ms(dependencies_.ceilings.duration_ms);
  response.mutable_limits()->set_store_bytes(dependencies_.store_bytes);
  response.mutable_limits()->set_hold_ms(
      static_cast<uint64_t>(absl::ToInt64Milliseconds(dependencies_.limits.hold)));
  response.mutable_limits()->set_max_lookback_ms(
      std::min(dependencies_.ceilings.duration_ms,
               static_cast<uint64_t>(absl::ToInt64Milliseconds(limits::kMaxLookback))));
  response.mutable_limits()->set_max_item_bytes(limits::kMaxItemBytes);
  response.set_streams(true);
  response.add_features("chunks");
  response.add_features("ignores_unknown");
  const StepHistory steps = dependencies_.steps();
  response.set_steps(steps.count);
  response.set_steps_inferred_from(steps.inferred_from);
  const bool known = steps.current.has_value() || !steps.recent.empty();
  if (const auto state = StepStateOf(steps); known && state.has_value()) {
    response.set_current_step(state->current());
    response.set_has_current_step(true);
    response.set_step_time_ms(state->step_time_ms());
  }
  response.set_start_unix_ns(dependencies_.start_unix_ns);
  if (dependencies_.gpus) *response.mutable_gpus() = dependencies_.gpus.latest();
  return response;
}

}  // namespace jobscope
