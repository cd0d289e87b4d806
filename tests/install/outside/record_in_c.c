/* SPDX-License-Identifier: Apache-2.0 */
#include <jobscope/detail/writer_abi.h>
#include <jobscope/jobscope_c.h>

void RecordInC(void);

void RecordInC(void) { jobscope_trace_writer()->set_thread_name("from C"); }
