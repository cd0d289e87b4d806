// SPDX-License-Identifier: Apache-2.0
#include "collectors/torch/torch_collector.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "collectors/torch/torch_callbacks.h"
#include "collectors/torch/torch_compile.h"
#include "collectors/torch/torch_library.h"
#include "collectors/torch/torch_steps.h"
#include "common/process/fork_pause.h"

namespace jobscope {

namespace torch = framework::torch;

namespace {

// Interval of the check for gloo; the first collectives of a process's first capture lack their
// process groups.
constexpr absl::Duration kLookForGroupsEvery = absl::Milliseconds(20);

constexpr char kNotLoaded[] = "this process has not loaded PyTorch";

}  // namespace

TorchCollector::TorchCollector(const struct jobscope_trace_writer_table* writer, RunAside run_aside)
    : writer_(writer), run_aside_(std::move(run_aside)) {
  torch::RecordCompilations(writer);
}

CollectorReport TorchCollector::Describe() const {
  const MutexLock lock(&mutex_);
  if (armed_once_ || torch::IsKnownLoaded()) return last_;
  CollectorReport report;
  report.state = CollectorState::kOff;
  report.reason = kNotLoaded;
  report.absent = true;
  return report;
}

std::string TorchCollector::WhyOff(const ArmRequest& request) const {
  if (!request.recording.frameworks.Takes(name())) {
    return absl::StrCat("not among the requested frameworks (", request.recording.frameworks.text(),
                        ")");
  }
  if (request.recording.host_tracer_level == 0) return "host_tracer_level is 0";
  if (writer_ == nullptr) return "there is no recorder";
  return torch::IsLoaded() ? "" : kNotLoaded;
}

absl::Status TorchCollector::Register(const ArmRequest& request) {
  const auto api = torch::Find();
  if (!api.ok()) return api.status();
  torch::ForgetScopes();
  torch::CallbackOptions options;
  options.operators = request.recording.host_tracer_level >= 2;
  options.shapes = request.recording.record_shapes;
  // PyTorch takes a lock to add callbacks; a child forked meanwhile would inherit it locked for
  // ever.
  WhileNobodyForks([&] {
    torch::AddCallbacks(*api, writer_, options);
    if (options.operators && torch::WantsProcessGroups()) torch::AddProcessGroups();
  });
  registered_ = true;
  awaits_groups_ = options.operators && !torch::WantsProcessGroups();
  if (!request.recording.record_shapes) return absl::OkStatus();
  if (!options.operators) {
    report_.warnings.push_back(
        "shapes were requested, but operators are recorded from host_tracer_level 2 on only");
  } else if (api->input_sizes == nullptr) {
    report_.state = CollectorState::kDegraded;
    report_.reason = absl::StrCat("PyTorch ", api->version, " has no function for shapes");
  }
  return absl::OkStatus();
}

absl::Status TorchCollector::Arm(const ArmRequest& request) {
  report_ = {};
  awaits_groups_ = false;
  crossed_before_ = torch::CrossedThreads();
  wants_shapes_ = request.recording.record_shapes;
  report_.reason = WhyOff(request);
  if (!report_.reason.empty()) {
    report_.state = CollectorState::kOff;
  } else if (const absl::Status status = Register(request); !status.ok()) {
    report_.state = CollectorState::kOff;
    report_.reason = std::string(status.message());
  }
  // The interpreter may have started since the server did. On another thread: a holder of the GIL
  // must not delay operators, which do not need it.
  if (report_.state != CollectorState::kOff) {
    run_aside_([] { (void)torch::LookForPython(); });
  }
  const MutexLock lock(&mutex_);
  armed_once_ = true;
  last_.state = report_.state;
  last_.reason = report_.reason;
  return absl::OkStatus();
}

absl::Status TorchCollector::Start(const StartRequest&) { return absl::OkStatus(); }

absl::Duration TorchCollector::Drain() {
  if (!awaits_groups_) return absl::InfiniteDuration();
  if (torch::WantsProcessGroups()) {
    awaits_groups_ = false;
    WhileNobodyForks([] { torch::AddProcessGroups(); });
    return absl::InfiniteDuration();
  }
  return kLookForGroupsEvery;
}

absl::Status TorchCollector::Stop(uint64_t) {
  if (std::exchange(registered_, false)) WhileNobodyForks([] { torch::RemoveCallbacks(); });
  return absl::OkStatus();
}

CollectorReport TorchCollector::Report() {
  CollectorReport report = report_;
  if (report.state != CollectorState::kOff) Finish(&report);
  return report;
}

void TorchCollector::Finish(CollectorReport* report) const {
  if (const uint64_t crossed = torch::CrossedThreads() - crossed_before_; crossed > 0) {
    report->attempted = crossed;
    report->lost_by_cause[LossCause::kOtherThread] = crossed;
  }
  const uint32_t refused = wants_shapes_ ? torch::RefusedShapes() : 0;
  if (refused == 0) return;
  report->warnings.push_back(absl::StrCat(
      refused,
      " operators have no shapes, because PyTorch cannot give them (for example nested tensors)",
      refused < torch::kMaxRefusals ? "" : "; after so many, no further shapes were requested"));
}

}  // namespace jobscope
