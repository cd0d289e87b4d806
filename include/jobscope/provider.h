/* SPDX-License-Identifier: Apache-2.0
 *
 * Registers collectors of other libraries: a provider is armed, started and stopped with each
 * capture of this process, and adds events, or a whole XSpace, to its trace. Link libjobscope.so,
 * or look up jobscope_provider_register in it.
 *
 * To add a provider named "my_cache", fill a jobscope_provider (name, stop) and register it. In its
 * stop callback, fill a jobscope_provider_event (name, begin_ns on CLOCK_MONOTONIC, duration_ns)
 * and pass it to session->sink->add. examples/rusage_provider.c is a complete example.
 *
 * Nothing here throws, aborts or exits. Strings are zero-terminated; bytes that are not UTF-8 are
 * replaced by '?'. Each struct contains its size, so that a newer library works with an older
 * caller: set `size` with sizeof, and all other fields to zero.
 */
#ifndef JOBSCOPE_PROVIDER_H_
#define JOBSCOPE_PROVIDER_H_

#include <stddef.h>
#include <stdint.h>

#include "jobscope/jobscope_c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The clock of a provider's times. */
enum jobscope_provider_clock {
  JOBSCOPE_PROVIDER_MONOTONIC = 0, /* CLOCK_MONOTONIC, ns */
  JOBSCOPE_PROVIDER_REALTIME = 1,  /* CLOCK_REALTIME, ns since the epoch */
};

enum jobscope_provider_kind {
  JOBSCOPE_PROVIDER_SPAN = 0,    /* from begin_ns, duration_ns long; 0: a point in time */
  JOBSCOPE_PROVIDER_COUNTER = 1, /* `value` at begin_ns: a sample of the counter `name` */
};

enum jobscope_provider_arg_type {
  JOBSCOPE_PROVIDER_INT64 = 0,
  JOBSCOPE_PROVIDER_DOUBLE = 1,
  JOBSCOPE_PROVIDER_TEXT = 2,
  JOBSCOPE_PROVIDER_UINT64 = 3,
};

/* One key with its value. The layout never changes. */
typedef struct jobscope_provider_arg {
  const char* key;
  int32_t type; /* jobscope_provider_arg_type */
  int32_t reserved;
  union {
    int64_t int64_value;
    uint64_t uint64_value;
    double double_value;
    const char* text; /* at most 4,096 bytes are kept */
  } value;
} jobscope_provider_arg;

#define JOBSCOPE_PROVIDER_MAX_ARGS 32

typedef struct jobscope_provider_event {
  size_t size;      /* sizeof(jobscope_provider_event); also the stride of arrays */
  const char* name; /* at most 1,024 bytes are kept */
  /* The name of the event's timeline on the provider's own plane. NULL: the event is on the
   * timeline of the thread `thread_id` of this process, among the program's events; if `thread_id`
   * is 0, on a timeline with the provider's name. */
  const char* line;
  int64_t thread_id; /* as gettid(); 0: none */
  int64_t begin_ns;
  int64_t duration_ns;
  const jobscope_provider_arg* args; /* the first JOBSCOPE_PROVIDER_MAX_ARGS are kept */
  size_t arg_count;
  int32_t kind; /* jobscope_provider_kind */
  int32_t reserved;
  double value; /* of a counter */
} jobscope_provider_event;

/* Receives a provider's events. Valid until the process ends. */
typedef struct jobscope_provider_sink {
  size_t size;
  /* Adds `count` events; copies them. Thread-safe. May be called from the beginning of start() to
   * the end of stop(). Events may have any time and any order. Events outside of the window are
   * counted as such; malformed events, and events for which there is no memory, count as lost.
   * Costs about as much as copying; blocks only for a concurrent call. Returns 0, JOBSCOPE_E_STATE
   * if nothing is recorded (discard the events), or JOBSCOPE_E_INVALID (a NULL or a wrong size). */
  int (*add)(struct jobscope_provider_sink* sink, const jobscope_provider_event* events,
             size_t count);
  /* Adds a serialised XSpace of `size` bytes: its planes become planes of the trace. May be called
   * only inside of stop(). Returns 0, or JOBSCOPE_E_* with a text in `error`. */
  int (*add_xspace)(struct jobscope_provider_sink* sink, const void* bytes, size_t size,
                    char* error, size_t error_size);
} jobscope_provider_sink;

