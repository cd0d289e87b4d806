// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/gc/gc_collector.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collectors/python/bridge/api.h"
#include "collectors/python/bridge/gil.h"
#include "collectors/python/gc/gc_callback.h"
#include "common/threads/detached_caller.h"

namespace jobscope {
namespace {

// Time limit for acquiring the GIL; a program that computes in Python releases it within 5 ms
// (sys.getswitchinterval).
constexpr absl::Duration kTimeout = absl::Milliseconds(200);

constexpr char kLockHeld[] =
    "could not acquire the GIL: an extension holds it for long at a time; garbage collections are "
    "recorded in part or not at all";

}  // namespace

GcCollector::GcCollector(const struct jobscope_trace_writer_table* writer)
    : writer_(writer), wish_(std::make_shared<Wish>()) {}

GcCollector::~GcCollector() = default;

// Does not search for Python: that would acquire the loader's lock.
CollectorReport GcCollector::Describe() const { return {}; }

std::string GcCollector::WhyOff(const ArmRequest& request) const {
  if (request.recording.host_tracer_level == 0) return "host_tracer_level is 0";
  if (writer_ == nullptr) return "there is no recorder";
  return python::SurelyAbsent() ? "there is no Python in this process" : "";
}

absl::Status GcCollector::Arm(const ArmRequest& request) {
  report_ = {};
  report_.reason = WhyOff(request);
  const absl::StatusOr<const python::Api*> api = python::FindApi();
  if (report_.reason.empty()) {
    const absl::Status alive = api.ok() ? python::CheckAlive(**api) : api.status();
    report_.reason = std::string(alive.message());
  }
  if (!report_.reason.empty()) {
    report_.state = CollectorState::kOff;
    return absl::OkStatus();
  }
  if (helper_ == nullptr) helper_ = std::make_shared<DetachedCaller>("jobscope-gc");
  {
    const MutexLock lock(&wish_->mutex);
    wish_->status = absl::OkStatus();
  }
  wish_->added = false;
  wish_->wanted = true;
  helper_->Run("gc.callbacks", kTimeout, [wish = wish_, api = *api, writer = writer_] {
    absl::Status status;
    const absl::Status ran = python::WithGil(*api, python::GilUse::kArm, [&] {
      // The session may have ended while waiting for the GIL.
      if (wish->wanted) status = python::AddGcCallback(*api, writer);
    });
    if (!ran.ok()) status = ran;
    wish->added = status.ok() && wish->wanted;
    const MutexLock lock(&wish->mutex);
    wish->status = std::move(status);
  });
  return absl::OkStatus();
}

absl::Status GcCollector::Start(const StartRequest& /*request*/) { return absl::OkStatus(); }

absl::Status GcCollector::Stop(uint64_t /*end_ticks*/) {
  if (!wish_->wanted.exchange(false)) return absl::OkStatus();
  const bool was_added = wish_->added;
  const absl::StatusOr<const python::Api*> api = python::FindApi();
  // A call that still waits for the GIL will find that it is no longer wanted. A remaining callback
  // records nothing without the mask, and the next session removes it.
  const bool removed =
      helper_->Wait(kTimeout) && helper_->Run("gc.callbacks", kTimeout, [api = *api] {
        (void)python::WithGil(*api, python::GilUse::kRemove,
                              [api] { python::RemoveGcCallback(*api); });
      });
  const MutexLock lock(&wish_->mutex);
  if (!wish_->status.ok()) {
    report_.state = CollectorState::kFailed;
    report_.reason = std::string(wish_->status.message());
  } else if (!was_added || !removed) {
    report_.state = CollectorState::kDegraded;
    report_.reason = kLockHeld;
  }
  return absl::OkStatus();
}

CollectorReport GcCollector::Report() {
  // Ends the thread unless it waits for the GIL.
  if (helper_ != nullptr && helper_->Wait(absl::ZeroDuration())) helper_.reset();
  return report_;
}

}  // namespace jobscope
