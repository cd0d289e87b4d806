/* SPDX-License-Identifier: Apache-2.0
 *
 * Implemented in C, because a Python function with a `with` would pack the arguments into a tuple
 * and a dict and unpack them again: that costs as much as everything else together
 * (bench/python_scope_bench.py, "traced as a Python function").
 */
#include "traced.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>
#include <structmember.h>

#include "events.h"
#include "recorder.h"
#include "sites.h"
#include "vectorcall.h"

struct traced {
  PyObject ob_base;
  vectorcall_function vectorcall;
  PyObject* function;
  PyObject* site;
  PyObject* dict;
  PyObject* weak_references;
  uint32_t bit;
  uint32_t site_id; /* 0 until something records */
};

static PyTypeObject* traced_type;

/* PyObject_Vectorcall is in the stable ABI from 3.12 on, and callable from 3.11 on; the equivalent
 * in 3.10 takes keywords as a dict. */
static vectorcall_function call_vector;
static PyObject* (*call_vector_dict)(PyObject* callable, PyObject* const* args,
                                     size_t flags_and_count, PyObject* kwargs);

static PyObject* __attribute__((noinline))
InvokeWithDict(PyObject* function, PyObject* const* args, size_t flags_and_count,
               PyObject* kwnames) {
  const Py_ssize_t keywords = kwnames != NULL ? PyTuple_Size(kwnames) : 0;
  if (keywords == 0) return call_vector_dict(function, args, flags_and_count, NULL);
  PyObject* const* const values = args + (flags_and_count & ~ARGUMENTS_OFFSET);
  PyObject* const kwargs = PyDict_New();
  if (kwargs == NULL) return NULL;
  PyObject* result = NULL;
  for (Py_ssize_t i = 0; i < keywords; ++i) {
    if (PyDict_SetItem(kwargs, PyTuple_GetItem(kwnames, i), values[i]) != 0) goto done;
  }
  result = call_vector_dict(function, args, flags_and_count, kwargs);
done:
  Py_DECREF(kwargs);
  return result;
}

static inline PyObject* Invoke(PyObject* function, PyObject* const* args, size_t flags_and_count,
                               PyObject* kwnames) {
  if (LIKELY(call_vector != NULL)) return call_vector(function, args, flags_and_count, kwnames);
  return InvokeWithDict(function, args, flags_and_count, kwnames);
}

static PyObject* Vectorcall(PyObject* self, PyObject* const* args, size_t flags_and_count,
                            PyObject* kwnames) {
  struct traced* const traced = (struct traced*)self;
  if (LIKELY(!MaskHas(traced->bit))) {
    return Invoke(traced->function, args, flags_and_count, kwnames);
  }
  NameThread();
  if (UNLIKELY(traced->site_id == 0)) traced->site_id = SiteId(traced->site);
  const uint32_t site = traced->site_id;
  const struct jobscope_token token = jobscope_py_writer->begin(site);
  PyObject* const result = Invoke(traced->function, args, flags_and_count, kwnames);
  if (LIKELY(token.begin_ticks != 0)) jobscope_py_writer->end(site, token);
  return result;
}

/* For callers with a tuple and a dict: `function(*args, **kwargs)`. */
static PyObject* Call(PyObject* self, PyObject* args, PyObject* kwargs) {
  struct traced* const traced = (struct traced*)self;
  if (LIKELY(!MaskHas(traced->bit))) return PyObject_Call(traced->function, args, kwargs);
  NameThread();
  if (UNLIKELY(traced->site_id == 0)) traced->site_id = SiteId(traced->site);
  const uint32_t site = traced->site_id;
  const struct jobscope_token token = jobscope_py_writer->begin(site);
  PyObject* const result = PyObject_Call(traced->function, args, kwargs);
  if (LIKELY(token.begin_ticks != 0)) jobscope_py_writer->end(site, token);
  return result;
}

/* types.MethodType */
static PyObject* method_type;

static PyObject* DescrGet(PyObject* self, PyObject* object, PyObject* type) {
  (void)type;
  if (object == NULL || object == Py_None) {
    Py_INCREF(self);
    return self;
  }
  return PyObject_CallFunctionObjArgs(method_type, self, object, NULL);
}

static PyObject* New(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject *function = NULL, *site = NULL;
  if (kwargs != NULL && PyDict_Size(kwargs) != 0) {
    PyErr_SetString(PyExc_TypeError, "Traced takes no keyword arguments");
    return NULL;
  }
  if (!PyArg_ParseTuple(args, "OO", &function, &site)) return NULL;
  const int kind = SiteKind(site);
  if (kind < 0) return NULL;
  struct traced* const traced = PyObject_GC_New(struct traced, type);
  if (traced == NULL) return NULL;
  Py_INCREF(function);
  Py_INCREF(site);
  traced->vectorcall = &Vectorcall;
  traced->function = function;
  traced->site = site;
  traced->dict = NULL;
  traced->weak_references = NULL;
  traced->bit = BitOfKind(kind);
  traced->site_id = 0;
  PyObject_GC_Track((PyObject*)traced);
  return (PyObject*)traced;
}

