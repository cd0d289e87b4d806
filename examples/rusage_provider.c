/* SPDX-License-Identifier: Apache-2.0
 *
 * A custom collector in C: samples page faults and involuntary context switches of the process as
 * counters, every 5 ms, only while a capture runs.
 *
 *   rusage_provider [ADDRESS]
 *   capture --service_addr=ADDRESS --duration_ms=500 --logdir=DIR
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "jobscope/jobscope_c.h"
#include "jobscope/provider.h"

struct sampler {
  pthread_t thread;
  atomic_int stopping;
  jobscope_provider_sink* sink;
};

static int64_t MonotonicNs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static jobscope_provider_event Counter(const char* name, int64_t at_ns, long value) {
  jobscope_provider_event event;
  memset(&event, 0, sizeof(event));
  event.size = sizeof(event);
  event.kind = JOBSCOPE_PROVIDER_COUNTER;
  event.name = name;
  event.begin_ns = at_ns;
  event.value = (double)value;
  return event;
}

static void* Sample(void* argument) {
  struct sampler* const sampler = argument;
  const struct timespec pause = {0, 5000000};
  struct rusage before;
  getrusage(RUSAGE_SELF, &before);
  while (!atomic_load(&sampler->stopping)) {
    nanosleep(&pause, NULL);
    struct rusage now;
    getrusage(RUSAGE_SELF, &now);
    const int64_t at_ns = MonotonicNs();
    const jobscope_provider_event events[] = {
        Counter("page faults / 5 ms", at_ns, now.ru_minflt - before.ru_minflt),
        Counter("preemptions / 5 ms", at_ns, now.ru_nivcsw - before.ru_nivcsw),
    };
    sampler->sink->add(sampler->sink, events, 2);
    before = now;
  }
  return NULL;
}

static int Start(void* context, const jobscope_provider_session* session, char* reason,
                 size_t reason_size) {
  struct sampler* const sampler = context;
  sampler->sink = session->sink;
  atomic_store(&sampler->stopping, 0);
  if (pthread_create(&sampler->thread, NULL, &Sample, sampler) == 0) return 0;
  snprintf(reason, reason_size, "no thread to sample on");
  return 1;
}

static int Stop(void* context, const jobscope_provider_session* session, char* reason,
                size_t reason_size) {
  (void)reason;
  (void)reason_size;
  struct sampler* const sampler = context;
  if (session->begin_monotonic_ns == 0) return 0; /* armed, but never started */
  atomic_store(&sampler->stopping, 1);
  pthread_join(sampler->thread, NULL);
  return 0;
}

/* Causes page faults to record. */
static void Work(void) {
  const size_t bytes = (size_t)4 << 20;
  char* const memory =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  for (size_t at = 0; at < bytes; at += 4096) memory[at] = 1;
  munmap(memory, bytes);
}

int main(int argc, char** argv) {
  static struct sampler sampler;
  char text[1024];

  jobscope_provider provider;
  memset(&provider, 0, sizeof(provider));
  provider.size = sizeof(provider);
  provider.name = "rusage";
  provider.context = &sampler;
  provider.start = &Start;
  provider.stop = &Stop;
  if (jobscope_provider_register(&provider, text, sizeof(text)) != JOBSCOPE_OK) {
    fprintf(stderr, "%s\n", text);
    return 1;
  }

  jobscope_server_options options;
  memset(&options, 0, sizeof(options));
  options.size = sizeof(options);
  options.address = argc > 1 ? argv[1] : "127.0.0.1:0";
  char address[1100];
  if (jobscope_server_start(&options, address, sizeof(address), text, sizeof(text)) !=
      JOBSCOPE_OK) {
    fprintf(stderr, "%s\n", text);
    return 1;
  }
  printf("%s\n", address);
  fflush(stdout);

  const struct timespec pause = {0, 1000000};
  for (;;) { /* until it is killed */
    Work();
    nanosleep(&pause, NULL);
  }
}
