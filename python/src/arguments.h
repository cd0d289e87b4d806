/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts Python values to arguments of an event. None of this raises, calls code of the
 * application or waits for a device: a tensor becomes the name of its type.
 */
#ifndef JOBSCOPE_PYTHON_ARGUMENTS_H_
#define JOBSCOPE_PYTHON_ARGUMENTS_H_

#include "jobscope/detail/writer_abi.h"
#include "python.h"

/* Arguments of one event. `held` keeps the texts alive that args point to. */
struct arguments {
  uint32_t count;
  uint32_t held_count;
  struct jobscope_arg args[JOBSCOPE_MAX_KEYS];
  PyObject* held[JOBSCOPE_MAX_KEYS];
};

/* Takes the first `count` of the values, at most JOBSCOPE_MAX_KEYS: int, float, bool, None, str and
 * NumPy scalars by value, everything else by the name of its type. */
void TakeArguments(struct arguments* arguments, PyObject* const* values, Py_ssize_t count);
/* Releases the texts. */
void DropArguments(struct arguments* arguments);

/* Takes a sample of a counter: any number. Returns 0, or -1 with an exception; may call
 * __float__. */
int TakeSample(PyObject* value, struct jobscope_arg* arg);

#endif
