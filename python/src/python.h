/* SPDX-License-Identifier: Apache-2.0
 *
 * Includes Python's headers, restricted to the stable ABI of 3.10 and later: one binary for all
 * versions.
 */
#ifndef JOBSCOPE_PYTHON_PYTHON_H_
#define JOBSCOPE_PYTHON_PYTHON_H_

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030A0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* The flags of PyMethodDef give the function's actual type; the type of its member does not. */
#define AS_METHOD(function) ((PyCFunction)(void (*)(void))(function))

#endif
