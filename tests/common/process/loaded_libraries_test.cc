// SPDX-License-Identifier: Apache-2.0
#include "common/process/loaded_libraries.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <string>
#include <thread>

#include "common/process/fork_pause.h"

namespace jobscope {
namespace {

using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::Not;

constexpr auto kTimeout = std::chrono::seconds(20);

TEST(LoadedLibrariesTest, TellsWhatIsLoaded) {
  const std::string libc = FindLoadedLibrary("libc.so");
  EXPECT_EQ(FileNameOf(libc), "libc.so.6");
  EXPECT_THAT(LoadedLibraries(), Contains(libc));
  EXPECT_EQ(FindLoadedLibrary("no_such_library.so"), "");
  EXPECT_THAT(LoadedLibraries(), Not(Contains("")));
}

TEST(LoadedLibrariesTest, DoesNotWaitForALibraryThatIsBeingLoaded) {
  int begun[2];
  int gate[2];
  ASSERT_EQ(pipe(begun), 0);
  ASSERT_EQ(pipe(gate), 0);
  setenv("JOBSCOPE_TEST_BEGUN_FD", std::to_string(begun[1]).c_str(), 1);
  setenv("JOBSCOPE_TEST_GATE_FD", std::to_string(gate[0]).c_str(), 1);
  const uint64_t loads = LibraryLoads();
  EXPECT_EQ(LibraryLoads(), loads);
  std::thread loading([] { EXPECT_NE(dlopen(SLOW_LIBRARY, RTLD_NOW), nullptr) << dlerror(); });
  char byte = 0;
  ASSERT_EQ(read(begun[0], &byte, 1), 1) << "its constructor does not run";
  auto look = std::async(std::launch::async, [loads] {
    EXPECT_GT(LibraryLoads(), loads);
    EXPECT_THAT(LoadedLibraries(), Contains(EndsWith("slow_library.so")));
    return FindLoadedLibrary("slow_library.so");
  });
  EXPECT_EQ(look.wait_for(kTimeout), std::future_status::ready);
  ASSERT_EQ(write(gate[1], &byte, 1), 1);
  EXPECT_EQ(look.get(), SLOW_LIBRARY);
  loading.join();
}

TEST(LoadedLibrariesTest, KnowsTheLastStateDuringAFork) {
  LibraryPresence libc("libc.so");
  const auto known_during_a_fork = [&libc] {
    std::promise<void> begun;
    std::promise<void> end;
    std::thread forking([&] {
      EXPECT_TRUE(BeginFork());
      begun.set_value();
      end.get_future().wait();
      EndFork();
    });
    begun.get_future().wait();
    const bool known = libc.IsKnownLoaded();
    end.set_value();
    forking.join();
    return known;
  };
  EXPECT_FALSE(known_during_a_fork());
  EXPECT_TRUE(libc.IsKnownLoaded());
  EXPECT_TRUE(known_during_a_fork());
  EXPECT_TRUE(libc.IsLoaded());
  EXPECT_FALSE(LibraryPresence("no_such_library.so").IsKnownLoaded());
}

thread_local bool t_fork_begun = false;

// A child that is forked while the list is being read would find its lock held by a thread that
// does not exist there.
TEST(LoadedLibrariesTest, AForkedChildCanReadTheList) {
  ASSERT_EQ(pthread_atfork([] { t_fork_begun = BeginFork(); },
                           [] {
                             if (t_fork_begun) EndFork();
                           },
                           nullptr),
            0);
  constexpr int kRounds = 100;
  constexpr int kLooks = 300;
  std::atomic<int> round{0};
  std::thread looking([&round] {
    for (int seen = 0; seen < kRounds;) {
      if (round.load() == seen) {
        std::this_thread::yield();
        continue;
      }
      seen = round.load();
      for (int i = 0; i < kLooks; ++i) (void)LoadedLibraries();
    }
  });
  for (int i = 1; i <= kRounds; ++i) {
    round.store(i);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(10);
      dl_iterate_phdr([](dl_phdr_info*, size_t, void*) { return 1; }, nullptr);
      _exit(0);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    // Where no thread was run for 100 ms, the fork went on without waiting.
    if (status == 0 || !t_fork_begun) continue;
    ADD_FAILURE() << "the child of round " << i << " hung";
    round.store(kRounds);
    break;
  }
  looking.join();
}

}  // namespace
}  // namespace jobscope
