/* SPDX-License-Identifier: Apache-2.0 */
#include "provider.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "jobscope/provider.h"
#include "library.h"
#include "provider_events.h"

/* One registration. Freed only when the library has confirmed that none of its callbacks runs. The
 * list and the states change only under the lock; the library is called without it, so that several
 * threads may use it at a time. While a name is CHANGING, nobody else removes it. */
struct registered {
  PyObject* callback;
  PyInterpreterState* interpreter; /* of the callback */
  char name[64];
  enum { CHANGING, REGISTERED } state;
  struct registered* next;
};
static struct registered* all;

static void Unlink(const struct registered* one) {
  struct registered** at = &all;
  while (*at != one) at = &(*at)->next;
  *at = one->next;
}

static void Free(struct registered* one) {
  Unlink(one);
  Py_DECREF(one->callback);
  PyMem_Free(one);
}

/* Set before the first callback is registered. */
static int (*is_finalizing)(void);
static void (*delete_current_thread)(void); /* also releases the GIL; not in the stable ABI */
static int forks_hold_the_lock;             /* of PyThreadState_New, as os.fork does from 3.13 on */
static const struct provider_api* library;

static void FindFunctions(void) {
  void* finalizing;
  void* delete_current;
  int is_new;
  /* The loader's lock may be held by a thread that waits for the GIL. */
  Py_BEGIN_ALLOW_THREADS;
  /* The name in 3.13 and later, and the one before. */
  finalizing = dlsym(RTLD_DEFAULT, "Py_IsFinalizing");
  is_new = finalizing != NULL;
  if (finalizing == NULL) finalizing = dlsym(RTLD_DEFAULT, "_Py_IsFinalizing");
  delete_current = dlsym(RTLD_DEFAULT, "PyThreadState_DeleteCurrent");
  Py_END_ALLOW_THREADS;
  forks_hold_the_lock = is_new;
  memcpy(&is_finalizing, &finalizing, sizeof(finalizing));
  memcpy(&delete_current_thread, &delete_current, sizeof(delete_current));
}

/* Returns true once the interpreter shuts down: a thread that then acquires the GIL is ended, or
 * hangs. */
static int PythonEnds(void) {
  return !Py_IsInitialized() || (is_finalizing != NULL && is_finalizing());
}

static PyObject* CallVerb(PyObject* callback, const char* verb,
                          const jobscope_provider_session* session) {
  PyObject* const sink = PyCapsule_New(session->sink, SINK_NAME, NULL);
  if (sink == NULL) return NULL;
  PyObject* const result = PyObject_CallFunction(
      callback, "sN(iii)(LLLL)", verb, sink, session->host_tracer_level,
      session->device_tracer_level, session->python_tracer_level,
      (long long)session->begin_monotonic_ns, (long long)session->begin_realtime_ns,
      (long long)session->end_monotonic_ns, (long long)session->end_realtime_ns);
  return result;
}

/* A hold of the GIL, by a thread that Python need not know. */
struct gil {
  PyInterpreterState* interpreter;
  PyThreadState* own; /* NULL: Python knew the thread */
  PyGILState_STATE before;
};

static void MakeThread(void* argument) {
  struct gil* const gil = argument;
  gil->own = PyThreadState_New(gil->interpreter);
}

/* Acquires the GIL. -1: there is no memory. Before 3.13 a thread is registered with Python while
 * nobody forks: Python holds a lock other than the GIL meanwhile, which a child would inherit.
 * Later versions fork with that lock held; a fork that also waited here would wait for the thread
 * that waits for it. */
static int TakeGil(struct gil* gil, PyInterpreterState* interpreter) {
  gil->interpreter = interpreter;
  gil->own = NULL;
  if (PyGILState_GetThisThreadState() != NULL || delete_current_thread == NULL) {
    gil->before = PyGILState_Ensure();
    return 0;
  }
  if (forks_hold_the_lock) {
    MakeThread(gil);
  } else {
    library->while_nobody_forks(&MakeThread, gil);
  }
  if (gil->own == NULL) return -1;
  PyEval_RestoreThread(gil->own);
  return 0;
}

static void GiveGil(struct gil* gil) {
  if (gil->own == NULL) {
    PyGILState_Release(gil->before);
    return;
  }
  PyThreadState_Clear(gil->own);
  delete_current_thread();
}

/* Why a callback did not return None: the text that it returned, or what is known of the exception
 * that it raised instead, because converting the provider's own exception to a text failed. Clears
 * the exception. Valid as long as `result`. */
