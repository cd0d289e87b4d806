// SPDX-License-Identifier: Apache-2.0
#include "client/run/write_pool.h"

#include <system_error>
#include <utility>

namespace jobscope {

WritePool::~WritePool() {
  std::vector<std::thread> threads;
  {
    const absl::MutexLock lock(&mutex_);
    closing_ = true;
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

void WritePool::Run(Job job) {
  {
    const absl::MutexLock lock(&mutex_);
    const bool wanted = idle_ <= jobs_.size() && threads_.size() < max_threads_;
    if (wanted) StartThread();
    if (!threads_.empty()) {
      jobs_.push_back(std::move(job));
      return;
    }
  }
  job();
}

void WritePool::StartThread() {
  try {
    threads_.emplace_back([this] { Work(); });
  } catch (const std::system_error&) {
    // No more threads are available: the existing ones do all jobs.
  }
}

void WritePool::Work() {
  while (true) {
    Job job;
    {
      const absl::MutexLock lock(&mutex_);
      ++idle_;
      mutex_.Await(absl::Condition(this, &WritePool::HasWork));
      --idle_;
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace jobscope
