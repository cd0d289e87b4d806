// SPDX-License-Identifier: Apache-2.0
#include "server/tensorflow/tensorflow_service.h"

#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clock/clock.h"
#include "common/clock/monotonic.h"
#include "common/options/recording_options.h"
#include "server/guard/resource_guard.h"
#include "server/rpc/grpc_timer.h"
#include "server/rpc/raw_message.h"
#include "server/tensorflow/answer.h"
#include "server/tensorflow/tensorflow_validation.h"

namespace jobscope {
namespace {

std::string DescribeCall(const ProfileCall& profile) {
  const SessionOptions& options = profile.options;
  std::string text =
      absl::StrCat("session \"", options.session_id, "\", levels ", LevelsText(options.recording));
  if (options.lookback > absl::ZeroDuration()) {
    absl::StrAppend(&text, ", lookback ", absl::FormatDuration(options.lookback));
  } else {
    absl::StrAppend(&text, ", duration ", absl::FormatDuration(options.duration));
  }
  return text;
}

std::string DescribeOutcome(const SessionResult& result, const Answer& answer) {
  return absl::StrCat(answer.size_bytes, " bytes, ", answer.events, " events, ",
                      result.summary.lost(), " lost",
                      result.summary.truncated() ? ", truncated by " : "",
                      result.summary.truncated() ? result.summary.ended_by() : "");
}

// Starts and lookbacks are measured on this clock, deadlines on MONOTONIC.
absl::Time Realtime() { return absl::FromUnixNanos(RealtimeNs()); }

// Waits without a thread. Owned by the call until the call is finished; the alarm's callback owns
// nothing, because it lives as long as the alarm.
struct MonitorWait {
  MonitorCall call;
  MonitorSample before;
  std::unique_ptr<GrpcTimer> alarm;
};

}  // namespace

TensorflowService::TensorflowService(Dependencies dependencies)
    : dependencies_(std::move(dependencies)) {}

CallContext TensorflowService::ContextOf(const UnaryCall& call) const {
  CallContext context;
  context.peer = call.peer();
  context.now = Realtime();
  context.deadline = context.now + (call.deadline() - SteadyNow());
  context.store_bytes = dependencies_.store_bytes;
  context.ceilings = dependencies_.ceilings;
  context.own_host = dependencies_.host;
  return context;
}

grpc::ServerUnaryReactor* TensorflowService::Profile(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* response) {
  return UnaryCall::Serve(dependencies_.calls, "tensorflow.ProfilerService/Profile", context,
                          [&](const std::shared_ptr<UnaryCall>& call) {
                            tensorflow::ProfileRequest message;
                            absl::Status status = ParseRequest(*request, &message);
                            if (status.ok()) {
                              auto profile = ValidateProfile(message, ContextOf(*call));
                              status = profile.status();
                              if (status.ok()) Capture(call, *std::move(profile), response);
                            }
                            if (!status.ok()) call->Finish(status);
                          });
}

grpc::ServerUnaryReactor* TensorflowService::GetSnapshot(grpc::CallbackServerContext* context,
                                                         const grpc::ByteBuffer* request,
                                                         grpc::ByteBuffer* response) {
  return UnaryCall::Serve(dependencies_.calls, "tensorflow.ProfilerService/GetSnapshot", context,
                          [&](const std::shared_ptr<UnaryCall>& call) {
                            tensorflow::GetSnapshotRequest message;
                            absl::Status status = ParseRequest(*request, &message);
                            status.Update(ValidateSnapshot(message));
                            if (status.ok()) {
                              auto profile =
                                  dependencies_.continuous->Snapshot(SteadyNow(), RealtimeNs());
                              status = profile.status();
                              if (status.ok()) {
                                profile->options.peer = call->peer();
                                if (!message.snapshot_session_id().empty()) {
                                  profile->options.session_id = message.snapshot_session_id();
                                }
                                Capture(call, *std::move(profile), response);
                              }
                            }
                            if (!status.ok()) call->Finish(status);
                          });
}

void TensorflowService::Capture(const std::shared_ptr<UnaryCall>& call, ProfileCall profile,
                                grpc::ByteBuffer* response) {
  call->Describe(DescribeCall(profile));
  if (auto status = dependencies_.rate->Take(SteadyNow()); !status.ok()) {
    call->Finish(status);
    return;
  }
  call->SetSession(profile.options.session_id);
  AnswerOptions answer_options;
  answer_options.hostname = std::move(profile.file_stem);
  answer_options.emit_xspace = profile.emit_xspace;
  answer_options.max_bytes = dependencies_.max_answer_bytes;
  // Stock clients retry within milliseconds, so a call that finds the worker busy is queued, until
  // its caller's deadline.
  SessionCallbacks callbacks;
  callbacks.done = [call, response, timeouts = dependencies_.answer_timeouts,
                    answer_options = std::move(answer_options)](SessionResult result) {
    if (!result.status.ok()) {
      call->Finish(result.status);
      return;
    }
    if (!call->open()) return;  // the caller is gone
    try {
      auto answer = MakeProfileResponse(std::move(result.store), answer_options);
      if (!answer.ok()) {
        call->Finish(answer.status());
        return;
      }
      const std::string outcome = DescribeOutcome(result, *answer);
      // The next session's store must not be allocated in addition to this one, however slowly the
      // caller reads.
      call->HoldUntilSent(std::move(result.slot), timeouts.For(answer->size_bytes));
      call->Finish(
          absl::OkStatus(), [response, &answer] { response->Swap(&answer->bytes); }, outcome);
    } catch (const std::exception&) {
      call->Finish(OutOfMemoryError());
    }
  };
  const SessionTicket ticket = dependencies_.sessions->Submit(
      std::move(profile.options), WhenBusy::kWait, call->deadline(), std::move(callbacks));
  try {
    call->OnCancel([sessions = dependencies_.sessions, ticket] { sessions->Cancel(ticket); });
  } catch (const std::exception&) {  // the caller could not end what it asked for
    call->Finish(OutOfMemoryError());
    dependencies_.sessions->Cancel(ticket);
  }
}

grpc::ServerUnaryReactor* TensorflowService::Terminate(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request,
                                                       grpc::ByteBuffer* response) {
  return UnaryCall::Serve(
      dependencies_.calls, "tensorflow.ProfilerService/Terminate", context,
      [&](const std::shared_ptr<UnaryCall>& call) {
        tensorflow::TerminateRequest message;
        absl::Status status = ParseRequest(*request, &message);
        status.Update(ValidateTerminate(message));
        if (!status.ok()) {
          call->Finish(status);
          return;
        }
        call->Describe(absl::StrCat("session \"", message.session_id(), "\""));
        // Stops only a session that runs now. A stock server instead remembers the id and ends the
        // next capture of that name.
        const auto stopped = dependencies_.sessions->Stop(message.session_id());
        call->Finish(
            absl::OkStatus(),
            [response] { WriteResponse(tensorflow::TerminateResponse(), response); },
            stopped.has_value() ? "stopped" : "no such session was recording");
      });
}

grpc::ServerUnaryReactor* TensorflowService::Monitor(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* response) {
  return UnaryCall::Serve(
      dependencies_.calls, "tensorflow.ProfilerService/Monitor", context,
      [&](const std::shared_ptr<UnaryCall>& call) {
        tensorflow::MonitorRequest message;
        if (auto status = ParseRequest(*request, &message); !status.ok()) {
          call->Finish(status);
          return;
        }
        auto monitor = ValidateMonitor(message, ContextOf(*call));
        if (!monitor.ok()) {
          call->Finish(monitor.status());
          return;
        }
        call->Describe(absl::StrCat("duration ", absl::FormatDuration(monitor->duration)));
        auto wait = std::make_shared<MonitorWait>();
        wait->call = *monitor;
        wait->before = TakeMonitorSample();
        auto answer = [call, response, steps = dependencies_.steps,
                       gpus = dependencies_.gpus](const MonitorWait& wait) {
          const auto write = [call, response, steps, gpus, monitor = wait.call,
                              before = wait.before, after = TakeMonitorSample()] {
            call->Finish(absl::OkStatus(), [&] {
              const v1::Gpus latest = gpus ? gpus.latest() : v1::Gpus();
              WriteResponse(
                  MakeMonitorResponse(monitor, before, after, steps(), gpus ? &latest : nullptr),
                  response);
            });
          };
          WithGpus(gpus, limits::kGpusAge, limits::kFirstGpusWait, write);
        };
        if (monitor->duration == absl::ZeroDuration()) {
          answer(*wait);
          return;
        }
        wait->alarm =
            RunAfter(monitor->duration, [weak = std::weak_ptr<MonitorWait>(wait), call, answer] {
              const std::shared_ptr<MonitorWait> wait = weak.lock();
              if (wait == nullptr) return;
              try {
                answer(*wait);
              } catch (const std::exception&) {
                call->Finish(OutOfMemoryError());
              }
            });
        call->OnCancel([wait] { wait->alarm->Cancel(); });
      });
}

grpc::ServerUnaryReactor* TensorflowService::StartContinuousProfiling(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  return UnaryCall::Serve(
      dependencies_.calls, "tensorflow.ProfilerService/StartContinuousProfiling", context,
      [&](const std::shared_ptr<UnaryCall>& call) {
        const CallContext call_context = ContextOf(*call);
        tensorflow::ProfileRequest message;
        absl::Status status = ParseRequest(*request, &message);
        if (status.ok()) {
          auto profile = ValidateStartContinuous(message, call_context);
          status = profile.status();
          if (status.ok()) {
            call->Describe(absl::StrCat("session \"", profile->options.session_id, "\""));
            // Counts as a capture, unless it is refused because one runs.
            status = dependencies_.rate->Take(SteadyNow());
            if (status.ok()) {
              status = dependencies_.continuous->Start(*std::move(profile), SteadyNow());
              if (absl::IsAlreadyExists(status)) dependencies_.rate->GiveBack();
            }
          }
        }
        call->Finish(status, [response] {
          WriteResponse(tensorflow::ContinuousProfilingResponse(), response);
        });
      });
}

grpc::ServerUnaryReactor* TensorflowService::StopContinuousProfiling(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  return UnaryCall::Serve(dependencies_.calls, "tensorflow.ProfilerService/StopContinuousProfiling",
                          context, [&](const std::shared_ptr<UnaryCall>& call) {
                            tensorflow::StopContinuousProfilingRequest message;
                            absl::Status status = ParseRequest(*request, &message);
                            if (status.ok()) status = dependencies_.continuous->Stop();
                            call->Finish(status, [response] {
                              WriteResponse(tensorflow::StopContinuousProfilingResponse(),
                                            response);
                            });
                          });
}

}  // namespace jobscope