static int Traverse(PyObject* self, visitproc visit, void* arg) {
  struct traced* const traced = (struct traced*)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(traced->function);
  Py_VISIT(traced->dict);
  return 0;
}

/* Keeps the function: an object being cleared may still be called, by a finaliser in the same
 * cycle. A function clears what it holds itself. */
static int Clear(PyObject* self) {
  Py_CLEAR(((struct traced*)self)->dict);
  return 0;
}

static void Dealloc(PyObject* self) {
  struct traced* const traced = (struct traced*)self;
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (traced->weak_references != NULL) PyObject_ClearWeakRefs(self);
  Py_CLEAR(traced->dict);
  Py_DECREF(traced->function);
  Py_DECREF(traced->site);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

static PyObject* Repr(PyObject* self) {
  return PyUnicode_FromFormat("<jobscope.traced %R>", ((struct traced*)self)->function);
}

/* Pickled by its name, as functions are. */
static PyObject* Reduce(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyObject_GetAttrString(self, "__qualname__");
}

/* Copies like a function: returns itself. */
static PyObject* Same(PyObject* self, PyObject* unused) {
  (void)unused;
  Py_INCREF(self);
  return self;
}

static PyMethodDef traced_methods[] = {
    {"__reduce__", &Reduce, METH_NOARGS, NULL},
    {"__copy__", &Same, METH_NOARGS, NULL},
    {"__deepcopy__", &Same, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
/* Returns what functools.update_wrapper has set, up to Python 3.13. From 3.14 on it sets nothing,
 * because a function computes its annotations on request, so this requests them. */
static PyObject* GetAnnotations(PyObject* self, void* unused) {
  (void)unused;
  const struct traced* const traced = (struct traced*)self;
  PyObject* const own =
      traced->dict != NULL ? PyDict_GetItemString(traced->dict, "__annotations__") : NULL;
  if (own == NULL) return PyObject_GetAttrString(traced->function, "__annotations__");
  Py_INCREF(own);
  return own;
}

static int SetAnnotations(PyObject* self, PyObject* value, void* unused) {
  PyObject* const dict = PyObject_GenericGetDict(self, unused);
  if (dict == NULL) return -1;
  const int result = value != NULL ? PyDict_SetItemString(dict, "__annotations__", value)
                                   : PyDict_DelItemString(dict, "__annotations__");
  Py_DECREF(dict);
  return result;
}

static PyMemberDef traced_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(struct traced, vectorcall), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(struct traced, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(struct traced, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyGetSetDef traced_getset[] = {
    {"__dict__", &PyObject_GenericGetDict, &PyObject_GenericSetDict, NULL, NULL},
    {"__annotations__", &GetAnnotations, &SetAnnotations, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot traced_slots[] = {
    {Py_tp_new, &New},
    {Py_tp_dealloc, &Dealloc},
    {Py_tp_traverse, &Traverse},
    {Py_tp_clear, &Clear},
    {Py_tp_call, &Call},
    {Py_tp_descr_get, &DescrGet},
    {Py_tp_repr, &Repr},
    {Py_tp_methods, traced_methods},
    {Py_tp_members, traced_members},
    {Py_tp_getset, traced_getset},
    {0, NULL},
};
static PyType_Spec traced_spec = {
    .name = "jobscope._native.Traced",
    .basicsize = sizeof(struct traced),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | HAVE_VECTORCALL | METHOD_DESCRIPTOR,
    .slots = traced_slots,
};

static PyObject* MethodType(void) {
  PyObject* const types = PyImport_ImportModule("types");
  PyObject* const type = types != NULL ? PyObject_GetAttrString(types, "MethodType") : NULL;
  Py_XDECREF(types);
  return type;
}

int InitTraced(PyObject* module) {
  if (traced_type == NULL) {
    void* function = dlsym(RTLD_DEFAULT, "PyObject_Vectorcall");
    memcpy(&call_vector, &function, sizeof(function));
    function = dlsym(RTLD_DEFAULT, "PyObject_VectorcallDict");
    memcpy(&call_vector_dict, &function, sizeof(function));
    if (call_vector == NULL && call_vector_dict == NULL) {
      PyErr_SetString(PyExc_ImportError,
                      "jobscope needs a Python with PyObject_Vectorcall: CPython 3.10 or later");
      return -1;
    }
    method_type = MethodType();
    if (method_type == NULL) return -1;
    traced_type = (PyTypeObject*)PyType_FromSpec(&traced_spec);
    if (traced_type == NULL) return -1;
  }
  return PyModule_AddObjectRef(module, "Traced", (PyObject*)traced_type);
}
