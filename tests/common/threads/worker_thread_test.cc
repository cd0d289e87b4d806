// SPDX-License-Identifier: Apache-2.0
#include "common/threads/worker_thread.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fenv.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <new>
#include <thread>

#include "absl/strings/cord.h"
#include "common/process/process_cpus.h"
#include "common/status/error_reason.h"
#include "tests/no_threads.h"

namespace jobscope {
namespace {

// What `look` finds on a new thread of ours.
template <typename Result>
Result OnWorkerThread(std::function<Result()> look) {
  std::promise<Result> found;
  EXPECT_TRUE(StartWorkerThread("jobscope-test", [&] { found.set_value(look()); }).ok());
  return found.get_future().get();
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kHeapsOfGlibc = false;
#elif defined(__has_feature)
constexpr bool kHeapsOfGlibc =
    !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer);
#else
constexpr bool kHeapsOfGlibc = true;
#endif
constexpr uint64_t kHeapMiB = 64;  // of each thread

uint64_t MappedMiB() {
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0;
  statm >> pages;
  return (pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE))) >> 20;
}

// Runs `test` in a process of its own: glibc keeps the heaps of ended threads for later ones.
void ExpectInOwnProcess(bool (*test)()) {
  if (!kHeapsOfGlibc) GTEST_SKIP() << "a sanitizer has an allocator of its own";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(_exit(test() ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

TEST(WorkerThread, HasItsHeapBeforeItsBodyRuns) {
  ExpectInOwnProcess([] {
    const uint64_t before = MappedMiB();
    std::atomic<bool> runs{false};
    const bool started = StartWorkerThread("jobscope-test", [&runs] {
                           runs = true;
                           for (;;) pause();
                         }).ok();
    while (!runs) std::this_thread::yield();
    return started && MappedMiB() >= before + kHeapMiB;
  });
}

TEST(WorkerThread, ItsCreatorKnowsItsId) {
  const auto own = std::make_shared<std::promise<pid_t>>();
  std::promise<void> known;
  pid_t tid = 0;
  ASSERT_TRUE(StartWorkerThread(
                  "jobscope-test",
                  [own, known = known.get_future()] {
                    own->set_value(gettid());
                    known.wait();  // so that the thread lives while it is asked for its id
                  },
                  &tid)
                  .ok());
  EXPECT_EQ(tid, own->get_future().get());
  known.set_value();
}

TEST(FreeThreads, ReservesAHeapForEach) {
  ExpectInOwnProcess([] {
    rlimit limit = {};
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = uint64_t{1} << 40;  // without any limit it need not create the threads
    if (setrlimit(RLIMIT_AS, &limit) != 0) return false;
    const uint64_t before = MappedMiB();
    return FreeThreads(3, /*reserve_heaps=*/true) == 3 && MappedMiB() >= before + 3 * kHeapMiB;
  });
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

// Numeric programs let the exceptions end them.
TEST(WorkerThread, FloatingPointExceptionsOfTheProgramDoNotTrapInIt) {
  std::thread([] {
    ASSERT_EQ(feenableexcept(FE_DIVBYZERO | FE_INVALID), 0);
    ASSERT_EQ(fesetround(FE_UPWARD), 0);
    EXPECT_EQ(OnWorkerThread<int>([] { return fegetexcept(); }), 0);
    EXPECT_EQ(OnWorkerThread<int>([] { return fegetround(); }), FE_TONEAREST);
    // And the creator keeps its own.
    EXPECT_EQ(fegetexcept(), FE_DIVBYZERO | FE_INVALID);
    EXPECT_EQ(fegetround(), FE_UPWARD);
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

void StartOneThatThereIsNoRoomFor() {
  AllowNoThreads();
  const absl::Status status = StartWorkerThread("none", [] {});
  _exit(status.GetPayload(kReasonPayload) == absl::Cord("PROCESS_LIMIT") ? 0 : 1);
}

// It tells clients that no wait helps.
// Tells, when a thread ends, whether a message of dlerror() is left.
struct MessageLeft {
  std::promise<bool>* left = nullptr;
  ~MessageLeft() { left->set_value(dlerror() != nullptr); }
};

TEST(WorkerThread, LeavesNoMessageOfTheDynamicLinker) {
  std::promise<bool> left;
  ASSERT_TRUE(StartWorkerThread("jobscope-test", [&left] {
                thread_local MessageLeft at_the_end;
                at_the_end.left = &left;
                EXPECT_EQ(dlopen("libjobscope_of_nobody.so", RTLD_NOW), nullptr);
              }).ok());
  EXPECT_FALSE(left.get_future().get());
}

TEST(WorkerThread, OneThatThereIsNoRoomForIsALimitOfTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(StartOneThatThereIsNoRoomFor(), ::testing::ExitedWithCode(0), "");
}

TEST(FreeThreads, CountsUpToWhatIsWanted) { EXPECT_EQ(FreeThreads(5), 5u); }

}  // namespace
}  // namespace jobscope
