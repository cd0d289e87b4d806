/* SPDX-License-Identifier: Apache-2.0
 *
 * The process's one recorder, libjobscope_trace.so, as this extension sees it.
 *
 * It is loaded when the process wants to be captured (a server, a capture, JOBSCOPE_LISTEN), not
 * when `jobscope` is imported: a recorder that was loaded before a fork is dead in the child, and a
 * launcher that forks its ranks imports their modules first. Until then the mask is a zero.
 *
 * All of it runs under the GIL.
 */
#ifndef JOBSCOPE_PYTHON_RECORDER_H_
#define JOBSCOPE_PYTHON_RECORDER_H_

#include "jobscope/detail/writer_abi.h"
#include "python.h"

/* Never null. Points at the recorder's mask, or at a zero. */
extern const uint32_t* jobscope_py_mask;
/* NULL while there is no recorder; not NULL where the mask has had a bit on. */
extern const struct jobscope_trace_writer_table* jobscope_py_writer;

static inline int MaskHas(uint32_t bit) {
  return (__atomic_load_n(jobscope_py_mask, __ATOMIC_RELAXED) & bit) != 0;
}

/* Takes the recorder that is in the process already, whoever loaded it. Some microseconds; does
 * nothing once there is one. */
void FindRecorder(void);

/* FindRecorder, else loads the one in `folder`. Returns 0, or -1 with an exception. */
int LoadRecorder(const char* folder);

/* Called by what is called once per step while there is no recorder: looks now and then whether one
 * has come, with a C++ library or with an attached server. */
void LookForRecorder(void);

/* Gives the calling thread the name that Python's `threading` has for it, once per thread. Called
 * when it begins a scope that is recorded. */
void NameThread(void);

/* module functions */
PyObject* SetThreadName(PyObject* module, PyObject* name);
PyObject* MaskFunction(PyObject* module, PyObject* unused);
/* False without a recorder, and where it is that of the process this one was forked from. */
PyObject* RecorderLives(PyObject* module, PyObject* unused);

#endif
