/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE 1 /* as Python's headers do, which come later */
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "jobscope/jobscope_c.h"
#include "recorder.h"

#define LIBRARY "libjobscope.so"
/* Room for one message: an address has at most 1,024 bytes; a text names an address or a path and
 * the remedy. */
#define ADDRESS_BYTES 1100
#define ERROR_BYTES 8192

static char folder[4096];

static struct {
  const char* (*version)(void);
  int (*server_start)(const jobscope_server_options*, char*, size_t, char*, size_t);
  int (*server_stop)(void);
  int (*server_running)(void);
  int (*capture_start)(const char*, const jobscope_capture_options*, char*, size_t);
  int (*capture_stop)(jobscope_capture_result*, char*, size_t);
  int (*capture_steps)(const char*, int64_t, int64_t, const jobscope_capture_options*, char*,
                       size_t);
} api;
static struct provider_api provider_api;
static int library_loaded;
static int loaded; /* whether the library, with its recorder, is loaded */

/* The library's functions, and the function pointers for them. */
static const struct {
  const char* name;
  void* to;
} functions[] = {
    {"jobscope_version", &api.version},
    {"jobscope_server_start", &api.server_start},
    {"jobscope_server_stop", &api.server_stop},
    {"jobscope_server_running", &api.server_running},
    {"jobscope_capture_start", &api.capture_start},
    {"jobscope_capture_stop", &api.capture_stop},
    {"jobscope_capture_steps", &api.capture_steps},
    {"jobscope_provider_register", &provider_api.provider_register},
    {"jobscope_provider_unregister", &provider_api.provider_unregister},
    {"jobscope_while_nobody_forks", &provider_api.while_nobody_forks},
};
#define FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

static int LoadLibrary(void) {
  if (library_loaded) return 0;
  /* A server that was attached or linked also serves Python: try its bare name first. */
  char path[sizeof(folder) + sizeof(LIBRARY) + 1];
  snprintf(path, sizeof(path), "%s/%s", folder, LIBRARY);
  void* library;
  void* symbols[FUNCTIONS] = {NULL};
  /* Takes milliseconds, and the loader's lock, whose holder may be waiting for the GIL. */
  Py_BEGIN_ALLOW_THREADS;
  library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (library == NULL) library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  for (size_t i = 0; library != NULL && i < FUNCTIONS; ++i) {
    symbols[i] = dlsym(library, functions[i].name);
  }
  Py_END_ALLOW_THREADS;
  if (library == NULL) {
    PyErr_Format(PyExc_ImportError,
                 "jobscope's library cannot be loaded (%s): reinstall the package", dlerror());
    return -1;
  }
  for (size_t i = 0; i < FUNCTIONS; ++i) {
    if (symbols[i] == NULL) {
      PyErr_Format(PyExc_ImportError,
                   "%s in this process has no %s, so it is not of the jobscope package's version: "
                   "use one version of both",
                   LIBRARY, functions[i].name);
      return -1;
    }
    memcpy(functions[i].to, &symbols[i], sizeof(symbols[i]));
  }
  library_loaded = 1;
  return 0;
}

static int Load(void) {
  if (loaded) return 0;
  if (LoadRecorder(folder) != 0 || LoadLibrary() != 0) return -1;
  loaded = 1;
  return 0;
}

