/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE 1 /* as Python's headers do, which come later */
#include "recorder.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

static const uint32_t no_mask = 0;
const uint32_t* jobscope_py_mask = &no_mask;
const struct jobscope_trace_writer_table* jobscope_py_writer = NULL;

/* 1 once the thread has its name. Not in static TLS, which a late dlopen can exhaust. */
static __thread char thread_has_name;
/* A name that was set while there was no recorder; the recorder keeps 63 bytes. */
static __thread char early_name[64];

/* Size of the table up to the last member used here. A newer recorder's table is longer. */
#define NEEDED_TABLE_BYTES offsetof(struct jobscope_trace_writer_table, step_boundary)

/* Returns the writer table of a loaded library; NULL: it is not a usable recorder. */
static const struct jobscope_trace_writer_table* TableOf(void* library) {
  const struct jobscope_trace_writer_table* (*entry)(void);
  void* const symbol = dlsym(library, "jobscope_trace_writer");
  if (symbol == NULL) return NULL;
  memcpy(&entry, &symbol, sizeof(entry));
  const struct jobscope_trace_writer_table* const table = entry();
  return table->size >= NEEDED_TABLE_BYTES ? table : NULL;
}

static void Use(const struct jobscope_trace_writer_table* table) {
  if (table == NULL) return;
  jobscope_py_writer = table;
  jobscope_py_mask = table->mask;
}

int FindRecorder(void) {
  if (jobscope_py_writer != NULL) return 0;
  const struct jobscope_trace_writer_table* table = NULL;
  void* loaded;
  /* The loader's lock may be held by a thread that waits for the GIL, here and below. */
  Py_BEGIN_ALLOW_THREADS;
  /* By its bare name: by path, a second recorder would be loaded, which nobody reads. */
  loaded = dlopen(JOBSCOPE_TRACE_SONAME, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (loaded != NULL) table = TableOf(loaded);
  Py_END_ALLOW_THREADS;
  Use(table);
  return loaded != NULL && table == NULL ? -1 : 0;
}

static int RefuseOlder(void) {
  PyErr_Format(PyExc_ImportError,
               "the recorder %s in this process is older than the jobscope package: use one "
               "version of both",
               JOBSCOPE_TRACE_SONAME);
  return -1;
}

int LoadRecorder(const char* folder) {
  if (FindRecorder() != 0) return RefuseOlder();
  if (jobscope_py_writer != NULL) return 0;
  char path[4096];
  const int length = snprintf(path, sizeof(path), "%s/%s", folder, JOBSCOPE_TRACE_SONAME);
  if (length < 0 || (size_t)length >= sizeof(path)) {
    PyErr_SetString(PyExc_ImportError,
                    "the path of the jobscope package is longer than 4,095 bytes");
    return -1;
  }
  void* library;
  const struct jobscope_trace_writer_table* table = NULL;
  Py_BEGIN_ALLOW_THREADS;
  library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library != NULL) table = TableOf(library);
  Py_END_ALLOW_THREADS;
  if (library == NULL) {
    PyErr_Format(PyExc_ImportError,
                 "jobscope's recorder cannot be loaded (%s): reinstall the package", dlerror());
    return -1;
  }
  if (table == NULL) return RefuseOlder();
  Use(table);
  return 0;
}

/* Reads how many libraries have been loaded so far. */
static int TakeLoadCount(struct dl_phdr_info* info, size_t size, void* count) {
  (void)size;
  *(unsigned long long*)count = info->dlpi_adds;
  return 1; /* the first one has the number */
}

void LookForRecorder(void) {
  /* dlopen of a missing library costs 25 us, the check for new libraries 0.1 us. */
  static unsigned calls;
  static unsigned long long seen;
  if (LIKELY((++calls & 63) != 0)) return;
  unsigned long long count = 0;
  dl_iterate_phdr(&TakeLoadCount, &count);
  if (count == seen) return;
  seen = count;
  FindRecorder();
}

/* Returns the name that `threading` has for the thread, as a new reference; NULL without an
 * exception if it has none. Only looks it up: threading.current_thread() would create a thread
 * object, and enumerate() takes a lock. */
static PyObject* PythonNameOfThread(void) {
  PyObject* name = NULL;
  PyObject* key = PyUnicode_InternFromString("threading");
  PyObject* threading = key != NULL ? PyImport_GetModule(key) : NULL;
  PyObject* active = threading != NULL ? PyObject_GetAttrString(threading, "_active") : NULL;
  if (active != NULL && PyDict_Check(active)) {
    PyObject* ident = PyLong_FromUnsignedLong(PyThread_get_thread_ident());
    PyObject* thread = ident != NULL ? PyDict_GetItemWithError(active, ident) : NULL;
    if (thread != NULL) {
      Py_INCREF(thread);
      PyObject* main = PyObject_GetAttrString(threading, "_main_thread");
      /* The main thread has the process's name, which is more informative. */
      if (main != thread) name = PyObject_GetAttrString(thread, "_name");
      Py_XDECREF(main);
      Py_DECREF(thread);
    }
    Py_XDECREF(ident);
  }
  Py_XDECREF(active);
  Py_XDECREF(threading);
  Py_XDECREF(key);
  PyErr_Clear();
  return name;
}

void NameThread(void) {
  if (LIKELY(thread_has_name)) return;
  thread_has_name = 1;
  if (early_name[0] != '\0') {
    jobscope_py_writer->set_thread_name(early_name);
    return;
  }
  PyObject* const name = PythonNameOfThread();
  if (name == NULL) return;
  const char* const text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
  if (text != NULL) jobscope_py_writer->set_thread_name(text);
  PyErr_Clear();
  Py_DECREF(name);
}

PyObject* SetThreadName(PyObject* module, PyObject* name) {
  (void)module;
  if (!PyUnicode_Check(name)) {
    PyErr_SetString(PyExc_TypeError, "set_thread_name: the name is a str");
    return NULL;
  }
  const char* const text = PyUnicode_AsUTF8AndSize(name, NULL);
  if (text == NULL) return NULL;
  FindRecorder();
  if (jobscope_py_writer != NULL) {
    thread_has_name = 1;
    jobscope_py_writer->set_thread_name(text);
  } else {
    snprintf(early_name, sizeof(early_name), "%s", text);
  }
  Py_RETURN_NONE;
}

PyObject* MaskFunction(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  return PyLong_FromUnsignedLong(__atomic_load_n(jobscope_py_mask, __ATOMIC_RELAXED));
}

PyObject* RecorderLives(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  /* The only function of the writer table that shows it; see writer_abi.h. It assigns the calling
   * thread its ring, so call this only after rings have been configured. */
  return PyBool_FromLong(jobscope_py_writer != NULL && jobscope_py_writer->next_id() != 0);
}
