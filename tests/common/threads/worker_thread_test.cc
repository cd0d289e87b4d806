// SPDX-License-Identifier: Apache-2.0
#include "common/threads/worker_thread.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <functional>
#include <future>
#include <new>
#include <thread>

#include "common/process/process_cpus.h"

namespace jobscope {
namespace {

// What `look` finds on a new thread of ours.
template <typename Result>
Result OnWorkerThread(std::function<Result()> look) {
  std::promise<Result> found;
  EXPECT_TRUE(StartWorkerThread("jobscope-test", [&] { found.set_value(look()); }).ok());
  return found.get_future().get();
}

TEST(WorkerThread, RunsOnTheProcessorsOfTheProcessAndNotOnItsCreators) {
  const CpuSet all = CpuSet::OfThread(0);
  if (all.count() < 2) GTEST_SKIP() << "there is one processor only";
  // As OpenMP binds its threads.
  std::thread([&all] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    ASSERT_EQ(CpuSet::OfThread(0).count(), 1u);
    EXPECT_TRUE(OnWorkerThread<CpuSet>([] { return CpuSet::OfThread(0); }) == all);
    // And the creator stays where it was.
    EXPECT_EQ(CpuSet::OfThread(0).count(), 1u);
  }).join();
}

TEST(WorkerThread, BoundMainThreadDoesNotBindIt) {
  const CpuSet all = CpuSet::OfThread(0);
  if (all.count() < 2) GTEST_SKIP() << "there is one processor only";
  (void)ProcessCpus();
  std::promise<void> end;
  std::thread other([&end] { end.get_future().wait(); });  // a thread that is not bound
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_TRUE(OnWorkerThread<CpuSet>([] { return CpuSet::OfThread(0); }) == all);
  all.ApplyToThisThread();
  end.set_value();
  other.join();
}

TEST(WorkerThread, HasAnOrdinaryPolicy) {
  std::thread([] {
    const sched_param param = {1};
    if (sched_setscheduler(0, SCHED_FIFO, &param) != 0) GTEST_SKIP() << "needs CAP_SYS_NICE";
    EXPECT_EQ(OnWorkerThread<int>([] { return sched_getscheduler(0); }), SCHED_OTHER);
  }).join();
}

TEST(WorkerThread, HasAStackForWhatRunsThere) {
  pthread_attr_t before;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  pthread_attr_t small = before;
  ASSERT_EQ(pthread_attr_setstacksize(&small, 256 << 10), 0);
  ASSERT_EQ(pthread_setattr_default_np(&small), 0);
  const size_t bytes = OnWorkerThread<size_t>([] {
    pthread_attr_t attributes;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
      pthread_attr_getstacksize(&attributes, &size);
      pthread_attr_destroy(&attributes);
    }
    return size;
  });
  ASSERT_EQ(pthread_setattr_default_np(&before), 0);
  pthread_attr_destroy(&before);
  EXPECT_GE(bytes, size_t{8} << 20);
}

TEST(WorkerThread, TakesNoSignalOfTheApplication) {
  EXPECT_EQ(OnWorkerThread<int>([] {
              sigset_t mask;
              pthread_sigmask(SIG_SETMASK, nullptr, &mask);
              return sigismember(&mask, SIGTERM) + 2 * sigismember(&mask, SIGSEGV);
            }),
            1);
}

TEST(WorkerThread, ExceptionEndsTheThreadAndNotTheProcess) {
  std::promise<void> ran;
  ASSERT_TRUE(StartWorkerThread("jobscope-test", [&ran] {
                ran.set_value();
                throw std::bad_alloc();
              }).ok());
  ran.get_future().wait();
  EXPECT_TRUE(OnWorkerThread<bool>([] { return true; }));
}

TEST(FreeThreads, CountsUpToWhatIsWanted) { EXPECT_EQ(FreeThreads(5), 5u); }

}  // namespace
}  // namespace jobscope
