// SPDX-License-Identifier: Apache-2.0
#include "client/run/write_pool.h"

#include <utility>

namespace jobscope {

WritePool::~WritePool() {
  ThreadGroup threads;  // joined at the end, without the lock
  {
    const absl::MutexLock lock(&mutex_);
    closing_ = true;
    threads.Swap(&threads_);
  }
}

void WritePool::Run(Job job) {
  {
    const absl::MutexLock lock(&mutex_);
    const bool wanted = idle_ <= jobs_.size() && threads_.size() < max_threads_;
    // If no more threads are available, the existing ones do all jobs.
    if (wanted) (void)threads_.Start([this] { Work(); });
    if (threads_.size() > 0) {
      jobs_.push_back(std::move(job));
      return;
    }
  }
  job();
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
