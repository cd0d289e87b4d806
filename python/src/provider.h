/* SPDX-License-Identifier: Apache-2.0
 *
 * Registers collectors written in Python (jobscope/provider.h), for jobscope._providers.
 */
#ifndef JOBSCOPE_PYTHON_PROVIDER_H_
#define JOBSCOPE_PYTHON_PROVIDER_H_

#include "python.h"

/* (name, is_realtime, callback) -> (code, text). On a thread of its own, a capture calls
 * callback(verb, sink, (host, device, python), (begin_monotonic_ns, begin_realtime_ns,
 * end_monotonic_ns, end_realtime_ns)), which returns None, or a str that describes the failure. */
PyObject* ProviderRegister(PyObject* module, PyObject* args);
/* (name) -> (code, text) */
PyObject* ProviderUnregister(PyObject* module, PyObject* args);

#endif
