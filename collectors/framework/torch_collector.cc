// SPDX-License-Identifier: Apache-2.0
#include "collectors/framework/torch_collector.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "collectors/framework/torch_callbacks.h"
#include "collectors/framework/torch_library.h"
#include "collectors/framework/torch_steps.h"

namespace jobscope {

namespace torch = framework::torch;

TorchCollector::TorchCollector(const struct jobscope_trace_writer_table* writer, RunAside run_aside)
    : writer_(writer), run_aside_(std::move(run_aside)) {}

void TorchCollector::WatchSteps() {
  if (writer_ != nullptr && !torch::SwitchedOff()) run_aside_(&torch::LookForAWhile);
}

CollectorReport TorchCollector::Describe() const {
  CollectorReport report;
  const absl::MutexLock lock(&mutex_);
  report.reason = off_because_;
  if (!armed_once_ && !torch::IsLoaded()) report.reason = "this process has not loaded PyTorch";
  if (!report.reason.empty()) report.state = "off";
  return report;
}

absl::Status TorchCollector::Register(const ArmRequest& request) {
  if (!request.frameworks.Takes(name())) {
    return absl::FailedPreconditionError(
        absl::StrCat("not among the frameworks asked for (", request.frameworks.text(), ")"));
  }
  if (request.levels.host == 0) {
    return absl::FailedPreconditionError("host_tracer_level is 0");
  }
  if (writer_ == nullptr) return absl::FailedPreconditionError("there is no recorder");
  const auto api = torch::Find();
  if (!api.ok()) return api.status();
  torch::ForgetScopes();
  torch::AddCallbacks(*api, writer_, /*operators=*/request.levels.host >= 2);
  return absl::OkStatus();
}

absl::Status TorchCollector::Arm(const ArmRequest& request) {
  report_ = {};
  crossed_before_ = torch::CrossedThreads();
  const absl::Status status = Register(request);
  // The interpreter may have come since the server's start. Not here: whoever holds its lock for
  // long would cost the operators, which need no lock.
  if (status.ok() && !torch::SwitchedOff()) {
    run_aside_([] { (void)torch::LookForPython(); });
  }
  if (!status.ok()) {
    report_.state = "off";
    report_.reason = std::string(status.message());
  }
  const absl::MutexLock lock(&mutex_);
  armed_once_ = true;
  off_because_ = report_.reason;
  return absl::OkStatus();
}

absl::Status TorchCollector::Stop(uint64_t) {
  torch::RemoveCallbacks();
  return absl::OkStatus();
}

CollectorReport TorchCollector::Report() {
  const uint64_t crossed = torch::CrossedThreads() - crossed_before_;
  if (report_.state != "on" || crossed == 0) return report_;
  report_.attempted = crossed;
  report_.lost_by_cause["other_thread"] = crossed;
  report_.warnings.push_back(
      absl::StrCat(crossed,
                   " scopes of PyTorch ended on another thread than they began on, "
                   "without being asynchronous: they are not in the trace"));
  return report_;
}

}  // namespace jobscope
