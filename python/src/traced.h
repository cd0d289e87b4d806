/* SPDX-License-Identifier: Apache-2.0
 *
 * Implements the object that @jobscope.traced makes of a function.
 */
#ifndef JOBSCOPE_PYTHON_TRACED_H_
#define JOBSCOPE_PYTHON_TRACED_H_

#include "python.h"

/* Adds the type Traced(function, site) to the module. Calling it calls the function and records a
 * scope of the site around it. Binds to objects and pickles by name, like a function. Returns 0, or
 * -1 with an exception. */
int InitTraced(PyObject* module);

#endif
