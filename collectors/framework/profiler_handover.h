// SPDX-License-Identifier: Apache-2.0
//
// What passes between a framework's profiler, which Python drives (profiler_session.py), and the
// collector that takes what it recorded.
#ifndef COLLECTORS_FRAMEWORK_PROFILER_HANDOVER_H_
#define COLLECTORS_FRAMEWORK_PROFILER_HANDOVER_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collectors/python/interpreter.h"

namespace jobscope::framework {

// Thread-safe. Nothing in here waits for Python's lock; what Python calls waits for nothing.
//
// What was recorded goes through memory that has a descriptor: Python gives its lock up to write
// there, and so nobody waits for us to copy megabytes.
//
// When the interpreter ends, its exit hook has the last word: it calls leave, after which no call
// into Python begins any more; hands over what is recorded; and waits until quiet_fd is readable.
// A thread that is in Python after that would be ended there, or hang.
class ProfilerHandover : public std::enable_shared_from_this<ProfilerHandover> {
 public:
  static std::shared_ptr<ProfilerHandover> Make();
  ~ProfilerHandover();
  ProfilerHandover(const ProfilerHandover&) = delete;
  ProfilerHandover& operator=(const ProfilerHandover&) = delete;

  // A call into Python, from before it asks for Python's lock until it has given it back. False:
  // none may begin any more.
  class Call {
   public:
    explicit Call(ProfilerHandover* handover) : handover_(handover), begun_(handover->Enter()) {}
    ~Call() {
      if (begun_) handover_->Exit();
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    explicit operator bool() const { return begun_; }

   private:
    ProfilerHandover* const handover_;
    const bool begun_;
  };

  bool leaving() const;
  // Whether there is something to claim.
  bool complete() const;

  // An XSpace, or why there is none. Waits at most `timeout`; nullopt: nothing has come.
  std::optional<absl::StatusOr<std::string>> Claim(absl::Duration timeout);
  // What was claimed is in the trace.
  void Done();
  // A new session: what came of the last one is dropped.
  void Reset();

  // Readable while Python is leaving, no call is under way, and nothing that was handed over waits.
  // -1: there is none.
  int quiet_fd() const { return quiet_fd_; }
  // Where Python writes an XSpace to; free again once it was claimed.
  int memory_fd() const { return memory_fd_; }

  // What profiler_session.py calls; they keep this object alive.
  std::vector<std::pair<std::string, python::NativeFunction>> Functions();

 private:
  ProfilerHandover();
  bool Enter();
  void Exit();
  void Leave();
  void Take(absl::StatusOr<std::string> bytes, size_t bytes_in_memory);
  absl::StatusOr<std::string> ReadMemory(size_t bytes) const;
  void NoteQuiet();  // with the mutex

  const int quiet_fd_;
  const int memory_fd_;

  mutable std::mutex mutex_;
  std::condition_variable came_;
  int calls_ = 0;
  bool leaving_ = false;
  bool said_quiet_ = false;
  std::optional<absl::StatusOr<std::string>> result_;
  size_t bytes_in_memory_ = 0;  // of the result, or 0
  bool claimed_ = false;        // and not yet done with
};

}  // namespace jobscope::framework

#endif  // COLLECTORS_FRAMEWORK_PROFILER_HANDOVER_H_
