/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads libjobscope.so when a server or a capture is first requested, and wraps it: server_start,
 * server_stop, server_running, capture_start, capture_stop, capture_steps, version, library_path.
 *
 * The functions return (code, text, ...); Python code raises the exceptions. Anything that may take
 * longer than microseconds runs without the GIL.
 */
#ifndef JOBSCOPE_PYTHON_LIBRARY_H_
#define JOBSCOPE_PYTHON_LIBRARY_H_

#include "jobscope/provider.h"
#include "python.h"

/* (folder, wanted) -> None: sets where the libraries are; called once, at import. Uses a loaded
 * recorder; loads one if `wanted`. ImportError if that fails, or the loaded one is too old. */
PyObject* Configure(PyObject* module, PyObject* args);

PyObject* ServerStart(PyObject* module, PyObject* args);
PyObject* ServerStop(PyObject* module, PyObject* unused);
PyObject* ServerRunning(PyObject* module, PyObject* unused);
PyObject* CaptureStart(PyObject* module, PyObject* args);
PyObject* CaptureSteps(PyObject* module, PyObject* args);
PyObject* CaptureStop(PyObject* module, PyObject* unused);
PyObject* LibraryVersion(PyObject* module, PyObject* unused);
/* Returns the file that was loaded, by whomever; None if unknown. */
PyObject* LibraryPath(PyObject* module, PyObject* unused);

/* Returns the str of a message of the library, with U+FFFD for what is not UTF-8: a message may
 * name a path of any bytes, and may be cut. */
PyObject* ErrorText(const char* text);

struct provider_api {
  int (*provider_register)(const jobscope_provider* provider, char* error, size_t error_size);
  int (*provider_unregister)(const char* name, char* error, size_t error_size);
  void (*while_nobody_forks)(void (*body)(void* argument), void* argument);
};
/* Loads the library if necessary, but no recorder: after a process registers providers and forks,
 * its children can use everything. NULL with an exception. */
const struct provider_api* ProviderApi(void);

#endif
