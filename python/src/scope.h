/* SPDX-License-Identifier: Apache-2.0
 *
 * Implements what `with jobscope.trace(...)` and similar functions return: one shared object that
 * does nothing while recording is off, else an object with the scope's site, arguments and token.
 *
 * All functions require the GIL and never release it.
 */
#ifndef JOBSCOPE_PYTHON_SCOPE_H_
#define JOBSCOPE_PYTHON_SCOPE_H_

#include "python.h"

/* Functions of the module that make scopes; METH_FASTCALL | METH_KEYWORDS each. */
PyObject* Trace(PyObject* module, PyObject* const* args, Py_ssize_t count, PyObject* kwnames);
PyObject* TraceAt(PyObject* module, PyObject* const* args, Py_ssize_t count, PyObject* kwnames);
PyObject* TraceCoarse(PyObject* module, PyObject* const* args, Py_ssize_t count, PyObject* kwnames);
PyObject* InputWait(PyObject* module, PyObject* const* args, Py_ssize_t count, PyObject* kwnames);
PyObject* Step(PyObject* module, PyObject* const* args, Py_ssize_t count, PyObject* kwnames);

/* Returns a new reference to the shared object that does nothing. */
PyObject* IdleScope(void);

/* Adds the types to the module. Returns 0, or -1 with an exception. */
int InitScopes(PyObject* module);

#endif
