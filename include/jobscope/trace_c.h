/* SPDX-License-Identifier: Apache-2.0
 *
 * Records events from C, and from any language that can call C, with the functions of
 * libjobscope_trace.so. Link the library (-ljobscope_trace), or dlopen JOBSCOPE_TRACE_SONAME with
 * RTLD_NOLOAD and look the functions up with dlsym.
 *
 *   static uint32_t site;  // once per place, or once per name
 *   if (site == 0) {
 *     site = jobscope_trace_site("decode", "", __FILE__, __LINE__, JOBSCOPE_BIT_LEVEL1,
 *                                JOBSCOPE_ROLE_SCOPE, NULL, 0);
 *   }
 *   struct jobscope_token token = {0, 0};
 *   if (jobscope_trace_enabled(JOBSCOPE_BIT_LEVEL1)) token = jobscope_trace_begin(site);
 *   ...
 *   jobscope_trace_end(site, token, NULL, 0);  // does nothing for a token of zeros
 *
 * The guarantees of the writer table apply (detail/writer_abi.h): nothing blocks, throws or aborts;
 * safe before main, after main and in a forked child. The recording functions do not check the
 * mask: call jobscope_trace_enabled first.
 */
#ifndef JOBSCOPE_TRACE_C_H_
#define JOBSCOPE_TRACE_C_H_

#include <stddef.h>
#include <stdint.h>

#include "jobscope/detail/writer_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns those of `bits` that are on. If it returns 0, record nothing. In hot code, load
 * jobscope_trace_writer()->mask instead. */
JOBSCOPE_TRACE_API uint32_t jobscope_trace_enabled(uint32_t bits);

/* Returns the id of a site, looked up by (name, file, line) and registered if it is new; never 0.
 * `bit` is one jobscope_mask_bit, `role` a jobscope_site_role; category, file and keys may be NULL.
 * At most 4,096 such sites per process, names of up to 127 bytes, up to JOBSCOPE_MAX_KEYS keys of
 * up to 31 bytes; beyond these limits, returns the id of "(dictionary full)". Hashes the strings at
 * each call: keep the id if possible. */
JOBSCOPE_TRACE_API uint32_t jobscope_trace_site(const char* name, const char* category,
                                                const char* file, uint32_t line, uint32_t bit,
                                                uint32_t role, const char* const* keys,
                                                uint32_t key_count);

/* Returns the id of a text of `length` bytes, for arguments of type JOBSCOPE_ARG_NAME. At most
 * 4,096 per process, 127 bytes each. Returns 0 if the table is full. */
JOBSCOPE_TRACE_API uint32_t jobscope_trace_intern(const char* text, size_t length);

/* Begins and ends a scope on the calling thread. `args` (may be NULL) are read during the call; at
 * most JOBSCOPE_MAX_KEYS. */
JOBSCOPE_TRACE_API struct jobscope_token jobscope_trace_begin(uint32_t site);
JOBSCOPE_TRACE_API void jobscope_trace_end(uint32_t site, struct jobscope_token token,
                                           const struct jobscope_arg* args, uint32_t arg_count);

/* Begin and end a training step, for a site with JOBSCOPE_ROLE_STEP and JOBSCOPE_BIT_STEP. */
JOBSCOPE_TRACE_API struct jobscope_token jobscope_trace_step_begin(uint32_t site, int64_t number);
JOBSCOPE_TRACE_API void jobscope_trace_step_end(uint32_t site, struct jobscope_token token,
                                                int64_t number);

/* Records a point in time: JOBSCOPE_KIND_INSTANT, _COUNTER (args[0] is the sample), _ASYNC_BEGIN,
 * _ASYNC_END, _FLOW_OUT or _FLOW_IN (args[0] is an id from jobscope_trace_next_id,
 * JOBSCOPE_ARG_UINT64). */
JOBSCOPE_TRACE_API void jobscope_trace_event(uint32_t site, uint32_t kind,
                                             const struct jobscope_arg* args, uint32_t arg_count);
JOBSCOPE_TRACE_API uint64_t jobscope_trace_next_id(void);

/* Names the calling thread in traces; keeps at most 63 bytes. Leaves the OS name unchanged. */
JOBSCOPE_TRACE_API void jobscope_trace_set_thread_name(const char* name);

#ifdef __cplusplus
}
#endif
#endif /* JOBSCOPE_TRACE_C_H_ */
