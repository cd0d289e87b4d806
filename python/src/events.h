/* SPDX-License-Identifier: Apache-2.0
 *
 * Records points in time, and defines sites whose place is given instead of looked up, for
 * decorated functions.
 */
#ifndef JOBSCOPE_PYTHON_EVENTS_H_
#define JOBSCOPE_PYTHON_EVENTS_H_

#include "python.h"

PyObject* Instant(PyObject* module, PyObject* const* args, Py_ssize_t count, PyObject* kwnames);
PyObject* Counter(PyObject* module, PyObject* const* args, Py_ssize_t count);

/* The type Site(name, file, line, kind), and functions that take one: async_begin(site) begins an
 * operation that may end on another thread and returns its id, 0 if recording is off;
 * async_end(site, id) ends it. */
PyObject* AsyncBegin(PyObject* module, PyObject* object);
PyObject* AsyncEnd(PyObject* module, PyObject* const* args, Py_ssize_t count);

/* Return the kind of a Site (sites.h), or -1 with an exception if it is none; and its id, which
 * requires the recorder. */
int SiteKind(PyObject* object);
uint32_t SiteId(PyObject* object);

int InitEvents(PyObject* module);

#endif
