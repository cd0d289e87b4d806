/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectors of others: a provider is armed, started and stopped with each capture of this process,
 * and gives events, or a whole XSpace, to its trace. Link libjobscope.so, or find
 * jobscope_provider_register in it.
 *
 * A provider named "my_cache" fills a jobscope_provider (name, stop), registers it, and in its stop
 * callback fills a jobscope_provider_event (name, begin_ns on CLOCK_MONOTONIC, duration_ns) and
 * gives it to session->sink->add. examples/rusage_provider.c is one to read.
 *
 * Nothing here throws, aborts or exits. Texts end with a zero, and what is not UTF-8 in them is
 * replaced by '?'. Structs carry their size, so that a newer library serves an older caller: set it
 * with sizeof, zero the rest.
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
  JOBSCOPE_PROVIDER_SPAN = 0,    /* from begin_ns, duration_ns long; 0 long: a point in time */
  JOBSCOPE_PROVIDER_COUNTER = 1, /* `value` at begin_ns: a sample of the number `name` */
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
  /* Where it stands: the line of this name on the provider's own plane. NULL: on the line of the
   * thread `thread_id` of this process, among the events of the program; without a thread, on a
   * line of the provider's name. */
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

/* Where a provider's events go. It lives as long as the process. */
typedef struct jobscope_provider_sink {
  size_t size;
  /* Takes events; copies them. From any thread, between the beginning of start() and the end of
   * stop(); they may be of any time and in any order. What lies outside of the window is counted as
   * such, what is malformed or finds no room as lost. Costs about as much as copying; waits for
   * nothing but a thread that is also here. Returns 0, JOBSCOPE_E_STATE when nothing is recorded
   * (the events are of no use, drop them), or JOBSCOPE_E_INVALID (a NULL, or a wrong size). */
  int (*add)(struct jobscope_provider_sink* sink, const jobscope_provider_event* events,
             size_t count);
  /* Takes a serialized XSpace, inside of stop() only: its planes become planes of the trace.
   * Returns 0, or an error code and a text. */
  int (*add_xspace)(struct jobscope_provider_sink* sink, const void* bytes, size_t size,
                    char* error, size_t error_size);
} jobscope_provider_sink;

/* The capture, as told to each callback. */
typedef struct jobscope_provider_session {
  size_t size;
  jobscope_provider_sink* sink;
  int host_tracer_level;   /* 0..3 */
  int device_tracer_level; /* 0..1 */
  int python_tracer_level; /* 0..2 */
  int reserved;
  /* The window, on both clocks. The begin is known from start() on, the end in stop(), and in
   * start() if it is planned. 0: not known. */
  int64_t begin_monotonic_ns;
  int64_t begin_realtime_ns;
  int64_t end_monotonic_ns;
  int64_t end_realtime_ns;
} jobscope_provider_session;

/* What a capture calls, on a thread that is the provider's for its time, with signals blocked. 0:
 * done. Else the provider is out of this capture, with the text in `reason` (zero-terminated, or
 * empty) in the table; what it gave stays. One that takes longer than its time is left alone, and
 * takes part again in the captures after the callback has returned. No exception may leave it. */
typedef int (*jobscope_provider_callback)(void* context, const jobscope_provider_session* session,
                                          char* reason, size_t reason_size);

typedef struct jobscope_provider {
  size_t size; /* sizeof(jobscope_provider) */
  /* What `capture`'s table and --frameworks call it: 1 to 40 of a-z, 0-9, '_', '-', '.', beginning
   * with a letter, and no collector's of ours. */
  const char* name;
  void* context;
  int clock; /* jobscope_provider_clock */
  int reserved;
  jobscope_provider_callback arm;   /* 5 s: what costs time. NULL: nothing */
  jobscope_provider_callback start; /* 1 s. NULL: nothing */
  jobscope_provider_callback stop;  /* 2 s; called after every start() that returned 0, and after an
                                       arm() whose capture ended before the start */
} jobscope_provider;

/* Makes the provider take part in the captures that begin from now on, before or after a server has
 * started, unless they were asked for without it (--frameworks). Copies what `provider` and its
 * name hold. Returns 0, or an error code and a text: JOBSCOPE_E_INVALID, JOBSCOPE_E_BUSY (a
 * provider of this name is registered, or 32 names have been used), JOBSCOPE_E_FORKED. */
JOBSCOPE_API int jobscope_provider_register(const jobscope_provider* provider, char* error,
                                            size_t error_size);

/* Takes it out. One that records in a capture is stopped first, here. When this has returned 0,
 * none of its callbacks runs or will be called. JOBSCOPE_E_STATE: there is none of this name.
 * JOBSCOPE_E_BUSY: one of its callbacks has been running for a second, or is the caller: nothing
 * further will be called, but context and code must stay. To be called before the code is unloaded,
 * or the context freed, and before the end of main where destructors free it. */
JOBSCOPE_API int jobscope_provider_unregister(const char* name, char* error, size_t error_size);

/* For callbacks that enter another language: calls body(argument), on this thread, while no other
 * thread of the process forks. An interpreter may take locks of its own when a thread attaches to
 * it (PyThreadState_New), and a child that is forked meanwhile would find them locked for ever.
 * Forks wait 100 ms at most; this waits 1 s at most for those that are under way, and not at all in
 * a forked child. `body` must not fork, and should take microseconds; NULL: nothing happens. */
JOBSCOPE_API void jobscope_while_nobody_forks(void (*body)(void* argument), void* argument);

#ifdef __cplusplus
}
#endif
#endif /* JOBSCOPE_PROVIDER_H_ */
