/* SPDX-License-Identifier: Apache-2.0
 *
 * The module jobscope._native: its functions, and the check of who may load it.
 */
#include <string.h>

#include "events.h"
#include "library.h"
#include "provider.h"
#include "provider_events.h"
#include "python.h"
#include "recorder.h"
#include "scope.h"
#include "sites.h"
#include "traced.h"

#define FAST_KEYWORDS (METH_FASTCALL | METH_KEYWORDS)

static PyMethodDef methods[] = {
    {"trace", AS_METHOD(&Trace), FAST_KEYWORDS,
     "trace(name, /, **arguments)\n--\n\nA scope: `with jobscope.trace(\"load\", bytes=n):`."},
    {"trace_at", AS_METHOD(&TraceAt), FAST_KEYWORDS,
     "trace_at(level, name, /, **arguments)\n--\n\nA scope of level 1, 2 or 3."},
    {"trace_coarse", AS_METHOD(&TraceCoarse), FAST_KEYWORDS,
     "trace_coarse(name, /, **arguments)\n--\n\nA scope that is always on while a server runs."},
    {"input_wait", AS_METHOD(&InputWait), FAST_KEYWORDS,
     "input_wait(name=\"input_wait\", /, **arguments)\n--\n\nA scope that waits for input data."},
    {"step", AS_METHOD(&Step), FAST_KEYWORDS,
     "step(number, /, name=\"train\")\n--\n\nA training step: `with jobscope.step(i):`."},
    {"instant", AS_METHOD(&Instant), FAST_KEYWORDS,
     "instant(name, /, **arguments)\n--\n\nRecords a point in time."},
    {"counter", AS_METHOD(&Counter), METH_FASTCALL,
     "counter(name, value, /)\n--\n\nRecords a sample of a number."},
    {"set_thread_name", &SetThreadName, METH_O,
     "set_thread_name(name, /)\n--\n\nNames the calling thread in traces."},
    {"async_begin", &AsyncBegin, METH_O, NULL},
    {"async_end", AS_METHOD(&AsyncEnd), METH_FASTCALL, NULL},
    {"mask", &MaskFunction, METH_NOARGS, NULL},
    {"recorder_lives", &RecorderLives, METH_NOARGS, NULL},
    {"cache_info", &CacheInfo, METH_NOARGS, NULL},
    {"configure", &Configure, METH_VARARGS, NULL},
    {"server_start", &ServerStart, METH_VARARGS, NULL},
    {"server_stop", &ServerStop, METH_NOARGS, NULL},
    {"server_running", &ServerRunning, METH_NOARGS, NULL},
    {"capture_start", &CaptureStart, METH_VARARGS, NULL},
    {"capture_steps", &CaptureSteps, METH_VARARGS, NULL},
    {"capture_stop", &CaptureStop, METH_NOARGS, NULL},
    {"version", &LibraryVersion, METH_NOARGS, NULL},
    {"library_path", &LibraryPath, METH_NOARGS, NULL},
    {"provider_register", &ProviderRegister, METH_VARARGS, NULL},
    {"provider_unregister", &ProviderUnregister, METH_VARARGS, NULL},
    {"provider_add", &ProviderAdd, METH_VARARGS, NULL},
    {"provider_add_xspace", &ProviderAddXSpace, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

/* State here is per process, like the recorder's, and guarded by the main interpreter's GIL. An
 * interpreter with its own GIL never gets here: Python refuses a module that does not declare
 * support for it. */
static int Exec(PyObject* module) {
  const int64_t interpreter = PyInterpreterState_GetID(PyInterpreterState_Get());
  if (interpreter != 0) {
    PyErr_Format(PyExc_ImportError,
                 "jobscope works in the main interpreter only, and this is sub-interpreter %lld: "
                 "import it there; its server also serves this process",
                 (long long)interpreter);
    return -1;
  }
  if (InitSites() != 0 || InitScopes(module) != 0 || InitEvents(module) != 0 ||
      InitTraced(module) != 0)
    return -1;
  return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, &Exec},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "jobscope._native",
    .m_doc = "The recorder and the library of jobscope, as C functions.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

/* In free-threaded builds objects have another layout than this was compiled for. 3.13t finds the
 * file anyway, and it may have been renamed for others. */
PyMODINIT_FUNC PyInit__native(void) {
  if (strstr(Py_GetVersion(), "free-threading") != NULL) {
    PyErr_SetString(PyExc_ImportError,
                    "jobscope: not for free-threaded Python: its extension uses the stable ABI, "
                    "which those builds do not have. Use the ordinary build of this version.");
    return NULL;
  }
  return PyModuleDef_Init(&definition);
}
