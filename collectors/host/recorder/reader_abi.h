// SPDX-License-Identifier: Apache-2.0
//
// Defines the recorder's interface for the only reader of the process (the host collector): a C
// function table, versioned by size.
//
// The recorder is in libjobscope_trace.so and needs only libc. The reader is in the server's
// library and obtains this table through the exported function `jobscope_trace_reader()`. The
// layout of a ring is private to the recorder; the 32-byte record below is ABI. All functions may
// be called from any thread while application threads record (one reader at a time where noted);
// none blocks an application thread, and none is called by one.
#ifndef COLLECTORS_HOST_RECORDER_READER_ABI_H_
#define COLLECTORS_HOST_RECORDER_READER_ABI_H_

#include <stddef.h>
#include <stdint.h>

// The bits, kinds, argument types and roles shared by writers and the reader.
#include "jobscope/detail/writer_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

// Holders of bits in the enable mask. The mask is the OR over its holders.
enum jobscope_mask_holder {
  JOBSCOPE_HOLDER_ALWAYS_ON = 0,   // a server runs: steps, input waits, coarse scopes
  JOBSCOPE_HOLDER_CONTINUOUS = 1,  // continuous profiling
  JOBSCOPE_HOLDER_SESSION = 2,     // a capture
  JOBSCOPE_HOLDER_COUNT = 3,
};

// `flags` of a record: bits 0-3 the type of its argument; bits 4-11 the number of continuation
// records after it (main records); bit 12: a string was cut, or arguments were left out; bits 13-15
// reserved.
#define JOBSCOPE_FLAGS_ARG_TYPE(flags) ((flags)&0xfu)
#define JOBSCOPE_FLAGS_CONTINUATIONS(flags) (((flags) >> 4) & 0xffu)
#define JOBSCOPE_FLAG_CUT (1u << 12)

// Records of the largest event: the main one, and eight strings of five continuations each.
#define JOBSCOPE_MAX_EVENT_RECORDS 41

// One record. Key k of the site names argument k; argument 0 is in the main record unless it is a
// string.
//
// A continuation record directly follows its main record (or its predecessor). It has kind
// CONTINUATION; `depth` is the index of the argument it belongs to. For a number its value is
// `arg`. For a string the text is the concatenation, over the continuations of that argument, of 24
// bytes each: the bytes of `begin`, `end` and `arg` in memory order; `site` is then the total
// length in bytes of the kept text (at most 120); an empty string has one continuation, of length
// 0. Bits 0-3 of a continuation's `flags` are the type of its argument. If argument 0 is a string,
// its type is in the main record's flags, whose `arg` is 0, and its text in continuations with
// depth 0.
struct jobscope_record {
  uint64_t begin_ticks;
  uint64_t end_ticks;
  uint32_t site;
  uint8_t kind;
  uint8_t depth;  // nesting depth of the scope in its thread, 0 = outermost, saturating
  uint16_t flags;
  uint64_t arg;
};

// The site of all events whose own site found no space in the dictionary.
#define JOBSCOPE_SITE_WITHOUT_A_NAME 1u

// Describes a site of the dictionary. The strings live as long as the process.
struct jobscope_site_info {
  const char* name;
  const char* category;  // "" if none was given
  const char* file;
  uint32_t line;
  uint32_t bit;   // one jobscope_mask_bit
  uint32_t role;  // jobscope_site_role
  uint32_t key_count;
  const char* keys[JOBSCOPE_MAX_KEYS];
};

// Describes one thread that has recorded: an incarnation, not a ring (rings are reused). `serial`
// increases by one per thread and is never reused.
struct jobscope_thread_info {
  uint64_t serial;
  int32_t tid;    // OS thread id
  uint8_t ended;  // the thread has ended; its counters are final
  // 0: the process cap was exhausted; its attempts count only in `no_ring_events`.
  uint8_t has_ring;
  char name[64];  // from SetThreadName, else the OS name, read at the first record and refreshed
  uint64_t first_record;  // ring indices at which this incarnation began
  uint64_t first_event;
  uint64_t head_record;  // currently published, a consistent pair
  uint64_t head_event;
  // Events refused because a signal handler interrupted a record, this incarnation.
  uint64_t reentered;
};

// The reader's position in one thread's sequence.
struct jobscope_cursor {
  uint64_t record;
  uint64_t event;
};

struct jobscope_read_result {
  uint64_t records;  // copied to `out`: whole events only, main record first
  uint64_t events;   // among them
  // Overwritten before they were read: between the cursor and the first event copied.
  uint64_t lost_events;
  uint8_t more;  // more than `capacity` were available
};

struct jobscope_open_scope {
  uint32_t site;
  uint8_t depth;
  uint64_t begin_ticks;
  uint8_t has_step_number;  // a step: arg is its number
  int64_t step_number;
};

// Totals of the process since it started.
struct jobscope_totals {
  uint64_t attempted_events;  // with a ring, published
  uint64_t no_ring_events;    // attempted by threads without a ring
  uint64_t reentered_events;  // see jobscope_thread_info::reentered, all threads, ended ones too
  uint64_t dictionary_full;   // names refused because the table of dynamic names or sites was full
  uint64_t ring_count;        // rings mapped
  uint64_t ring_bytes;        // memory they take
};

