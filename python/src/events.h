/* SPDX-License-Identifier: Apache-2.0
 *
 * Points in time, and sites whose place is given instead of looked up: of decorated functions.
 */
#ifndef JOBSCOPE_PYTHON_EVENTS_H_
#define JOBSCOPE_PYTHON_EVENTS_H_

#include "python.h"

PyObject* Instant(PyObject* module, PyObject* const* args, Py_ssize_t count, PyObject* kwnames);
PyObject* Counter(PyObject* module, PyObject* const* args, Py_ssize_t count);

/* The type Site(name, file, line, kind), and what takes one: async_begin(site) begins an operation
 * that may end on another thread and returns its id, 0 if recording is off; async_end(site, id)
 * ends it. */
PyObject* AsyncBegin(PyObject* module, PyObject* object);
PyObject* AsyncEnd(PyObject* module, PyObject* const* args, Py_ssize_t count);

/* Of a Site. The kind (sites.h), or -1 with an exception: it is none. The id needs the recorder. */
int SiteKind(PyObject* object);
uint32_t SiteId(PyObject* object);

int InitEvents(PyObject* module);

#endif
