/* SPDX-License-Identifier: Apache-2.0
 *
 * A recorder as an older version has it: its table ends before the members that Python needs.
 */
#include "jobscope/detail/writer_abi.h"

static const uint32_t mask;
static const struct jobscope_trace_writer_table table = {
    .size = offsetof(struct jobscope_trace_writer_table, set_thread_name),
    .mask = &mask,
};

const struct jobscope_trace_writer_table* jobscope_trace_writer(void) { return &table; }
