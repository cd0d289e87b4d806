// SPDX-License-Identifier: Apache-2.0
#include "client/cli/survey/survey.h"

#include <unistd.h>

#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client/cli/base/exit.h"
#include "client/cli/base/exit_code.h"
#include "client/cli/base/interrupt.h"
#include "client/cli/base/targets.h"
#include "client/rpc/call_threads.h"
#include "client/rpc/descriptors.h"
#include "client/rpc/dial.h"
#include "common/process/identity.h"
#include "common/run/manifest_json.h"
#include "rpc/arguments.h"

namespace jobscope {
namespace {

// Collects the answers, and counts those that are awaited.
class Answers {
 public:
  explicit Answers(size_t total) : answers_(total) {}

  void Begin() {
    const absl::MutexLock lock(&mutex_);
    ++awaited_;
  }
  void Put(size_t index, WorkerAnswer answer) {
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
  std::vector<std::optional<WorkerAnswer>> Take() {
    const absl::MutexLock lock(&mutex_);
    return std::move(answers_);
  }

 private:
  absl::Mutex mutex_;
  size_t awaited_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::optional<WorkerAnswer>> answers_ ABSL_GUARDED_BY(mutex_);
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
  std::vector<std::unique_ptr<SurveyedWorker>> workers;
  for (size_t i = 0; i < endpoints.size(); ++i) {
    answers->AwaitFewerThan(static_cast<size_t>(flags.max_parallel));
    auto worker = std::make_unique<SurveyedWorker>();
    worker->channel = Dial(endpoints[i], dial);
    worker->calls = std::make_unique<UnaryCalls>(worker->channel, &threads);
    worker->endpoint = &endpoints[i];
    worker->diagnoser = &diagnoser;
    workers.push_back(std::move(worker));
    answers->Begin();
    question(workers.back().get(), timeout,
             [answers, i](WorkerAnswer answer) { answers->Put(i, std::move(answer)); });
  }
  answers->AwaitFewerThan(1);

  Manifest manifest;
  manifest.verb = verb;
  manifest.client_version = Version();
  const std::vector<std::string> stems = FileStems(endpoints);
  std::vector<std::optional<WorkerAnswer>> taken = answers->Take();
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

}  // namespace

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

}  // namespace jobscope
