// SPDX-License-Identifier: Apache-2.0
#include "client/fan_out/admission.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/process/pid_space.h"
#include "common/run/manifest.h"

namespace jobscope {
namespace {

// Longest recording of a stock worker that was not asked for by --protocol=tensorflow: a million
// events are 105 MB, and its process aborts if the trace exceeds 2 GiB.
constexpr absl::Duration kMaxStockDuration = absl::Seconds(10);

Admission::Decision FinishWith(Outcome kind, Phase phase, std::string reason) {
  return {Admission::Next::kFinish,
          {kind, phase, std::move(reason), std::nullopt},
          absl::ZeroDuration(),
          {}};
}

absl::Duration Milliseconds(uint64_t count) {
  return absl::Milliseconds(std::min<uint64_t>(count, INT64_MAX));
}

// Identifies the process that answered; empty if its answer does not. Process ids are reused, and
// equal in many containers.
std::string ProcessOf(const v1::DescribeResponse& response) {
  if (response.identity().pid() <= 0 || response.start_unix_ns() == 0) return {};
  return absl::StrCat(response.identity().host(), "\n", response.pid_space(), "\n",
                      response.identity().pid(), "\n", response.start_unix_ns());
}

// Keeps only what the client itself has entered. The rest describes the process that answered the
// last attempt, and another one may answer now.
void ForgetProcess(ManifestWorker* account) {
  ManifestWorker kept;
  kept.address = std::move(account->address);
  kept.name = std::move(account->name);
  kept.protocol = account->protocol;
  kept.warnings = std::move(account->warnings);
  *account = std::move(kept);
}

}  // namespace

Admission::Decision Admission::Decide(size_t index, const v1::DescribeResponse* response) {
  Slot& slot = (*roster_)[index];
  ForgetProcess(&slot.result.account);
  const std::string process = response == nullptr ? "" : ProcessOf(*response);
  std::vector<size_t> duplicates_of_earlier;
  // A worker of ours without streams is asked again, and may then be described as a stock one.
  if (response != nullptr || !slot.described) {
    duplicates_of_earlier = ForgetEarlier(index, process);
  }
  Decision decision = DecideOn(index, response, process);
  decision.duplicates_of_earlier = std::move(duplicates_of_earlier);
  return decision;
}

Admission::Decision Admission::DecideOn(size_t index, const v1::DescribeResponse* response,
                                        const std::string& process) {
  Slot& slot = (*roster_)[index];
  if (response != nullptr) {
    if (const std::optional<size_t> twin = Twin(index, process)) {
      ManifestWorker& account = slot.result.account;
      FillFromDescription(*response, &account);
      account.busy.reset();
      account.same_as = (*roster_)[*twin].endpoint.address;
      duplicates_[*twin].push_back(index);
      return FinishWith(
          Outcome::kDuplicate, Phase::kDescribe,
          absl::StrCat("is the process of ", account.same_as, " (pid ", response->identity().pid(),
                       " on ", account.host, "): counts once, under that address"));
    }
    NoteDescription(*response, &slot);
    if (!options_.steps.has_value() && options_.duration > slot.max_duration) {
      return FinishWith(
          Outcome::kRefused, Phase::kDescribe,
          absl::StrCat("this worker records for at most ", response->limits().max_duration_ms(),
                       " ms; lower --duration_ms"));
    }
    if (response->has_busy()) {
      return {Next::kRetry,
              {Outcome::kBusy, Phase::kDescribe, HeldBy(response->busy()), std::nullopt},
              Milliseconds(response->busy().remaining_ms()),
              {}};
    }
  }
  if (slot.streams && (response == nullptr || !response->streams())) return FallBack(index);
  if (!slot.streams && options_.duration <= absl::ZeroDuration()) {
    return FinishWith(Outcome::kRefused, Phase::kArm,
                      "--duration_ms=0 requests events from before the start, which requires the "
                      "native protocol; this worker does not speak it");
  }
  return {};
}

std::vector<size_t> Admission::ForgetEarlier(size_t index, const std::string& process) {
  const auto earlier = recorded_.find(index);
  if (earlier == recorded_.end() || earlier->second == process) return {};
  processes_.erase(earlier->second);
  recorded_.erase(earlier);
  const auto duplicates = duplicates_.find(index);
  if (duplicates == duplicates_.end()) return {};
  return std::move(duplicates_.extract(duplicates).mapped());
}

std::optional<size_t> Admission::Twin(size_t index, const std::string& process) {
  if (process.empty()) return std::nullopt;
  size_t& keeper = processes_.emplace(process, index).first->second;
  if (PathFailed(keeper)) {
    recorded_.erase(keeper);
    keeper = index;
  }
  if (keeper != index) return keeper;
  recorded_[index] = process;
  return std::nullopt;
}

std::vector<size_t> Admission::TakeDuplicates(size_t index) {
  const auto duplicates = duplicates_.find(index);
  if (duplicates == duplicates_.end() || !PathFailed(index)) return {};
  return std::move(duplicates_.extract(duplicates).mapped());
}

// Other outcomes are those of the process: it would answer the same at another address.
bool Admission::PathFailed(size_t index) const {
  const Slot& slot = (*roster_)[index];
  const WorkerOutcome& outcome = slot.result.outcome;
  return slot.stage == Stage::kDone && outcome.phase <= Phase::kArm &&
         (outcome.kind == Outcome::kUnreachable || outcome.kind == Outcome::kTimeout);
}

void Admission::NoteDescription(const v1::DescribeResponse& response, Slot* slot) const {
  slot->described = true;
  slot->clock_id = response.clock_id();
  if (!PidSpace().empty() && response.pid_space() == PidSpace()) {
    slot->pid = response.identity().pid();
  }
  const v1::Limits& limits = response.limits();
  if (limits.max_duration_ms() > 0) slot->max_duration = Milliseconds(limits.max_duration_ms());
  if (limits.max_lookback_ms() > 0) slot->max_lookback = Milliseconds(limits.max_lookback_ms());
  ManifestWorker& account = slot->result.account;
  FillFromDescription(response, &account);
  account.busy.reset();
  account.current_step.reset();
  account.step_time_ms.reset();
  account.steps_inferred.reset();  // a past state; the trace will say what it contains
  account.steps_source.clear();
}

Admission::Decision Admission::FallBack(size_t index) const {
  Slot& slot = (*roster_)[index];
  if (options_.protocol == Protocol::kNative) {
    slot.result.account.protocol.reset();
    return FinishWith(Outcome::kRefused, Phase::kDescribe,
                      "--protocol=native, but this worker speaks tensorflow.ProfilerService only; "
                      "leave --protocol out");
  }
  const bool stock = !slot.described;
  if (stock && options_.duration > kMaxStockDuration) {
    slot.result.account.protocol.reset();
    // That protocol, for all workers of a capture, excludes these flags.
    const bool native_only = options_.steps.has_value() || options_.lookback > absl::ZeroDuration();
    return FinishWith(Outcome::kRefused, Phase::kDescribe,
                      absl::StrCat("a stock worker's process aborts if its trace exceeds 2 GiB: "
                                   "lower --duration_ms to ",
                                   absl::ToInt64Milliseconds(kMaxStockDuration),
                                   native_only ? ""
                                               : ", or accept that risk in a capture of this "
                                                 "worker alone, with --protocol=tensorflow"));
  }
  std::string off = "its clock is not measured, its data are lost if it dies";
  if (stock) absl::StrAppend(&off, ", its process aborts if its trace exceeds 2 GiB");
  if (options_.steps.has_value()) {
    absl::StrAppend(&off, ", it cannot record --steps (recorded for --duration_ms=",
                    absl::ToInt64Milliseconds(options_.duration), ")");
  }
  if (options_.lookback > absl::ZeroDuration()) absl::StrAppend(&off, ", and has no --lookback_ms");
  roster_->Warn(index, absl::StrCat("does not speak the native protocol: ", off));
  return {Next::kAskTensorflow, {}, absl::ZeroDuration(), {}};
}

}  // namespace jobscope