static const char* ReasonOf(PyObject* result) {
  const char* text =
      result != NULL && PyUnicode_Check(result) ? PyUnicode_AsUTF8AndSize(result, NULL) : NULL;
  if (text == NULL && PyErr_Occurred() != NULL && PyErr_ExceptionMatches(PyExc_MemoryError)) {
    text = "Python has no memory left";
  }
  PyErr_Clear();
  return text != NULL ? text : "an exception that has no text";
}

static int Called(void* context, const char* verb, const jobscope_provider_session* session,
                  char* reason, size_t reason_size) {
  const struct registered* const one = context;
  if (PythonEnds()) {
    snprintf(reason, reason_size, "Python is shutting down");
    return 1;
  }
  struct gil gil;
  if (TakeGil(&gil, one->interpreter) != 0) {
    snprintf(reason, reason_size, "Python has no memory for a thread");
    return 1;
  }
  int failed = 1;
  PyObject* const result = CallVerb(one->callback, verb, session);
  if (result == Py_None) {
    failed = 0;
  } else {
    snprintf(reason, reason_size, "%s", ReasonOf(result));
  }
  Py_XDECREF(result);
  GiveGil(&gil);
  return failed;
}

static int Arm(void* context, const jobscope_provider_session* session, char* reason, size_t size) {
  return Called(context, "arm", session, reason, size);
}
static int Start(void* context, const jobscope_provider_session* session, char* reason,
                 size_t size) {
  return Called(context, "start", session, reason, size);
}
static int Stop(void* context, const jobscope_provider_session* session, char* reason,
                size_t size) {
  return Called(context, "stop", session, reason, size);
}

PyObject* ProviderRegister(PyObject* module, PyObject* args) {
  (void)module;
  const char* name = NULL;
  int realtime = 0;
  PyObject* callback = NULL;
  if (!PyArg_ParseTuple(args, "spO", &name, &realtime, &callback)) return NULL;
  const struct provider_api* const api = ProviderApi();
  if (api == NULL) return NULL;
  struct registered* const one = PyMem_Malloc(sizeof(*one));
  if (one == NULL) return PyErr_NoMemory();
  if (is_finalizing == NULL) FindFunctions();
  library = api;
  Py_INCREF(callback);
  one->callback = callback;
  one->interpreter = PyInterpreterState_Get();
  snprintf(one->name, sizeof(one->name), "%s", name);
  one->state = CHANGING;
  one->next = all;
  all = one;
  jobscope_provider provider;
  memset(&provider, 0, sizeof(provider));
  provider.size = sizeof(provider);
  provider.name = name;
  provider.context = one;
  provider.clock = realtime ? JOBSCOPE_PROVIDER_REALTIME : JOBSCOPE_PROVIDER_MONOTONIC;
  provider.arm = &Arm;
  provider.start = &Start;
  provider.stop = &Stop;
  char error[ERROR_BYTES] = "";
  int code;
  Py_BEGIN_ALLOW_THREADS;
  code = api->provider_register(&provider, error, sizeof(error));
  Py_END_ALLOW_THREADS;
  if (code == JOBSCOPE_OK) {
    one->state = REGISTERED;
  } else {
    Free(one);
  }
  return Py_BuildValue("(iN)", code, ErrorText(error));
}

/* Returns the entry of that name that is REGISTERED, else one that is CHANGING; NULL: there is
 * none. */
static struct registered* Find(const char* name) {
  struct registered* found = NULL;
  for (struct registered* at = all; at != NULL; at = at->next) {
    if (strcmp(at->name, name) != 0) continue;
    if (at->state == REGISTERED) return at;
    found = at;
  }
  return found;
}

PyObject* ProviderUnregister(PyObject* module, PyObject* args) {
  (void)module;
  const char* name = NULL;
  if (!PyArg_ParseTuple(args, "s", &name)) return NULL;
  const struct provider_api* const api = ProviderApi();
  if (api == NULL) return NULL;
  struct registered* const one = Find(name);
  if (one != NULL && one->state == CHANGING) {
    return Py_BuildValue("(is)", JOBSCOPE_E_BUSY,
                         "another thread registers or unregisters it: do so on one thread");
  }
  if (one != NULL) one->state = CHANGING;
  char error[ERROR_BYTES] = "";
  int code;
  /* Its stop may run in here, and acquires the GIL itself. */
  Py_BEGIN_ALLOW_THREADS;
  code = api->provider_unregister(name, error, sizeof(error));
  Py_END_ALLOW_THREADS;
  if (one != NULL && code == JOBSCOPE_OK) {
    Free(one);
  } else if (one != NULL) {
    Unlink(one); /* a callback may still run: the rest stays */
  }
  return Py_BuildValue("(iN)", code, ErrorText(error));
}
