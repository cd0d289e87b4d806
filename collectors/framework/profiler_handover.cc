// SPDX-License-Identifier: Apache-2.0
#include "collectors/framework/profiler_handover.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/descriptors/standard_descriptors.h"

namespace jobscope::framework {
namespace {

template <typename T>
const T* At(const std::vector<python::Value>& arguments, size_t index) {
  return index < arguments.size() ? std::get_if<T>(&arguments[index]) : nullptr;
}

}  // namespace

std::shared_ptr<ProfilerHandover> ProfilerHandover::Make() {
  return std::shared_ptr<ProfilerHandover>(new ProfilerHandover);
}

ProfilerHandover::ProfilerHandover()
    : quiet_fd_(AboveStandard(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))),
      memory_fds_{AboveStandard(memfd_create("jobscope", MFD_CLOEXEC)),
                  AboveStandard(memfd_create("jobscope", MFD_CLOEXEC))} {}

ProfilerHandover::~ProfilerHandover() {
  if (quiet_fd_ >= 0) close(quiet_fd_);
  for (const int fd : memory_fds_) {
    if (fd >= 0) close(fd);
  }
}

bool ProfilerHandover::Enter() {
  const MutexLock lock(&mutex_);
  if (shutting_down_) return false;
  ++calls_;
  return true;
}

void ProfilerHandover::Exit() {
  const MutexLock lock(&mutex_);
  --calls_;
  NoteQuiet();
}

void ProfilerHandover::NoteQuiet() {
  const bool quiet = shutting_down_ && calls_ == 0 && !result_.has_value() && !claimed_;
  if (quiet == said_quiet_ || quiet_fd_ < 0) return;
  said_quiet_ = quiet;
  eventfd_t value = 1;
  (void)(quiet ? eventfd_write(quiet_fd_, 1) : eventfd_read(quiet_fd_, &value));
}

bool ProfilerHandover::shutting_down() const {
  const MutexLock lock(&mutex_);
  return shutting_down_;
}

bool ProfilerHandover::complete() const {
  const MutexLock lock(&mutex_);
  return result_.has_value();
}

std::string ProfilerHandover::interruption() const {
  const MutexLock lock(&mutex_);
  return interruption_;
}

std::optional<absl::StatusOr<MappedXSpace>> ProfilerHandover::Claim(absl::Duration timeout) {
  std::optional<absl::StatusOr<Written>> written;
  {
    const MutexLock lock(&mutex_);
    const bool came = came_.WaitFor(
        &mutex_, timeout,
        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return result_.has_value(); });
    if (!came) return std::nullopt;
    claimed_ = true;
    written.swap(result_);
  }
  if (!written->ok()) return written->status();
  return MappedXSpace::Make(memory_fds_[(*written)->memory], (*written)->bytes);
}

void ProfilerHandover::Done() {
  const MutexLock lock(&mutex_);
  claimed_ = false;
  NoteQuiet();
}

void ProfilerHandover::Reset() {
  const MutexLock lock(&mutex_);
  interruption_.clear();
  if (result_.has_value() && result_->ok()) {
    (void)!ftruncate(memory_fds_[(*result_)->memory], 0);
  }
  result_.reset();
  claimed_ = false;
  NoteQuiet();
}

void ProfilerHandover::NoteShutdown() {
  const MutexLock lock(&mutex_);
  shutting_down_ = true;
  NoteQuiet();
}

void ProfilerHandover::Interrupt(const std::string& reason) {
  const MutexLock lock(&mutex_);
  interruption_ = reason;
}

void ProfilerHandover::Take(absl::StatusOr<Written> written) {
  const MutexLock lock(&mutex_);
  result_ = std::move(written);
  NoteQuiet();
  came_.NotifyAll();
}

std::vector<std::pair<std::string, python::NativeFunction>> ProfilerHandover::Functions() {
  using Arguments = std::vector<python::Value>;
  const std::shared_ptr<ProfilerHandover> self = shared_from_this();
  return {
      {"note_shutdown", [self](const Arguments&) { self->NoteShutdown(); }},
      {"interrupt",
       [self](const Arguments& arguments) {
         const auto* const reason = At<std::string>(arguments, 0);
         self->Interrupt(reason != nullptr ? *reason : "the program ended it");
       }},
      {"hand_over",
       [self](const Arguments& arguments) {
         const auto* const memory = At<int64_t>(arguments, 0);
         const auto* const bytes = At<int64_t>(arguments, 1);
         if (memory == nullptr || bytes == nullptr) return;
         Written written;
         written.memory = static_cast<size_t>(*memory) % kMemories;
         written.bytes = static_cast<size_t>(std::max<int64_t>(*bytes, 0));
         self->Take(written);
       }},
      {"refuse",
       [self](const Arguments& arguments) {
         const auto* const reason = At<std::string>(arguments, 0);
         self->Take(absl::InternalError(reason != nullptr ? *reason : "it gave no reason"));
       }},
  };
}

}  // namespace jobscope::framework
