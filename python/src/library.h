/* SPDX-License-Identifier: Apache-2.0
 *
 * libjobscope.so, loaded when a server or a capture is first asked for: server_start,
 * server_stop, server_running, capture_start, capture_stop, capture_steps, version, library_path.
 *
 * The functions answer (code, text, ...) and leave the making of exceptions to Python. What may
 * take longer than microseconds runs without the GIL.
 */
#ifndef JOBSCOPE_PYTHON_LIBRARY_H_
#define JOBSCOPE_PYTHON_LIBRARY_H_

#include "jobscope/provider.h"
#include "python.h"

/* (folder) -> None: where the libraries are; once, at import. Takes a recorder that is loaded
 * already; loads one if `wanted`. */
PyObject* Configure(PyObject* module, PyObject* args);

PyObject* ServerStart(PyObject* module, PyObject* args);
PyObject* ServerStop(PyObject* module, PyObject* unused);
PyObject* ServerRunning(PyObject* module, PyObject* unused);
PyObject* CaptureStart(PyObject* module, PyObject* args);
PyObject* CaptureSteps(PyObject* module, PyObject* args);
PyObject* CaptureStop(PyObject* module, PyObject* unused);
PyObject* LibraryVersion(PyObject* module, PyObject* unused);
/* The file that was loaded, whoever did; None if it can't be told. */
PyObject* LibraryPath(PyObject* module, PyObject* unused);

struct provider_api {
  int (*provider_register)(const jobscope_provider* provider, char* error, size_t error_size);
  int (*provider_unregister)(const char* name, char* error, size_t error_size);
  void (*while_nobody_forks)(void (*body)(void* argument), void* argument);
};
/* Loads the library, if nobody has, but no recorder: a process that registers providers, and forks,
 * has children that may do all. NULL with an exception. */
const struct provider_api* ProviderApi(void);

#endif
