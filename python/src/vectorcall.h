/* SPDX-License-Identifier: Apache-2.0
 *
 * Declares the calling convention of objects that are called with an array. In the stable ABI under
 * these names since 3.12; with the same values and meaning since 3.9.
 */
#ifndef JOBSCOPE_PYTHON_VECTORCALL_H_
#define JOBSCOPE_PYTHON_VECTORCALL_H_

#include "python.h"

#define HAVE_VECTORCALL (1UL << 11)
#define METHOD_DESCRIPTOR (1UL << 17)
#define ARGUMENTS_OFFSET ((size_t)1 << (8 * sizeof(size_t) - 1))
typedef PyObject* (*vectorcall_function)(PyObject* self, PyObject* const* args,
                                         size_t flags_and_count, PyObject* kwnames);

#endif
