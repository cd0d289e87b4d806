/* SPDX-License-Identifier: Apache-2.0 */
#include "events.h"

#include "arguments.h"
#include "recorder.h"
#include "sites.h"

/* ---- points in time ---- */

PyObject* Instant(PyObject* module, PyObject* const* args, Py_ssize_t count, PyObject* kwnames) {
  (void)module;
  if (UNLIKELY(count != 1 || !PyUnicode_Check(args[0]))) {
    PyErr_SetString(PyExc_TypeError,
                    "instant: the first argument is the name, a str; all others are key=value");
    return NULL;
  }
  if (LIKELY(!MaskHas(JOBSCOPE_BIT_LEVEL1))) Py_RETURN_NONE;
  NameThread();
  const uint32_t site = SiteOf(args[0], kwnames, KIND_INSTANT);
  struct arguments arguments;
  TakeArguments(&arguments, args + 1, kwnames != NULL ? PyTuple_Size(kwnames) : 0);
  jobscope_py_writer->event(site, JOBSCOPE_KIND_INSTANT, arguments.args, arguments.count);
  DropArguments(&arguments);
  Py_RETURN_NONE;
}

PyObject* Counter(PyObject* module, PyObject* const* args, Py_ssize_t count) {
  (void)module;
  if (UNLIKELY(count != 2 || !PyUnicode_Check(args[0]) || !PyNumber_Check(args[1]))) {
    PyErr_SetString(PyExc_TypeError, "counter: the arguments are the name, a str, and a number");
    return NULL;
  }
  if (LIKELY(!MaskHas(JOBSCOPE_BIT_LEVEL1))) Py_RETURN_NONE;
  struct jobscope_arg sample;
  if (UNLIKELY(TakeSample(args[1], &sample) != 0)) {
    /* No exception: code that works while recording is off must also work while it is on. */
    PyErr_WriteUnraisable(args[0]);
    Py_RETURN_NONE;
  }
  NameThread();
  jobscope_py_writer->event(SiteOf(args[0], NULL, KIND_COUNTER), JOBSCOPE_KIND_COUNTER, &sample, 1);
  Py_RETURN_NONE;
}

/* ---- sites ---- */

struct site {
  PyObject ob_base;
  PyObject* name; /* str */
  PyObject* file; /* str */
  uint32_t line;
  uint8_t kind;
  uint32_t id; /* 0 until there is a recorder that records */
};

static PyTypeObject* site_type;

static PyObject* NewSite(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject *name = NULL, *file = NULL;
  unsigned line = 0;
  int kind = 0;
  if (kwargs != NULL && PyDict_Size(kwargs) != 0) {
    PyErr_SetString(PyExc_TypeError, "Site takes no keyword arguments");
    return NULL;
  }
  if (!PyArg_ParseTuple(args, "UUIi", &name, &file, &line, &kind)) return NULL;
  if (kind < 0 || kind >= KIND_COUNT) {
    PyErr_SetString(PyExc_ValueError, "Site: no such kind");
    return NULL;
  }
  struct site* const site = PyObject_Malloc(sizeof(*site));
  if (site == NULL) return PyErr_NoMemory();
  PyObject_Init((PyObject*)site, type);
  Py_INCREF(name);
  Py_INCREF(file);
  site->name = name;
  site->file = file;
  site->line = line;
  site->kind = (uint8_t)kind;
  site->id = 0;
  return (PyObject*)site;
}

static void DeallocSite(PyObject* self) {
  struct site* const site = (struct site*)self;
  PyTypeObject* const type = Py_TYPE(self);
  Py_DECREF(site->name);
  Py_DECREF(site->file);
  PyObject_Free(site);
  Py_DECREF(type);
}

static PyType_Slot site_slots[] = {
    {Py_tp_new, &NewSite},
    {Py_tp_dealloc, &DeallocSite},
    {Py_tp_doc, "A named place in the code."},
    {0, NULL},
};
static PyType_Spec site_spec = {
    .name = "jobscope._native.Site",
    .basicsize = sizeof(struct site),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = site_slots,
};

static uint32_t IdOf(struct site* site) {
  if (LIKELY(site->id != 0)) return site->id;
  const char* const name = PyUnicode_AsUTF8AndSize(site->name, NULL);
  const char* const file = name != NULL ? PyUnicode_AsUTF8AndSize(site->file, NULL) : NULL;
  PyErr_Clear();
  site->id = SiteAt(name != NULL ? name : "?", file != NULL ? file : "", site->line, site->kind);
  return site->id;
}

/* Returns NULL with an exception if it is none. */
static struct site* AsSite(PyObject* object) {
  if (LIKELY(Py_TYPE(object) == site_type)) return (struct site*)object;
  PyErr_SetString(PyExc_TypeError, "a Site is wanted");
  return NULL;
}

PyObject* AsyncBegin(PyObject* module, PyObject* object) {
  (void)module;
  struct site* const site = AsSite(object);
  if (UNLIKELY(site == NULL)) return NULL;
  if (LIKELY(!MaskHas(BitOfKind(site->kind)))) return PyLong_FromLong(0);
  NameThread();
  struct jobscope_arg arg = {.type = JOBSCOPE_ARG_UINT64};
  arg.value.uint64_value = jobscope_py_writer->next_id();
  jobscope_py_writer->event(IdOf(site), JOBSCOPE_KIND_ASYNC_BEGIN, &arg, 1);
  return PyLong_FromUnsignedLongLong(arg.value.uint64_value);
}

PyObject* AsyncEnd(PyObject* module, PyObject* const* args, Py_ssize_t count) {
  (void)module;
  struct site* const site = count == 2 ? AsSite(args[0]) : NULL;
  if (UNLIKELY(site == NULL)) {
    PyErr_SetString(PyExc_TypeError, "async_end: the arguments are a Site and an id");
    return NULL;
  }
  struct jobscope_arg arg = {.type = JOBSCOPE_ARG_UINT64};
  arg.value.uint64_value = PyLong_AsUnsignedLongLong(args[1]);
  if (PyErr_Occurred()) return NULL;
  if (arg.value.uint64_value != 0 && MaskHas(BitOfKind(site->kind))) {
    jobscope_py_writer->event(IdOf(site), JOBSCOPE_KIND_ASYNC_END, &arg, 1);
  }
  Py_RETURN_NONE;
}

int SiteKind(PyObject* object) {
  const struct site* const site = AsSite(object);
  return site != NULL ? site->kind : -1;
}

uint32_t SiteId(PyObject* object) { return IdOf((struct site*)object); }

int InitEvents(PyObject* module) {
  if (site_type == NULL) site_type = (PyTypeObject*)PyType_FromSpec(&site_spec);
  if (site_type == NULL) return -1;
  return PyModule_AddObjectRef(module, "Site", (PyObject*)site_type);
}