PyObject* ErrorText(const char* text) {
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

const struct provider_api* ProviderApi(void) { return LoadLibrary() == 0 ? &provider_api : NULL; }

PyObject* Configure(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* path = NULL;
  int wanted = 0;
  if (!PyArg_ParseTuple(args, "O&p", &PyUnicode_FSConverter, &path, &wanted)) return NULL;
  const int length = snprintf(folder, sizeof(folder), "%s", PyBytes_AsString(path));
  Py_DECREF(path);
  if (length < 0 || (size_t)length >= sizeof(folder)) {
    PyErr_SetString(PyExc_ImportError,
                    "the path of the jobscope package is longer than 4,095 bytes");
    return NULL;
  }
  if ((FindRecorder() != 0 || wanted) && LoadRecorder(folder) != 0) return NULL;
  Py_RETURN_NONE;
}

PyObject* ServerStart(PyObject* module, PyObject* args) {
  (void)module;
  jobscope_server_options options;
  memset(&options, 0, sizeof(options));
  options.size = sizeof(options);
  unsigned long long store_bytes = 0, rings_cap_bytes = 0;
  unsigned ring_records = 0;
  int always_on = 1;
  unsigned long long max_duration_ms = 0, max_trace_bytes = 0;
  unsigned max_captures_per_minute = 0;
  /* z: a str without an embedded zero, or None; the args keep the texts alive. */
  if (!PyArg_ParseTuple(args, "zpKIKpzzzzzzzKKIp", &options.address, &options.insecure,
                        &store_bytes, &ring_records, &rings_cap_bytes, &always_on,
                        &options.tls_cert, &options.tls_key, &options.tls_ca, &options.token_file,
                        &options.tls_allowed_names, &options.allow_users, &options.max_levels,
                        &max_duration_ms, &max_trace_bytes, &max_captures_per_minute,
                        &options.allow_close)) {
    return NULL;
  }
  if (Load() != 0) return NULL;
  options.store_bytes = store_bytes;
  options.ring_records = ring_records;
  options.rings_cap_bytes = rings_cap_bytes;
  options.no_always_on = !always_on;
  options.max_duration_ms = max_duration_ms;
  options.max_trace_bytes = max_trace_bytes;
  options.max_captures_per_minute = max_captures_per_minute;
  char address[ADDRESS_BYTES] = "";
  char error[ERROR_BYTES] = "";
  int code;
  Py_BEGIN_ALLOW_THREADS code =
      api.server_start(&options, address, sizeof(address), error, sizeof(error));
  Py_END_ALLOW_THREADS return Py_BuildValue("(iNN)", code, PyUnicode_DecodeFSDefault(address),
                                            ErrorText(error));
}

PyObject* ServerStop(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  int code = JOBSCOPE_OK;
  if (loaded) {
    Py_BEGIN_ALLOW_THREADS code = api.server_stop();
    Py_END_ALLOW_THREADS
  }
  return PyLong_FromLong(code);
}

PyObject* ServerRunning(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  int running = 0;
  if (loaded) {
    /* It may wait for a start on another thread. */
    Py_BEGIN_ALLOW_THREADS running = api.server_running();
    Py_END_ALLOW_THREADS
  }
  return PyBool_FromLong(running);
}

/* The texts live as long as the args. */
static const char* const kCaptureFormat = "O&zKKK";
static const char* const kStepsFormat = "O&zKKKLL";

/* logdir is a new reference to bytes. */
static int TakeCaptureOptions(PyObject* args, PyObject** logdir, jobscope_capture_options* options,
                              long long* first, long long* last) {
  unsigned long long max_trace_bytes = 0, lookback_ms = 0, part_limit_bytes = 0;
  memset(options, 0, sizeof(*options));
  options->size = sizeof(*options);
  if (!PyArg_ParseTuple(args, first != NULL ? kStepsFormat : kCaptureFormat, &PyUnicode_FSConverter,
                        logdir, &options->by_name, &max_trace_bytes, &lookback_ms,
                        &part_limit_bytes, first, last)) {
    return -1;
  }
  options->max_trace_bytes = max_trace_bytes;
  options->lookback_ms = lookback_ms;
  options->part_limit_bytes = part_limit_bytes;
  if (Load() != 0) {
    Py_CLEAR(*logdir);
    return -1;
  }
  return 0;
}

PyObject* CaptureStart(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* logdir = NULL;
  jobscope_capture_options options;
  if (TakeCaptureOptions(args, &logdir, &options, NULL, NULL) != 0) return NULL;
  const char* const path = PyBytes_AsString(logdir);
  char error[ERROR_BYTES] = "";
  int code;
  Py_BEGIN_ALLOW_THREADS code = api.capture_start(path, &options, error, sizeof(error));
  Py_END_ALLOW_THREADS Py_DECREF(logdir);
  return Py_BuildValue("(iN)", code, ErrorText(error));
}

PyObject* CaptureSteps(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* logdir = NULL;
  jobscope_capture_options options;
  long long first = 0, last = 0;
  if (TakeCaptureOptions(args, &logdir, &options, &first, &last) != 0) return NULL;
  const char* const path = PyBytes_AsString(logdir);
  char error[ERROR_BYTES] = "";
  int code;
  Py_BEGIN_ALLOW_THREADS code =
      api.capture_steps(path, first, last, &options, error, sizeof(error));
  Py_END_ALLOW_THREADS Py_DECREF(logdir);
  return Py_BuildValue("(iN)", code, ErrorText(error));
}

PyObject* CaptureStop(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  if (!loaded) {
    return Py_BuildValue("(isOKK)", JOBSCOPE_E_STATE,
                         "no capture runs: begin one with jobscope.start", Py_None, 0ULL, 0ULL);
  }
  jobscope_capture_result result;
  memset(&result, 0, sizeof(result));
  result.size = sizeof(result);
  char error[ERROR_BYTES] = "";
  int code;
  Py_BEGIN_ALLOW_THREADS code = api.capture_stop(&result, error, sizeof(error));
  Py_END_ALLOW_THREADS PyObject* const directory = PyUnicode_DecodeFSDefault(result.run_directory);
  if (directory == NULL) return NULL;
  PyObject* const lost = result.lost == UINT64_MAX
                             ? Py_NewRef(Py_None)
                             : PyLong_FromUnsignedLongLong((unsigned long long)result.lost);
  return Py_BuildValue("(iNNKN)", code, ErrorText(error), directory,
                       (unsigned long long)result.events, lost);
}

PyObject* LibraryPath(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  if (Load() != 0) return NULL;
  Dl_info info;
  void* address;
  memcpy(&address, &api.version, sizeof(address));
  int found;
  Py_BEGIN_ALLOW_THREADS;
  found = dladdr(address, &info) != 0;
  Py_END_ALLOW_THREADS;
  if (!found || info.dli_fname == NULL) Py_RETURN_NONE;
  return PyUnicode_DecodeFSDefault(info.dli_fname);
}

PyObject* LibraryVersion(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  if (Load() != 0) return NULL;
  return PyUnicode_FromString(api.version());
}
