/* SPDX-License-Identifier: Apache-2.0
 *
 * What @jobscope.traced makes of a function.
 */
#ifndef JOBSCOPE_PYTHON_TRACED_H_
#define JOBSCOPE_PYTHON_TRACED_H_

#include "python.h"

/* Adds the type Traced(function, site) to the module: called, it calls the function, and records a
 * scope of the site around it. Bound to objects like a function, picklable by its name like one.
 * Returns 0, or -1 with an exception. */
int InitTraced(PyObject* module);

#endif
