/* SPDX-License-Identifier: Apache-2.0
 *
 * What `with jobscope.trace(...)` and its kin return: one shared object that does nothing while
 * recording is off, else an object that holds the scope's site, arguments and token.
 *
 * All of it runs under the GIL and never gives it up.
 */
#ifndef JOBSCOPE_PYTHON_SCOPE_H_
#define JOBSCOPE_PYTHON_SCOPE_H_

#include "python.h"

/* The methods of the module that make scopes; METH_FASTCALL | METH_KEYWORDS each. */
PyObject* Trace(PyObject* module, PyObject* const* args, Py_ssize_t count, PyObject* kwnames);
PyObject* TraceAt(PyObject* module, PyObject* const* args, Py_ssize_t count, PyObject* kwnames);
PyObject* TraceCoarse(PyObject* module, PyObject* const* args, Py_ssize_t count, PyObject* kwnames);
PyObject* InputWait(PyObject* module, PyObject* const* args, Py_ssize_t count, PyObject* kwnames);
PyObject* Step(PyObject* module, PyObject* const* args, Py_ssize_t count, PyObject* kwnames);

/* A new reference to the shared object that does nothing. */
PyObject* IdleScope(void);

/* Adds the types to the module. Returns 0, or -1 with an exception. */
int InitScopes(PyObject* module);

#endif
