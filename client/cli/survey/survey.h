// SPDX-License-Identifier: Apache-2.0
//
// Asks each worker one question, for the verbs `check` and `stop`.
#ifndef CLIENT_CLI_SURVEY_SURVEY_H_
#define CLIENT_CLI_SURVEY_SURVEY_H_

#include <grpcpp/channel.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "client/cli/base/worker_verb.h"
#include "client/diagnosis/diagnoser.h"
#include "client/rpc/unary_calls.h"
#include "client/worker/worker_outcome.h"
#include "common/net/endpoint.h"
#include "common/run/manifest.h"

namespace jobscope {

struct WorkerAnswer {
  WorkerOutcome outcome;
  ManifestWorker account;
};

// One worker, as far as a question needs it.
struct SurveyedWorker {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<UnaryCalls> calls;
  const Endpoint* endpoint = nullptr;
  Diagnoser* diagnoser = nullptr;
  bool connected() const {
    return channel->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY;
  }
};

// Asks one worker; the answer may arrive on any thread. Must call `done` exactly once.
using Question = std::function<void(const SurveyedWorker* worker, absl::Duration timeout,
                                    std::function<void(WorkerAnswer)> done)>;

// Asks all workers, at most --max_parallel at the same time, and prints the answers: `table` of the
// manifest, or with --json the manifest itself. Blocks until all have answered or timed out.
// Returns the exit code, which says whether all, some or none gave a good answer.
int Survey(const Flags& flags, const char* verb, const Question& question,
           const std::function<std::string(const Manifest&)>& table);

}  // namespace jobscope

#endif  // CLIENT_CLI_SURVEY_SURVEY_H_
