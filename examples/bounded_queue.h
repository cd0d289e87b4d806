// SPDX-License-Identifier: Apache-2.0
//
// Connects two stages of the example's input pipeline by a bounded queue.
#ifndef EXAMPLES_BOUNDED_QUEUE_H_
#define EXAMPLES_BOUNDED_QUEUE_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace jobscope::example {

// A first-in-first-out queue for any number of threads on either end. Close wakes all of them and
// ends both ends.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  // Blocks until there is space. False if the queue was closed: the value is dropped.
  [[nodiscard]] bool Push(T value) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || values_.size() < capacity_; });
    if (closed_) return false;
    values_.push_back(std::move(value));
    changed_.notify_all();
    return true;
  }

  // Blocks until there is a value. Nothing if the queue was closed.
  std::optional<T> Pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || !values_.empty(); });
    if (closed_) return std::nullopt;
    std::optional<T> value = std::move(values_.front());
    values_.pop_front();
    changed_.notify_all();
    return value;
  }

  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  const size_t capacity_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> values_;
  bool closed_ = false;
};

}  // namespace jobscope::example

#endif  // EXAMPLES_BOUNDED_QUEUE_H_
