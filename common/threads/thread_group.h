// SPDX-License-Identifier: Apache-2.0
//
// Starts the threads of a program of ours.
#ifndef COMMON_THREADS_THREAD_GROUP_H_
#define COMMON_THREADS_THREAD_GROUP_H_

#include <cstddef>
#include <functional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace jobscope {

// Joins its threads when it is destroyed. For the client and the report; threads inside of somebody
// else's process are started by StartWorkerThread. Not thread-safe.
class ThreadGroup {
 public:
  ThreadGroup() = default;
  ~ThreadGroup() { Join(); }
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  // Runs `body` on a new thread. Returns false if the system has no more threads.
  bool Start(std::function<void()> body) {
    try {
      threads_.emplace_back(std::move(body));
      return true;
    } catch (const std::system_error&) {
      return false;
    }
  }

  // Blocks until all have ended.
  void Join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  size_t size() const { return threads_.size(); }
  void Swap(ThreadGroup* other) { threads_.swap(other->threads_); }

 private:
  std::vector<std::thread> threads_;
};

// Runs `body` on a new thread of such a program that is not joined, because it may hang: `body` may
// only use what it owns. Returns false if the system has no more threads.
inline bool StartDetachedThread(std::function<void()> body) {
  try {
    std::thread(std::move(body)).detach();
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

}  // namespace jobscope

#endif  // COMMON_THREADS_THREAD_GROUP_H_
