// SPDX-License-Identifier: Apache-2.0
#include "client/cli/survey.h"

#include <grpcpp/channel.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cli/exit.h"
#include "client/cli/exit_code.h"
#include "client/cli/interrupt.h"
#include "client/cli/targets.h"
#include "client/rpc/call_threads.h"
#include "client/rpc/descriptors.h"
#include "client/rpc/diagnoser.h"
#include "client/rpc/dial.h"
#include "client/rpc/unary_calls.h"
#include "client/terminal/table.h"
#include "client/worker/worker_outcome.h"
#include "common/net/endpoint.h"
#include "common/process/identity.h"
#include "common/run/manifest.h"
#include "rpc/arguments.h"

namespace jobscope {
namespace {

struct Answer {
  WorkerOutcome outcome;
  ManifestWorker account;
};

// One worker, as far as a question needs it.
struct Asked {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<UnaryCalls> calls;
  const Endpoint* endpoint = nullptr;
  Diagnoser* diagnoser = nullptr;
  bool connected() const {
    return channel->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY;
  }
};

// Asks one worker; the answer may arrive on any thread. Must call `done` exactly once.
using Question = std::function<void(const Asked* worker, absl::Duration timeout,
                                    std::function<void(Answer)> done)>;

// Collects the answers, and counts those that are awaited.
class Answers {
 public:
  explicit Answers(size_t total) : answers_(total) {}

  void Begin() {
    const absl::MutexLock lock(&mutex_);
    ++awaited_;
  }
  void Put(size_t index, Answer answer) {
    const absl::MutexLock lock(&mutex_);
    answers_[index] = std::move(answer);
    --awaited_;
  }
  // Blocks until fewer than `limit` are awaited. Bounded, because every question has a timeout.
  void AwaitFewerThan(size_t limit) {
    const absl::MutexLock lock(&mutex_);
    const auto fewer = [this, limit]()
                           ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return awaited_ < limit; };
    mutex_.Await(absl::Condition(&fewer));
  }
  std::vector<std::optional<Answer>> Take() {
    const absl::MutexLock lock(&mutex_);
    return std::move(answers_);
  }