// Describes an armed window of steps. The thread that begins step `first` (the first step whose
// number is >= first) sets `bits` in the session holder's mask and stores the ticks of that begin.
// The thread that ends step `last` (the first end of a step with number >= last) clears them and
// stores the ticks of that end. If step `first` began before the trigger was armed, `last` moves by
// as many steps as the window opens late: its length stays as requested.
enum jobscope_trigger_state {
  JOBSCOPE_TRIGGER_IDLE = 0,
  JOBSCOPE_TRIGGER_ARMED = 1,
  JOBSCOPE_TRIGGER_OPEN = 2,
  JOBSCOPE_TRIGGER_CLOSED = 3,
};
struct jobscope_trigger_info {
  uint32_t state;
  int64_t first_step;  // actual number, once OPEN
  int64_t last_step;   // actual number, once CLOSED
  uint64_t open_ticks;
  uint64_t close_ticks;
};

// Describes one step, for Monitor and Describe.
struct jobscope_step_info {
  int64_t number;
  uint64_t begin_ticks;
  uint64_t end_ticks;  // 0: still running
};

struct jobscope_trace_reader {
  uint32_t size;          // sizeof the table in the recorder
  uint32_t uses_tsc;      // 1: ticks are TSC; 0: ticks are CLOCK_MONOTONIC nanoseconds
  uint32_t ring_records;  // capacity of one ring
  // Number of threads without a ring that are listed at most; further ones are counted only. 0: not
  // known, the recorder is an older one.
  uint32_t max_listed_without_ring;

  // Sets the bits that `holder` wants. Calls for one holder must not overlap.
  void (*set_mask)(uint32_t holder, uint32_t bits);
  uint32_t (*mask)(void);
  // Returns after every thread that could have seen the old mask has passed a memory barrier
  // (membarrier).
  void (*quiesce)(void);

  // Sets the capacity of new rings (a power of two, 1,024 to 4,194,304 records) and the process cap
  // in bytes. Existing rings are unchanged. Returns 0, or EINVAL.
  int (*configure)(uint32_t ring_records, uint64_t cap_bytes);
  // Maps and prefaults rings until `count` are free (within the cap). Returns the number of free
  // rings.
  uint32_t (*prefault)(uint32_t count);

  // Lists threads with serial >= from, in increasing order: all live ones, and ended ones whose
  // ring has not been taken by another thread. Returns how many were written to `out`.
  size_t (*threads)(uint64_t from_serial, struct jobscope_thread_info* out, size_t capacity);
  // While `hold` is 1, rings of ended threads stay with them until `release` is called for their
  // serial; 0 releases all. One reader at a time.
  void (*hold_ended)(uint32_t hold);
  void (*release)(uint64_t serial);

  // Returns the oldest position of the thread that can still be read.
  struct jobscope_cursor (*oldest)(uint64_t serial);
  // Copies events from `cursor` on into `out` and moves the cursor after them. Returns 0, or ENOENT
  // (no such thread any more; the cursor stays). `capacity` is at least JOBSCOPE_MAX_EVENT_RECORDS.
  // If the thread laps every try to copy, nothing is copied, `more` is 1 and the cursor stays: call
  // again.
  int (*read)(uint64_t serial, struct jobscope_cursor* cursor, struct jobscope_record* out,
              size_t capacity, struct jobscope_read_result* result);
  // Copies the scopes that the thread is currently inside of, outermost first. Returns their
  // number; a consistent sample, or 0 if none was obtained in a bounded number of tries.
  size_t (*open_scopes)(uint64_t serial, struct jobscope_open_scope* out, size_t capacity);

  // Look up the dictionary. Return 0, or ENOENT.
  int (*site)(uint32_t id, struct jobscope_site_info* out);
  const char* (*name)(uint32_t id);  // interned dynamic name, or NULL

  void (*totals)(struct jobscope_totals* out);

  void (*arm_trigger)(int64_t first, int64_t last, uint32_t bits);
  void (*disarm_trigger)(void);
  void (*trigger)(struct jobscope_trigger_info* out);

  // Copies the newest steps of the process's step source, up to 256, oldest first; the running one
  // (end 0) is last.
  size_t (*recent_steps)(struct jobscope_step_info* out, size_t capacity);
  // Returns how many steps of the step source have begun since the process started.
  uint64_t (*step_count)(void);

  // Like arm_trigger, but step n is the n-th that begins in this process (step_count is n then),
  // whatever its number: for programs whose step numbers do not increase. The trigger closes with
  // the first end of a step whose ordinal is >= last. disarm_trigger and trigger serve both.
  void (*arm_trigger_by_ordinal)(uint64_t first, uint64_t last, uint32_t bits);
  // Returns the ordinals of the steps that opened and closed the window, for both ways of arming;
  // 0: not yet, or the step is not among the newest 256.
  void (*trigger_ordinals)(uint64_t* first, uint64_t* last);
  // Returns the ordinal of the newest step whose number was not above that of its predecessor; 0:
  // numbers have always increased.
  uint64_t (*last_step_fall)(void);
  // Returns the site of the newest step; 0: no step has begun. Its role shows whether the program
  // marks its steps or they are inferred.
  uint32_t (*step_source)(void);
};

// Returns the reader table. Exported by libjobscope_trace.so. Never fails; the table lives as long
// as the process.
JOBSCOPE_TRACE_API const struct jobscope_trace_reader* jobscope_trace_reader(void);

#ifdef __cplusplus
}
#endif
#endif  // COLLECTORS_HOST_RECORDER_READER_ABI_H_
