/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds and loads the process's only recorder, libjobscope_trace.so.
 *
 * It is loaded when the process wants to be captured (a server, a capture, JOBSCOPE_LISTEN), not
 * when `jobscope` is imported: a recorder loaded before a fork is disabled in the child, and a
 * launcher that forks its ranks imports their modules first. Until then the mask is zero.
 *
 * All functions require the GIL.
 */
#ifndef JOBSCOPE_PYTHON_RECORDER_H_
#define JOBSCOPE_PYTHON_RECORDER_H_

#include "jobscope/detail/writer_abi.h"
#include "python.h"

/* Never null. Points at the recorder's mask, or at a zero. */
extern const uint32_t* jobscope_py_mask;
/* NULL while there is no recorder; never NULL once the mask has had a bit set. */
extern const struct jobscope_trace_writer_table* jobscope_py_writer;

static inline int MaskHas(uint32_t bit) {
  return (__atomic_load_n(jobscope_py_mask, __ATOMIC_RELAXED) & bit) != 0;
}

/* Uses a recorder that the process has loaded already, by whomever. Takes some microseconds, or as
 * long as another thread loads a library, without the GIL; does nothing once there is one. Returns
 * 0, or -1 without an exception if the process has one that is too old. */
int FindRecorder(void);

/* Does the same, else loads the one in `folder`. Returns 0, or -1 with an exception. */
int LoadRecorder(const char* folder);

/* Called about once per step while there is no recorder: checks now and then whether one was
 * loaded, with a C++ library or an attached server. */
void LookForRecorder(void);

/* Gives the calling thread its name from Python's `threading`, once per thread. Called when it
 * begins a recorded scope. */
void NameThread(void);

/* Functions of the module. */
PyObject* SetThreadName(PyObject* module, PyObject* name);
PyObject* MaskFunction(PyObject* module, PyObject* unused);
/* Returns False without a recorder, and if it belongs to the process from which this one was
 * forked. */
PyObject* RecorderLives(PyObject* module, PyObject* unused);

#endif