 private:
  absl::Mutex mutex_;
  size_t awaited_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::optional<Answer>> answers_ ABSL_GUARDED_BY(mutex_);
};

Manifest AskAll(const Flags& flags, const char* verb, const Targets& targets,
                const Question& question) {
  const std::vector<Endpoint>& endpoints = targets.endpoints;
  const absl::Duration timeout = absl::Milliseconds(flags.connect_timeout_ms);
  const auto answers = std::make_shared<Answers>(endpoints.size());
  Diagnoser diagnoser(targets.dial.credentials);  // outlives the workers' calls
  CallThreads threads;                            // outlives the workers
  if (!threads.started().ok()) _exit(UsageError(threads.started()));
  DialOptions dial = targets.dial;
  dial.max_reply_bytes = kMaxSmallReplyBytes;
  std::vector<std::unique_ptr<Asked>> workers;
  for (size_t i = 0; i < endpoints.size(); ++i) {
    answers->AwaitFewerThan(static_cast<size_t>(flags.max_parallel));
    auto worker = std::make_unique<Asked>();
    worker->channel = Dial(endpoints[i], dial);
    worker->calls = std::make_unique<UnaryCalls>(worker->channel, &threads);
    worker->endpoint = &endpoints[i];
    worker->diagnoser = &diagnoser;
    workers.push_back(std::move(worker));
    answers->Begin();
    question(workers.back().get(), timeout,
             [answers, i](Answer answer) { answers->Put(i, std::move(answer)); });
  }
  answers->AwaitFewerThan(1);

  Manifest manifest;
  manifest.verb = verb;
  manifest.client_version = Version();
  const std::vector<std::string> stems = FileStems(endpoints);
  std::vector<std::optional<Answer>> taken = answers->Take();
  size_t delivered = 0;
  for (size_t i = 0; i < taken.size(); ++i) {
    ManifestWorker account = std::move(taken[i]->account);
    const WorkerOutcome& outcome = taken[i]->outcome;
    delivered += IsDelivery(outcome.kind) ? 1 : 0;
    account.address = endpoints[i].address;
    account.name = stems[i];
    account.outcome = outcome.kind;
    account.phase = outcome.phase;
    account.reason = outcome.reason;
    account.grpc_code = outcome.grpc_code;
    account.attempts = 1;
    manifest.workers.push_back(std::move(account));
  }
  manifest.exit_code = ExitCode(delivered, endpoints.size());
  return manifest;
}

// A question has nothing to keep: ends the process at once.
void GiveUp() { _exit(kExitInterrupted); }

// Asks all workers and prints the answers. Returns the exit code.
int Survey(const Flags& flags, const char* verb, const Question& question,
           const std::function<std::string(const Manifest&)>& table) {
  if (const absl::Status room = EnsureThreads(); !room.ok()) return UsageError(room);
  const InterruptWatch watch(GiveUp);
  const absl::StatusOr<Targets> targets = PrepareTargets(flags);
  if (!targets.ok()) return UsageError(targets.status());
  const absl::Status descriptors = EnsureDescriptors(targets->endpoints.size(), /*per_worker=*/1);
  if (!descriptors.ok()) return UsageError(descriptors);
  const Manifest manifest = AskAll(flags, verb, *targets, question);
  return PrintResult(flags.json ? ManifestJson(manifest) : table(manifest), *manifest.exit_code);
}

Answer JudgeCheck(const grpc::Status& status, const v1::DescribeResponse& response, bool connected,
                  absl::Duration timeout) {
  Answer answer;
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

// Describes what was stopped; empty if nothing was.
std::string StopText(const v1::StopResponse& response) {
  if (!response.stopped()) return {};
  if (response.client_lost_ms() == 0) return "stopped";
  return absl::StrFormat("stopped; its client, %s, was lost %.1f s before", response.peer(),
                         static_cast<double>(response.client_lost_ms()) / 1000);
}

// A Question: closes the worker's server.
void CloseServer(const Asked* worker, absl::Duration timeout, std::function<void(Answer)> done) {
  worker->calls->Close(timeout, [worker, timeout, done = std::move(done)](grpc::Status status) {
    if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
      status = grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                            "this worker cannot be closed by its callers: it is a stock worker, or "
                            "its jobscope is too old; only its program can stop the server");
    }
    worker->diagnoser->Explain(
        *worker->endpoint, status, [worker, timeout, done](const grpc::Status& explained) {
          Answer answer;
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

}  // namespace

int RunCheck(const Flags& flags) {
  const Question question = [](const Asked* worker, absl::Duration timeout,
                               std::function<void(Answer)> done) {
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

int RunStop(const Flags& flags) {
  if (flags.server) return Survey(flags, "stop", CloseServer, StopTable);
  const std::string session_id = flags.session_id;
  const Question question = [session_id](const Asked* worker, absl::Duration timeout,
                                         std::function<void(Answer)> done) {
    // `stopped`: what the worker stopped; empty: nothing.
    const auto judge = [worker, timeout, done](bool native, const grpc::Status& status,
                                               const std::string& stopped) {
      Answer answer;
      answer.account.protocol = native ? Protocol::kNative : Protocol::kTensorflow;
      if (!status.ok()) {
        answer.account.protocol.reset();
        answer.outcome = JudgeDescribe(status, worker->connected(), timeout);
      } else {
        answer.outcome = {Outcome::kOk, Phase::kDone,
                          !native ? "asked to stop; a stock worker does not say whether it did"
                          : stopped.empty() ? "no such session was recording"
                                            : stopped,
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
                  judge(true, explained, text);
                });
          } else if (session_id.empty()) {
            judge(false,
                  grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                               "a stock worker is stopped by name: give --session_id"),
                  "");
          } else {
            worker->calls->Terminate(session_id, timeout,
                                     [judge](const grpc::Status& terminated, bool /*ended*/) {
                                       judge(false, terminated, "");
                                     });
          }
        });
  };
  return Survey(flags, "stop", question, StopTable);
}

}  // namespace jobscope
