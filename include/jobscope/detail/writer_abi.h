/* SPDX-License-Identifier: Apache-2.0
 *
 * Defines the interface between recording code and the recorder, libjobscope_trace.so: a C function
 * table, versioned by size. C++ code uses <jobscope/trace.h>, C code and other languages
 * <jobscope/trace_c.h>; both are built on this.
 *
 * Every function is thread-safe and may be called before main, after main, and in a forked child
 * (where it does nothing). None blocks or takes a lock. The first record of a thread maps memory;
 * later ones do not allocate.
 */
#ifndef JOBSCOPE_DETAIL_WRITER_ABI_H_
#define JOBSCOPE_DETAIL_WRITER_ABI_H_

#include <stddef.h>
#include <stdint.h>

#define JOBSCOPE_TRACE_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* The name to dlopen, with RTLD_NOLOAD first: two copies in one process would be two recorders. */
#define JOBSCOPE_TRACE_SONAME "libjobscope_trace.so.0"

/* Bits of the enable mask (and of a site's `bit`). */
enum jobscope_mask_bit {
  JOBSCOPE_BIT_STEP = 1u << 0,
  JOBSCOPE_BIT_INPUT_WAIT = 1u << 1,
  JOBSCOPE_BIT_COARSE = 1u << 2,
  JOBSCOPE_BIT_LEVEL1 = 1u << 3,
  JOBSCOPE_BIT_LEVEL2 = 1u << 4,
  JOBSCOPE_BIT_LEVEL3 = 1u << 5,
  /* Belongs to no site: the thread that ends a step reads the OS resources that it used. */
  JOBSCOPE_BIT_STEP_USAGE = 1u << 6,
};

enum jobscope_record_kind {
  JOBSCOPE_KIND_SCOPE = 0,       /* begin, end */
  JOBSCOPE_KIND_INSTANT = 1,     /* begin == end */
  JOBSCOPE_KIND_COUNTER = 2,     /* begin == end; arg is the sample */
  JOBSCOPE_KIND_ASYNC_BEGIN = 3, /* begin == end; arg is the async id (uint64) */
  JOBSCOPE_KIND_ASYNC_END = 4,   /* likewise */
  JOBSCOPE_KIND_FLOW_OUT = 5, /* begin == end; arg is the flow id; belongs to the enclosing scope */
  JOBSCOPE_KIND_FLOW_IN = 6,  /* likewise */
  JOBSCOPE_KIND_STEP_BEGIN = 7, /* begin == end; arg is the step number (int64) */
  /* The completed step: begin, end; arg is the step number (int64). If JOBSCOPE_BIT_STEP_USAGE was
   * on, arguments 1 to 3 follow (jobscope_step_argument); unknown ones have type NONE. */
  JOBSCOPE_KIND_STEP = 8,
  JOBSCOPE_KIND_CONTINUATION = 15,
};

/* Arguments of a completed step (int64). They describe the thread that ended it, since the end of
 * its previous step, or, if that is unknown, since the begin of this one. */
enum jobscope_step_argument {
  JOBSCOPE_STEP_CPU_NS = 1,               /* time on a processor */
  JOBSCOPE_STEP_RUN_DELAY_NS = 2,         /* time ready to run, waiting for a processor */
  JOBSCOPE_STEP_INVOLUNTARY_SWITCHES = 3, /* times preempted */
};

/* Type of an argument. */
enum jobscope_arg_type {
  JOBSCOPE_ARG_NONE = 0,
  JOBSCOPE_ARG_INT64 = 1,
  JOBSCOPE_ARG_UINT64 = 2,
  JOBSCOPE_ARG_DOUBLE = 3,
  JOBSCOPE_ARG_NAME = 4,   /* id of an interned name */
  JOBSCOPE_ARG_STRING = 5, /* inline, up to JOBSCOPE_MAX_STRING bytes */
};

/* Purpose of a site. */
enum jobscope_site_role {
  JOBSCOPE_ROLE_SCOPE = 0,
  JOBSCOPE_ROLE_STEP = 1,
  JOBSCOPE_ROLE_INPUT_WAIT = 2,
  JOBSCOPE_ROLE_COUNTER = 3,
  JOBSCOPE_ROLE_ASYNC = 4,
  JOBSCOPE_ROLE_FLOW = 5,
  JOBSCOPE_ROLE_INSTANT = 6,
  JOBSCOPE_ROLE_INFERRED_STEP = 7, /* of steps that the program does not mark itself */
};

#define JOBSCOPE_MAX_KEYS 8
/* Bytes of one string argument that are kept; a longer one is truncated and marked. */
#define JOBSCOPE_MAX_STRING 120

