// SPDX-License-Identifier: Apache-2.0
#include "client/cli/survey/check_verb.h"

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "client/cli/survey/survey.h"
#include "client/diagnosis/diagnoser.h"
#include "client/rpc/unary_calls.h"
#include "client/terminal/table.h"
#include "client/worker/worker_outcome.h"
#include "common/run/manifest.h"

namespace jobscope {
namespace {

void AddCheckFlags(CLI::App* app, Flags* flags, absl::Status* /*bad_value*/) {
  app->description("Lists workers, their state and their collectors. Records nothing.");
  app->footer(
      "Exit code: 0 all workers answered, 1 all answered, but the result could not be printed, 2 "
      "usage, 3 some answered, 4 none answered, 130 interrupted.");
  app->add_flag("--verbose", flags->verbose,
                "also list the collectors that have nothing to record in a worker, and why");
}

absl::Status CheckCheckFlags(const CLI::App& /*app*/, Flags* /*flags*/) { return absl::OkStatus(); }

WorkerAnswer JudgeCheck(const grpc::Status& status, const v1::DescribeResponse& response,
                        bool connected, absl::Duration timeout) {
  WorkerAnswer answer;
  answer.outcome = {Outcome::kOk, Phase::kDone, "", std::nullopt};
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    answer.account.protocol = Protocol::kTensorflow;
    answer.outcome.reason =
        "not a jobscope worker: traces only, no account of losses, no common clock";
  } else if (!status.ok()) {
    answer.outcome = JudgeDescribe(status, connected, timeout);
  } else {
    // The best protocol that it speaks.
    answer.account.protocol = response.streams() ? Protocol::kNative : Protocol::kTensorflow;
    FillFromDescription(response, &answer.account);
  }
  return answer;
}

int RunCheck(const Flags& flags) {
  const Question question = [](const SurveyedWorker* worker, absl::Duration timeout,
                               std::function<void(WorkerAnswer)> done) {
    worker->calls->Describe(
        timeout, [worker, timeout, done = std::move(done)](const grpc::Status& status,
                                                           const v1::DescribeResponse& response) {
          worker->diagnoser->Explain(
              *worker->endpoint, status,
              [worker, timeout, done, response](const grpc::Status& explained) {
                done(JudgeCheck(explained, response, worker->connected(), timeout));
              });
        });
  };
  return Survey(flags, "check", question,
                [&flags](const Manifest& manifest) { return CheckTable(manifest, flags.verbose); });
}

}  // namespace

const WorkerVerb kCheckVerb = {AddCheckFlags, CheckCheckFlags, RunCheck};

}  // namespace jobscope
