/* SPDX-License-Identifier: Apache-2.0
 *
 * What recording code sees of the recorder, libjobscope_trace.so: a C function table, versioned by
 * size. C++ code takes <jobscope/trace.h>, C code and other languages <jobscope/trace_c.h>; both
 * stand on this.
 *
 * Every function may be called from any thread, before main, after main, and in a forked child
 * (where it does nothing). None blocks, waits or takes a lock. The first record of a thread maps
 * memory (once); no later one allocates.
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
  /* Of no site: the thread that ends a step reads what the OS gave it meanwhile. */
  JOBSCOPE_BIT_STEP_USAGE = 1u << 6,
};

enum jobscope_record_kind {
  JOBSCOPE_KIND_SCOPE = 0,       /* begin, end */
  JOBSCOPE_KIND_INSTANT = 1,     /* begin == end */
  JOBSCOPE_KIND_COUNTER = 2,     /* begin == end; arg is the sample */
  JOBSCOPE_KIND_ASYNC_BEGIN = 3, /* begin == end; arg is the async id (uint64) */
  JOBSCOPE_KIND_ASYNC_END = 4,   /* likewise */
  JOBSCOPE_KIND_FLOW_OUT =
      5, /* begin == end; arg is the flow id; belongs to the scope open around it */
  JOBSCOPE_KIND_FLOW_IN = 6,    /* likewise */
  JOBSCOPE_KIND_STEP_BEGIN = 7, /* begin == end; arg is the step number (int64) */
  /* The completed step: begin, end; arg is the step number (int64). Where JOBSCOPE_BIT_STEP_USAGE
   * was on, arguments 1 to 3 follow, JOBSCOPE_STEP_CPU_NS and so on, of type NONE what is not
   * known. */
  JOBSCOPE_KIND_STEP = 8,
  JOBSCOPE_KIND_CONTINUATION = 15,
};

/* Arguments of a completed step (int64): of the thread that ended it, since the end of its step
 * before, or, if that is not known, since the begin of this one. */
enum jobscope_step_argument {
  JOBSCOPE_STEP_CPU_NS = 1,               /* on a processor */
  JOBSCOPE_STEP_RUN_DELAY_NS = 2,         /* ready to run, and waiting for a processor */
  JOBSCOPE_STEP_INVOLUNTARY_SWITCHES = 3, /* taken off a processor that it still wanted */
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

/* What a site is for. */
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
/* Bytes of one string argument that are kept; the rest is cut, and the event says so. */
#define JOBSCOPE_MAX_STRING 120

/* A named place in the code, static storage, constant-initialised. The recorder copies the strings
 * on first use and keys its dictionary by (name, file, line), so nothing recorded points back here:
 * the module may be unloaded. */
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

/* What `begin` hands to `end`. begin_ticks 0: the begin was refused, do not call `end`. */
struct jobscope_token {
  uint64_t begin_ticks;
  uint64_t place; /* private to the recorder */
};

struct jobscope_trace_writer_table {
  uint32_t
      size; /* sizeof the table as the recorder knows it: newer members are behind older ones */
  uint32_t reserved;
  /* The enable mask. Load it (atomically, relaxed), test the site's bit, and call nothing if it is
   * 0. Valid as long as the process. In a forked child it reads 0. */
  const uint32_t* mask;

  /* Registers a site (idempotent, from any number of threads), stores its id in site->id and
   * returns it: never 0. When the dictionary is full the id is that of a site named "(dictionary
   * full)". At most JOBSCOPE_MAX_KEYS keys. */
  uint32_t (*register_site)(struct jobscope_site* site, const char* const* keys,
                            uint32_t key_count);
  /* Looks up or registers a site whose name is not static: by its text, at each call. Does not
   * write to `site`. At most 4,096 of them per process. */
  uint32_t (*find_site)(const struct jobscope_site* site, const char* const* keys,
                        uint32_t key_count);
  /* Interns a text for JOBSCOPE_ARG_NAME: at most 4,096 per process, 127 bytes each. 0: the table
   * is full. */
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
  /* A process-wide unique id for an async pair or a flow. Never 0, except in a forked child. */
  uint64_t (*next_id)(void);
  /* At most 63 bytes are kept. Takes effect also when the thread has not recorded yet. */
  void (*set_thread_name)(const char* name);

  /* For a site with JOBSCOPE_ROLE_INFERRED_STEP: step `number` ends now, on the calling thread, and
   * the next one begins. `begin_ticks` is what the call before it returned; 0: the begin is not
   * known, nothing is recorded, and step `number` begins only now. Returns the ticks of now; 0
   * where the program marks its steps itself: then nothing is recorded. */
  uint64_t (*step_boundary)(uint32_t site, int64_t number, uint64_t begin_ticks);
};

/* Exported by libjobscope_trace.so. Never fails; the table lives as long as the process. */
JOBSCOPE_TRACE_API const struct jobscope_trace_writer_table* jobscope_trace_writer(void);

#ifdef __cplusplus
}
#endif
#endif /* JOBSCOPE_DETAIL_WRITER_ABI_H_ */
