/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds what a provider written in Python recorded to the capture, for jobscope._providers.
 */
#ifndef JOBSCOPE_PYTHON_PROVIDER_EVENTS_H_
#define JOBSCOPE_PYTHON_PROVIDER_EVENTS_H_

#include "python.h"

/* Space for an error message of libjobscope. */
#define ERROR_BYTES 2048
/* Name of the capsules that hold a jobscope_provider_sink. */
#define SINK_NAME "jobscope.sink"

/* (sink, iterable of tuples, class of samples) -> code. Releases the GIL while the sink copies. */
PyObject* ProviderAdd(PyObject* module, PyObject* args);
/* (sink, bytes-like) -> (code, text) */
PyObject* ProviderAddXSpace(PyObject* module, PyObject* args);

#endif
