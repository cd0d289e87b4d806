// SPDX-License-Identifier: Apache-2.0
//
// A program that the attach library finds itself in: C library only, threads none, and as unhelpful
// as programs are. It does not know that it is a test.
//
//   attach_target wait                     says "up", waits for a line, returns from main
//   attach_target rank                     as `wait`, but first sets each NAME=VALUE that comes as
//   a
//                                          line, and says it
//   attach_target leave MICROSECONDS       lives so long
//   attach_target forks COUNT              forks at once, again and again; each child uses malloc,
//                                          holds no port, and ends within 10 s
//   attach_target fork_while_it_starts     as `forks 1`, once something listens
//   attach_target fork_around_the_start    as `forks 1`; the start begins and ends within the fork
//   attach_target spawns COUNT PROGRAM     posix_spawn and vfork, from three threads at a time
//   attach_target inject LIBRARY NAME      dlopens LIBRARY and calls its NAME(null), as libcuda and
//                                          NVTX do; prints the result, then as `wait`
//   attach_target ranked LIBRARY RANK      sets RANK, then as `inject LIBRARY InitializeInjection`
//   attach_target plugin PLUGIN            dlopens it: its constructor injects, under the loader's
//                                          lock; prints the result, then as `wait`
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

namespace {

int Wait() {
  printf("up\n");
  fflush(stdout);
  char line[16];
  return fgets(line, sizeof(line), stdin) == nullptr ? 90 : 0;
}

int Rank() {
  printf("up\n");
  fflush(stdout);
  char line[256];
  while (fgets(line, sizeof(line), stdin) != nullptr) {
    line[strcspn(line, "\n")] = '\0';
    char* const equals = strchr(line, '=');
    if (equals == nullptr) return 0;
    *equals = '\0';
    setenv(line, equals + 1, 1);
    printf("%s=%s\n", line, getenv(line));
    fflush(stdout);
  }
  return 90;
}

int Ended(pid_t child) {
  int status = 0;
  return waitpid(child, &status, 0) == child ? status : -1;
}

// Returns whether this process has a socket that listens: a forked child must not.
bool Listens() {
  for (int fd = 3; fd < 256; ++fd) {
    int on = 0;
    socklen_t size = sizeof(on);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &size) == 0 && on != 0) return true;
  }
  return false;
}

// Exit codes of the children of Forks.
enum { kNoLibrary = 61, kNoMemory = 62, kListens = 63 };

int Forks(int count) {
  for (int i = 0; i < count; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);  // the default action ends a child that hangs, and the parent sees it
      void* library = dlopen("libm.so.6", RTLD_NOW);
      void* memory = malloc(100'000);
      const int bad = library == nullptr  ? kNoLibrary
                      : memory == nullptr ? kNoMemory
                      : Listens()         ? kListens
                                          : 0;
      free(memory);
      if (i % 2 == 0) _exit(bad);
      exit(bad);
    }
    const int status = child < 0 ? -1 : Ended(child);
    if (status != 0) {
      fprintf(stderr, "child %d of %d ended with status %#x\n", i, count, status);
      return 1;
    }
  }
  return 0;
}

bool HasThread(const char* name) {
  bool found = false;
  DIR* const tasks = opendir("/proc/self/task");
  while (const dirent* task = readdir(tasks)) {
    char path[300];
    char comm[32] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task->d_name);
    FILE* const file = fopen(path, "r");
    if (file == nullptr) continue;
    found = found || (fgets(comm, sizeof(comm), file) != nullptr && strstr(comm, name) == comm);
    fclose(file);
  }
  closedir(tasks);
  return found;
}

// As the handler of a library that was loaded later, this one runs before the attach library's.
void AwaitStart() {
  while (!Listens() || HasThread("jobscope-attach")) usleep(1000);
}

int ForkAroundTheStart() {
  pthread_atfork(&AwaitStart, nullptr, nullptr);
  return Forks(1);
}

bool SpawnOne(const char* program, bool by_vfork) {
  char* const argv[] = {const_cast<char*>(program), nullptr};
  pid_t child = -1;
  if (by_vfork) {
    child = vfork();
    if (child == 0) {
      execve(program, argv, environ);
      _exit(127);
    }
  } else if (posix_spawn(&child, program, nullptr, nullptr, argv, environ) != 0) {
    return false;
  }
  return child > 0 && Ended(child) == 0;
}

int Spawns(int count, const char* program) {
  std::vector<std::thread> threads;
  std::vector<int> bad(3, 0);
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([=, &bad] {
      for (int i = 0; i < count; ++i) bad[t] += SpawnOne(program, (i + t) % 2 == 0) ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return bad[0] + bad[1] + bad[2] == 0 ? 0 : 1;
}

int Inject(const char* library, const char* name) {
  void* handle = dlopen(library, RTLD_LAZY);
  if (handle == nullptr) {
    printf("%s\n", dlerror());
    return 1;
  }
  const auto entry = reinterpret_cast<int (*)(void*)>(dlsym(handle, name));
  if (entry == nullptr) return 1;
  const int answer = entry(nullptr);
  if (answer == 0) dlclose(handle);  // as NVTX does
  printf("secure %lu answer %d\n", getauxval(AT_SECURE), answer);
  return Wait();
}

int Plugin(const char* path) {
  void* handle = dlopen(path, RTLD_NOW);
  if (handle == nullptr) {
    printf("%s\n", dlerror());
    return 1;
  }
  const int* answer = static_cast<const int*>(dlsym(handle, "plugin_answer"));
  printf("answer %d\n", answer == nullptr ? -1 : *answer);
  return Wait();
}

}  // namespace

int main(int argc, char** argv) {
  const char* verb = argc > 1 ? argv[1] : "";
  if (strcmp(verb, "wait") == 0) return Wait();
  if (strcmp(verb, "rank") == 0) return Rank();
  if (strcmp(verb, "leave") == 0 && argc == 3) return usleep(static_cast<unsigned>(atoi(argv[2])));
  if (strcmp(verb, "forks") == 0 && argc == 3) return Forks(atoi(argv[2]));
  if (strcmp(verb, "fork_while_it_starts") == 0) {
    while (!Listens()) usleep(100);
    return Forks(1);
  }
  if (strcmp(verb, "fork_around_the_start") == 0) return ForkAroundTheStart();
  if (strcmp(verb, "spawns") == 0 && argc == 4) return Spawns(atoi(argv[2]), argv[3]);
  if (strcmp(verb, "inject") == 0 && argc == 4) return Inject(argv[2], argv[3]);
  if (strcmp(verb, "ranked") == 0 && argc == 4) {
    setenv("RANK", argv[3], 1);
    return Inject(argv[2], "InitializeInjection");
  }
  if (strcmp(verb, "plugin") == 0 && argc == 3) return Plugin(argv[2]);
  return 2;
}