/* A named place in the code, in static storage, constant-initialised. The recorder copies the
 * strings on first use and keys its dictionary by (name, file, line), so no record points back
 * here: the module may be unloaded. */
struct jobscope_site {
  uint32_t size; /* sizeof(struct jobscope_site) */
  uint32_t id;   /* 0 until the site has been registered; accessed atomically */
  const char* name;
  const char* category; /* may be NULL */
  const char* file;     /* may be NULL */
  uint32_t line;
  uint32_t bit;  /* one jobscope_mask_bit */
  uint32_t role; /* jobscope_site_role */
  uint32_t reserved;
};

/* One argument value. Key k of the site names argument k. */
struct jobscope_arg {
  uint32_t type;   /* jobscope_arg_type */
  uint32_t length; /* of a string, in bytes; only the first JOBSCOPE_MAX_STRING are read */
  union {
    int64_t int64_value;
    uint64_t uint64_value; /* also: id of an interned name */
    double double_value;
    const char* text; /* need not be terminated; read during the call only */
  } value;
};

/* Passed from `begin` to `end`. begin_ticks 0: the begin was refused, do not call `end`. */
struct jobscope_token {
  uint64_t begin_ticks;
  uint64_t place; /* private to the recorder */
};

struct jobscope_trace_writer_table {
  uint32_t size; /* of the table as the recorder knows it: newer members follow older ones */
  uint32_t reserved;
  /* The enable mask. Load it (atomically, relaxed), test the site's bit, and call nothing if it is
   * 0. Valid until the process ends. Reads 0 in a forked child. */
  const uint32_t* mask;

  /* Registers a site (idempotent, thread-safe), stores its id in site->id and returns it: never 0.
   * If the dictionary is full, the id is that of a site named "(dictionary full)". At most
   * JOBSCOPE_MAX_KEYS keys. */
  uint32_t (*register_site)(struct jobscope_site* site, const char* const* keys,
                            uint32_t key_count);
  /* Looks up or registers a site whose name is not static: by its text, at each call. Does not
   * write to `site`. At most 4,096 of them per process. */
  uint32_t (*find_site)(const struct jobscope_site* site, const char* const* keys,
                        uint32_t key_count);
  /* Interns a text for JOBSCOPE_ARG_NAME: at most 4,096 per process, 127 bytes each. Returns 0 if
   * the table is full. */
  uint32_t (*intern)(const char* text, size_t length);

  struct jobscope_token (*begin)(uint32_t site);
  void (*end)(uint32_t site, struct jobscope_token token);
  void (*end_args)(uint32_t site, struct jobscope_token token, const struct jobscope_arg* args,
                   uint32_t arg_count);
  /* A step: two records, one at its begin, one at its end. */
  struct jobscope_token (*step_begin)(uint32_t site, int64_t number);
  void (*step_end)(uint32_t site, struct jobscope_token token, int64_t number);
  /* A point in time: INSTANT, COUNTER, ASYNC_BEGIN, ASYNC_END, FLOW_OUT or FLOW_IN. */
  void (*event)(uint32_t site, uint32_t kind, const struct jobscope_arg* args, uint32_t arg_count);
  /* Returns a process-wide unique id for an async pair or a flow. Never 0, except in a forked
   * child. */
  uint64_t (*next_id)(void);
  /* Keeps at most 63 bytes. Also works if the thread has not recorded yet. */
  void (*set_thread_name)(const char* name);

  /* For a site with JOBSCOPE_ROLE_INFERRED_STEP: step `number` ends now, on the calling thread, and
   * the next one begins. `begin_ticks` is the result of the previous call; 0: the begin is unknown,
   * nothing is recorded, and step `number` begins only now. Returns the current ticks, or 0 if the
   * program marks its steps itself: then nothing is recorded. */
  uint64_t (*step_boundary)(uint32_t site, int64_t number, uint64_t begin_ticks);

  /* Ends a scope or step without a record, on any thread. `end` on another thread than that of the
   * begin does the same, and records the scope as one of the calling thread. */
  void (*discard)(struct jobscope_token token);

  /* Like `end_args`, but only for a scope that the calling thread began. One of another thread is
   * discarded; then returns 0, otherwise 1. */
  uint32_t (*end_own)(uint32_t site, struct jobscope_token token, const struct jobscope_arg* args,
                      uint32_t arg_count);
};

/* Exported by libjobscope_trace.so. Never fails; the table lives until the process ends. */
JOBSCOPE_TRACE_API const struct jobscope_trace_writer_table* jobscope_trace_writer(void);

#ifdef __cplusplus
}
#endif
#endif /* JOBSCOPE_DETAIL_WRITER_ABI_H_ */
