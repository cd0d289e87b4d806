// SPDX-License-Identifier: Apache-2.0
#include "client/cli/survey/stop_verb.h"

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "client/cli/survey/survey.h"
#include "client/diagnosis/diagnoser.h"
#include "client/rpc/unary_calls.h"
#include "client/terminal/table.h"
#include "client/worker/worker_outcome.h"

namespace jobscope {
namespace {

void AddStopFlags(CLI::App* app, Flags* flags, absl::Status* /*bad_value*/) {
  app->description(
      "Ends a running capture early; the client that started it receives the data. With --server, "
      "closes the workers' servers.");
  app->footer(
      "Exit code: 0 all workers answered (--server: were closed), 1 all did, but the result could "
      "not be printed, 2 usage, 3 some did, 4 none did, 130 interrupted.");
  app->add_option("--session_id", flags->session_id,
                  "session to end; default: the running one. Required for stock workers");
  app->add_flag(
      "--server", flags->server,
      "close the servers of workers that were started with JOBSCOPE_ALLOW_CLOSE=1. Only a "
      "worker's program can start its server again");
}

absl::Status CheckStopFlags(const CLI::App& /*app*/, Flags* flags) {
  if (!flags->server || flags->session_id.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--server and --session_id exclude each other: a server that closes ends every session");
}

// Describes what was stopped; empty if nothing was.
std::string StopText(const v1::StopResponse& response) {
  if (!response.stopped()) return {};
  if (response.client_lost_ms() == 0) return "stopped";
  return absl::StrFormat("stopped; its client, %s, was lost %.1f s before", response.peer(),
                         static_cast<double>(response.client_lost_ms()) / 1000);
}

// A Question: closes the worker's server.
void CloseServer(const SurveyedWorker* worker, absl::Duration timeout,
                 std::function<void(WorkerAnswer)> done) {
  worker->calls->Close(timeout, [worker, timeout, done = std::move(done)](grpc::Status status) {
    if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
      status = grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                            "this worker cannot be closed by its callers: it is a stock worker, or "
                            "its jobscope is too old; only its program can stop the server");
    }
    worker->diagnoser->Explain(
        *worker->endpoint, status, [worker, timeout, done](const grpc::Status& explained) {
          WorkerAnswer answer;
          if (explained.ok()) {
            answer.account.protocol = Protocol::kNative;
            answer.outcome = {Outcome::kOk, Phase::kDone, "the server is closed", std::nullopt};
          } else {
            answer.outcome = JudgeDescribe(explained, worker->connected(), timeout);
          }
          done(std::move(answer));
        });
  });
}

int RunStop(const Flags& flags) {
  if (flags.server) return Survey(flags, "stop", CloseServer, StopTable);
  const std::string session_id = flags.session_id;
  const Question question = [session_id](const SurveyedWorker* worker, absl::Duration timeout,
                                         std::function<void(WorkerAnswer)> done) {
    // `stopped`: what the worker stopped; empty: nothing.
    const auto judge = [worker, session_id, timeout, done](bool native, const grpc::Status& status,
                                                           const std::string& stopped) {
      WorkerAnswer answer;
      answer.account.protocol = native ? Protocol::kNative : Protocol::kTensorflow;
      if (!status.ok()) {
        answer.account.protocol.reset();
        answer.outcome = JudgeDescribe(status, worker->connected(), timeout);
      } else {
        answer.outcome = {Outcome::kOk, Phase::kDone,
                          !native ? "asked to stop; a stock worker does not say whether it did"
                          : !stopped.empty()   ? stopped
                          : session_id.empty() ? "nothing was recording"
                                               : "no such session was recording",
                          std::nullopt};
      }
      done(std::move(answer));
    };
    worker->calls->AskStop(
        session_id, timeout,
        [worker, session_id, timeout, judge](const grpc::Status& status,
                                             const v1::StopResponse& response) {
          if (status.error_code() != grpc::StatusCode::UNIMPLEMENTED) {
            worker->diagnoser->Explain(
                *worker->endpoint, status,
                [judge, text = StopText(response)](const grpc::Status& explained) {
                  judge(/*native=*/true, explained, text);
                });
          } else if (session_id.empty()) {
            judge(/*native=*/false,
                  grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                               "a stock worker is stopped by name: give --session_id"),
                  "");
          } else {
            worker->calls->Terminate(
                session_id, timeout,
                [worker, judge](const grpc::Status& terminated, bool /*ended*/) {
                  worker->diagnoser->Explain(*worker->endpoint, terminated,
                                             [judge](const grpc::Status& explained) {
                                               judge(/*native=*/false, explained, "");
                                             });
                });
          }
        });
  };
  return Survey(flags, "stop", question, StopTable);
}

}  // namespace

const WorkerVerb kStopVerb = {AddStopFlags, CheckStopFlags, RunStop};

}  // namespace jobscope
