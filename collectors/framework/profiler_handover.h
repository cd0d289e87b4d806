// SPDX-License-Identifier: Apache-2.0
//
// Passes recordings and requests between a framework's profiler, which Python drives
// (profiler_session.py), and the collector.
#ifndef COLLECTORS_FRAMEWORK_PROFILER_HANDOVER_H_
#define COLLECTORS_FRAMEWORK_PROFILER_HANDOVER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collectors/framework/mapped_xspace.h"
#include "collectors/python/bridge/script.h"
#include "common/sync/mutex.h"

namespace jobscope::framework {

// Passes recordings from Python to the collector. Thread-safe. Nothing in here waits for the GIL;
// functions that Python calls never block.
//
// Recordings are passed through memory with a descriptor: Python releases the GIL to write there,
// and the collector reads it there, without a copy. Two of them are used in turn: a claimed one is
// being merged while the next is written.
//
// When the program starts a session of its own, that ends ours: Python reports this (interrupt) and
// hands over the recording.
//
// When the interpreter ends, its exit hook calls leave, hands over the last recording, and waits
// until quiet_fd is readable. After leave no call into Python begins. A thread that is in Python
// after that would be ended there, or hang.
class ProfilerHandover : public std::enable_shared_from_this<ProfilerHandover> {
 public:
  static std::shared_ptr<ProfilerHandover> Make();
  ~ProfilerHandover();
  ProfilerHandover(const ProfilerHandover&) = delete;
  ProfilerHandover& operator=(const ProfilerHandover&) = delete;

  // A call into Python, from before it requests the GIL until it has released it. False: no call
  // may begin any more.
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

  bool shutting_down() const;
  // Returns why the program has ended the session; empty: it has not.
  std::string interruption() const;
  // Returns whether there is something to claim.
  bool complete() const;

  // Claims an XSpace, or the reason why there is none. Blocks for at most `timeout`; nullopt:
  // nothing arrived. At most one claimed XSpace may exist at a time, and must not outlive this
  // object.
  std::optional<absl::StatusOr<MappedXSpace>> Claim(absl::Duration timeout);
  // Call it when the claimed XSpace has been merged.
  void Done();
  // Begins a new session; discards results of the last one. No claimed XSpace may exist.
  void Reset();

  // Readable while Python shuts down, no call is in progress, and nothing handed over is waiting.
  // -1: not available.
  int quiet_fd() const { return quiet_fd_; }
  // Memory to which Python writes XSpaces, in turn.
  static constexpr size_t kMemories = 2;
  const std::array<int, kMemories>& memory_fds() const { return memory_fds_; }

  // Returns the functions that profiler_session.py calls; they keep this object alive.
  std::vector<std::pair<std::string, python::NativeFunction>> Functions();

 private:
  // Where an XSpace was written.
  struct Written {
    size_t memory = 0;
    size_t bytes = 0;
  };

  ProfilerHandover();
  bool Enter();
  void Exit();
  void NoteShutdown();
  void Interrupt(const std::string& reason);
  void Take(absl::StatusOr<Written> written);
  void NoteQuiet() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int quiet_fd_;
  const std::array<int, kMemories> memory_fds_;

  mutable Mutex mutex_;
  CondVar came_;
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
  bool shutting_down_ ABSL_GUARDED_BY(mutex_) = false;
  bool said_quiet_ ABSL_GUARDED_BY(mutex_) = false;
  std::string interruption_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::StatusOr<Written>> result_ ABSL_GUARDED_BY(mutex_);
  bool claimed_ ABSL_GUARDED_BY(mutex_) = false;  // and not yet merged
};

}  // namespace jobscope::framework

#endif  // COLLECTORS_FRAMEWORK_PROFILER_HANDOVER_H_
