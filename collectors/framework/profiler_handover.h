// SPDX-License-Identifier: Apache-2.0
//
// What passes between a framework's profiler, which Python drives (profiler_session.py), and the
// collector that takes what it recorded.
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
#include "collectors/python/bridge/interpreter.h"
#include "common/sync/mutex.h"

namespace jobscope::framework {

// Thread-safe. Nothing in here waits for the GIL; what Python calls waits for nothing.
//
// What was recorded goes through memory that has a descriptor: Python gives its lock up to write
// there, and the collector reads it there, without a copy. There are two, used in turn: what was
// claimed is being merged while the next is written.
//
// When the program starts a session of its own, that ends ours: Python says so (interrupt), and
// hands over what is recorded.
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

  // A call into Python, from before it asks for the GIL until it has given it back. False:
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
  // Why the program has ended the session; empty: it has not.
  std::string interruption() const;
  // Whether there is something to claim.
  bool complete() const;

  // An XSpace, or why there is none. Waits at most `timeout`; nullopt: nothing has come. At most
  // one that was claimed may exist at a time, and none longer than this object.
  std::optional<absl::StatusOr<MappedXSpace>> Claim(absl::Duration timeout);
  // What was claimed is in the trace.
  void Done();
  // A new session: what came of the last one is dropped. Nothing that was claimed may exist.
  void Reset();

  // Readable while Python is leaving, no call is under way, and nothing that was handed over waits.
  // -1: there is none.
  int quiet_fd() const { return quiet_fd_; }
  // Where Python writes XSpaces to, in turn.
  static constexpr size_t kMemories = 2;
  const std::array<int, kMemories>& memory_fds() const { return memory_fds_; }

  // What profiler_session.py calls; they keep this object alive.
  std::vector<std::pair<std::string, python::NativeFunction>> Functions();

 private:
  // Where an XSpace lies.
  struct Written {
    size_t memory = 0;
    size_t bytes = 0;
  };

  ProfilerHandover();
  bool Enter();
  void Exit();
  void Leave();
  void Interrupt(const std::string& reason);
  void Take(absl::StatusOr<Written> written);
  void NoteQuiet() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int quiet_fd_;
  const std::array<int, kMemories> memory_fds_;

  mutable Mutex mutex_;
  CondVar came_;
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
  bool leaving_ ABSL_GUARDED_BY(mutex_) = false;
  bool said_quiet_ ABSL_GUARDED_BY(mutex_) = false;
  std::string interruption_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::StatusOr<Written>> result_ ABSL_GUARDED_BY(mutex_);
  bool claimed_ ABSL_GUARDED_BY(mutex_) = false;  // and not yet done with
};

}  // namespace jobscope::framework

#endif  // COLLECTORS_FRAMEWORK_PROFILER_HANDOVER_H_