/* The capture, as passed to each callback. */
typedef struct jobscope_provider_session {
  size_t size;
  jobscope_provider_sink* sink;
  int host_tracer_level;   /* 0..3 */
  int device_tracer_level; /* 0..1 */
  int python_tracer_level; /* 0..2 */
  int reserved;
  /* The window, on both clocks, in ns; 0: unknown. The beginning is known from start() on. The end
   * is known in stop(); if it is planned, also in start(). */
  int64_t begin_monotonic_ns;
  int64_t begin_realtime_ns;
  int64_t end_monotonic_ns;
  int64_t end_realtime_ns;
} jobscope_provider_session;

/* A callback of a provider. A capture calls all callbacks of a provider on one thread, which no
 * other provider uses, with signals blocked. Returns 0 on success. Any other value excludes the
 * provider from this capture; the table then shows the zero-terminated text in `reason` (or none),
 * and events that were added before remain. A callback that exceeds its time limit is abandoned;
 * the provider takes part in captures again after the callback has returned. Must not throw. */
typedef int (*jobscope_provider_callback)(void* context, const jobscope_provider_session* session,
                                          char* reason, size_t reason_size);

typedef struct jobscope_provider {
  size_t size; /* sizeof(jobscope_provider) */
  /* The name in `capture`'s table and for --frameworks: 1 to 40 of a-z, 0-9, '_', '-', '.',
   * beginning with a letter, and different from jobscope's own collectors. */
  const char* name;
  void* context;
  int clock; /* jobscope_provider_clock */
  int reserved;
  /* Time limits: 5 s for arm (for slow preparations), 1 s for start, 2 s for stop. arm and
   * start may be NULL. stop is called after every start() that returned 0, and after an arm() whose
   * capture ended before the start. */
  jobscope_provider_callback arm;
  jobscope_provider_callback start;
  jobscope_provider_callback stop;
} jobscope_provider;

/* Registers a provider for all later captures that do not exclude it (--frameworks). May be called
 * before or after a server has started. Copies `provider` and its name. Returns 0, or an error code
 * with a text in `error` (may be NULL): JOBSCOPE_E_INVALID, JOBSCOPE_E_BUSY (a provider of this
 * name is registered, or 32 names have been used), JOBSCOPE_E_FORKED. */
JOBSCOPE_API int jobscope_provider_register(const jobscope_provider* provider, char* error,
                                            size_t error_size);

/* Removes the provider `name`. If the provider records in a capture, stops it first. After a return
 * of 0, none of its callbacks runs or will be called. Returns JOBSCOPE_E_STATE if no provider has
 * this name. Returns JOBSCOPE_E_BUSY if one of its callbacks has been running for a second, or is
 * the caller: no further callback will be called, but context and code must stay valid. Call this
 * before the code is unloaded or the context is freed; if destructors free the context, before the
 * end of main. */
JOBSCOPE_API int jobscope_provider_unregister(const char* name, char* error, size_t error_size);

/* Calls body(argument) on this thread while no other thread of the process forks. For callbacks
 * that enter another language: an interpreter may take its own locks when a thread attaches to it
 * (PyThreadState_New), and in a child that is forked at that moment these would stay locked. Forks
 * wait for at most 2 s for `body`. Blocks for at most 1 s for forks in progress, and not at all in
 * a forked child. `body` must not fork, and should take microseconds. If `body` is NULL, does
 * nothing. */
JOBSCOPE_API void jobscope_while_nobody_forks(void (*body)(void* argument), void* argument);

#ifdef __cplusplus
}
#endif
#endif /* JOBSCOPE_PROVIDER_H_ */
