/* SPDX-License-Identifier: Apache-2.0
 *
 * The C headers, in C99. */
#include "jobscope/trace_c.h"

uint64_t uses_trace_c(void);
uint64_t uses_trace_c(void) {
  static uint32_t site;
  struct jobscope_token token = {0, 0};
  struct jobscope_arg arg = {JOBSCOPE_ARG_DOUBLE, 0, {0}};
  if (site == 0) {
    const char* keys[] = {"value"};
    site = jobscope_trace_site("c", NULL, __FILE__, __LINE__, JOBSCOPE_BIT_LEVEL1,
                               JOBSCOPE_ROLE_SCOPE, keys, 1);
  }
  if (jobscope_trace_enabled(JOBSCOPE_BIT_LEVEL1)) token = jobscope_trace_begin(site);
  arg.value.double_value = 1.5;
  jobscope_trace_end(site, token, &arg, 1);
  return jobscope_trace_next_id();
}
