// SPDX-License-Identifier: Apache-2.0
#include "collectors/framework/profiler_handover.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace jobscope::framework {
namespace {

template <typename T>
const T* First(const std::vector<python::Value>& arguments) {
  return arguments.empty() ? nullptr : std::get_if<T>(arguments.data());
}

}  // namespace

std::shared_ptr<ProfilerHandover> ProfilerHandover::Make() {
  return std::shared_ptr<ProfilerHandover>(new ProfilerHandover);
}

ProfilerHandover::ProfilerHandover()
    : quiet_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      memory_fd_(memfd_create("jobscope", MFD_CLOEXEC)) {}

ProfilerHandover::~ProfilerHandover() {
  if (quiet_fd_ >= 0) close(quiet_fd_);
  if (memory_fd_ >= 0) close(memory_fd_);
}

bool ProfilerHandover::Enter() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (leaving_) return false;
  ++calls_;
  return true;
}

void ProfilerHandover::Exit() {
  const std::lock_guard<std::mutex> lock(mutex_);
  --calls_;
  NoteQuiet();
}

void ProfilerHandover::NoteQuiet() {
  const bool quiet = leaving_ && calls_ == 0 && !result_.has_value() && !claimed_;
  if (quiet == said_quiet_ || quiet_fd_ < 0) return;
  said_quiet_ = quiet;
  eventfd_t value = 1;
  (void)(quiet ? eventfd_write(quiet_fd_, 1) : eventfd_read(quiet_fd_, &value));
}

bool ProfilerHandover::leaving() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return leaving_;
}

bool ProfilerHandover::complete() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return result_.has_value();
}

std::optional<absl::StatusOr<std::string>> ProfilerHandover::Claim(absl::Duration timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  came_.wait_for(lock, absl::ToChronoNanoseconds(timeout), [this] { return result_.has_value(); });
  if (!result_.has_value()) return std::nullopt;
  claimed_ = true;
  const size_t bytes_in_memory = std::exchange(bytes_in_memory_, 0);
  std::optional<absl::StatusOr<std::string>> result = std::exchange(result_, std::nullopt);
  lock.unlock();
  if (bytes_in_memory > 0) result = ReadMemory(bytes_in_memory);
  return result;
}

absl::StatusOr<std::string> ProfilerHandover::ReadMemory(size_t bytes) const {
  std::string text;
  try {
    text.resize(bytes);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there is no memory for the ", bytes >> 20, " MiB that it recorded"));
  }
  size_t read = 0;
  while (read < bytes) {
    const ssize_t count =
        pread(memory_fd_, text.data() + read, bytes - read, static_cast<off_t>(read));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return absl::InternalError("what it handed over cannot be read");
    read += static_cast<size_t>(count);
  }
  (void)!ftruncate(memory_fd_, 0);
  return text;
}

void ProfilerHandover::Done() {
  const std::lock_guard<std::mutex> lock(mutex_);
  claimed_ = false;
  NoteQuiet();
}

void ProfilerHandover::Reset() {
  const std::lock_guard<std::mutex> lock(mutex_);
  result_.reset();
  bytes_in_memory_ = 0;
  claimed_ = false;
  NoteQuiet();
}

void ProfilerHandover::Leave() {
  const std::lock_guard<std::mutex> lock(mutex_);
  leaving_ = true;
  NoteQuiet();
}

void ProfilerHandover::Take(absl::StatusOr<std::string> bytes, size_t bytes_in_memory) {
  const std::lock_guard<std::mutex> lock(mutex_);
  result_ = std::move(bytes);
  bytes_in_memory_ = bytes_in_memory;
  NoteQuiet();
  came_.notify_all();
}

std::vector<std::pair<std::string, python::NativeFunction>> ProfilerHandover::Functions() {
  using Arguments = std::vector<python::Value>;
  const std::shared_ptr<ProfilerHandover> self = shared_from_this();
  return {
      {"leave", [self](const Arguments&) { self->Leave(); }},
      {"hand_over",
       [self](const Arguments& arguments) {
         if (const auto* const count = First<int64_t>(arguments)) {
           self->Take(std::string(), static_cast<size_t>(std::max<int64_t>(*count, 0)));
         }
       }},
      {"refuse",
       [self](const Arguments& arguments) {
         const auto* const reason = First<std::string>(arguments);
         self->Take(absl::InternalError(reason != nullptr ? *reason : "it gave no reason"), 0);
       }},
  };
}

}  // namespace jobscope::framework
