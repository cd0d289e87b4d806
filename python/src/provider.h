/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectors that Python registers (jobscope/provider.h), as functions for jobscope._providers.
 */
#ifndef JOBSCOPE_PYTHON_PROVIDER_H_
#define JOBSCOPE_PYTHON_PROVIDER_H_

#include "python.h"

/* (name, is_realtime, callback) -> (code, text). A capture calls, on a thread of its own,
 * callback(verb, sink, (host, device, python), (begin_monotonic_ns, begin_realtime_ns,
 * end_monotonic_ns, end_realtime_ns)); it returns None, or a str that says what went wrong. */
PyObject* ProviderRegister(PyObject* module, PyObject* args);
/* (name) -> (code, text) */
PyObject* ProviderUnregister(PyObject* module, PyObject* args);
/* (sink, iterable of tuples, class of samples) -> code. Without the lock while the sink copies. */
PyObject* ProviderAdd(PyObject* module, PyObject* args);
/* (sink, bytes-like) -> (code, text) */
PyObject* ProviderAddXSpace(PyObject* module, PyObject* args);

#endif
