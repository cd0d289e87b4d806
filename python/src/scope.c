/* SPDX-License-Identifier: Apache-2.0 */
#include "scope.h"

#include <stddef.h>
#include <structmember.h>

#include "arguments.h"
#include "recorder.h"
#include "sites.h"
#include "vectorcall.h"

/* ---- the idle scope ---- */

/* One object for all. The interpreter looks __enter__ and __exit__ up on the type; these are plain
 * functions, not methods, so that the lookup creates no bound method: `with` allocates nothing. */
static PyObject* idle_scope;

static PyObject* IdleEnter(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  (void)args;
  (void)count;
  Py_RETURN_NONE;
}

static PyMethodDef idle_methods[] = {
    {"__enter__", AS_METHOD(&IdleEnter), METH_FASTCALL, NULL},
    {"__exit__", AS_METHOD(&IdleEnter), METH_FASTCALL, NULL},
};

PyObject* IdleScope(void) {
  Py_INCREF(idle_scope);
  return idle_scope;
}

/* ---- the scope that records ---- */

enum scope_state { SCOPE_NEW, SCOPE_OPEN };

struct scope {
  PyObject ob_base;
  vectorcall_function vectorcall;
  uint32_t site;
  uint8_t is_step;
  uint8_t state; /* scope_state */
  /* depth of nested `with` blocks that share the object; only the outermost is recorded */
  uint16_t inner;
  struct jobscope_token token;
  int64_t step;
  struct arguments arguments;
};

static PyTypeObject* scope_type;
/* Size of the free list: about as many as a program has open at a time, on all threads. */
#define MAX_FREE 64
static struct scope* free_scopes[MAX_FREE];
static unsigned free_count;

static PyObject* Vectorcall(PyObject* self, PyObject* const* args, size_t flags_and_count,
                            PyObject* kwnames);

static struct scope* NewScope(uint32_t site) {
  struct scope* scope;
  if (LIKELY(free_count > 0)) {
    scope = free_scopes[--free_count];
  } else {
    scope = PyObject_Malloc(sizeof(*scope));
    if (scope == NULL) return NULL;
  }
  PyObject_Init((PyObject*)scope, scope_type);
  scope->vectorcall = &Vectorcall;
  scope->site = site;
  scope->is_step = 0;
  scope->state = SCOPE_NEW;
  scope->inner = 0;
  scope->arguments.count = 0;
  scope->arguments.held_count = 0;
  return scope;
}

static void End(struct scope* scope) {
  scope->state = SCOPE_NEW;
  if (scope->token.begin_ticks == 0) return; /* refused, see writer_abi.h */
  if (scope->is_step) {
    jobscope_py_writer->step_end(scope->site, scope->token, scope->step);
  } else if (scope->arguments.count == 0) {
    jobscope_py_writer->end(scope->site, scope->token);
  } else {
    jobscope_py_writer->end_args(scope->site, scope->token, scope->arguments.args,
                                 scope->arguments.count);
  }
}

/* The object is its own __enter__ and __exit__: called without arguments it begins, with three it
 * ends. So the interpreter need not create two bound methods per scope: allocations that its
 * garbage collector counts, and that cost 70 to 120 ns, as much as everything else together. */
static PyObject* Call(PyObject* self, size_t count) {
  struct scope* const scope = (struct scope*)self;
  if (count == 0) {
    if (UNLIKELY(scope->state == SCOPE_OPEN)) {
      ++scope->inner;
    } else {
      scope->state = SCOPE_OPEN;
      scope->token = scope->is_step ? jobscope_py_writer->step_begin(scope->site, scope->step)
                                    : jobscope_py_writer->begin(scope->site);
    }
  } else if (LIKELY(count == 3)) {
    if (UNLIKELY(scope->inner > 0)) {
      --scope->inner;
    } else if (LIKELY(scope->state == SCOPE_OPEN)) {
      End(scope);
    }
  } else {
    PyErr_SetString(PyExc_TypeError,
                    "a jobscope scope is for `with`; the decorator is jobscope.traced");
    return NULL;
  }
  Py_RETURN_NONE;
}

static PyObject* Vectorcall(PyObject* self, PyObject* const* args, size_t flags_and_count,
                            PyObject* kwnames) {
  (void)args;
  (void)kwnames;
  return Call(self, flags_and_count & ~ARGUMENTS_OFFSET);
}

static PyObject* TupleCall(PyObject* self, PyObject* args, PyObject* kwargs) {
  (void)kwargs;
  return Call(self, (size_t)PyTuple_Size(args));
}

static void Dealloc(PyObject* self) {
  struct scope* const scope = (struct scope*)self;
  PyTypeObject* const type = Py_TYPE(self);
  /* Entered explicitly and never exited. */
  if (UNLIKELY(scope->state == SCOPE_OPEN)) End(scope);
  DropArguments(&scope->arguments);
  if (LIKELY(free_count < MAX_FREE)) {
    free_scopes[free_count++] = scope;
  } else {
    PyObject_Free(scope);
  }
  Py_DECREF(type);
}

/* ---- __enter__ and __exit__ as the type has them ---- */

/* Looked up on a scope, it is the scope itself; on the type, as contextlib.ExitStack does, it is a
 * function of the scope and the arguments. */
static PyObject* SelfGet(PyObject* self, PyObject* scope, PyObject* type) {
  (void)type;
  PyObject* const found = scope != NULL ? scope : self;
  Py_INCREF(found);
  return found;
}

static PyObject* SelfCall(PyObject* self, PyObject* args, PyObject* kwargs) {
  (void)self;
  (void)kwargs;
  const Py_ssize_t count = PyTuple_Size(args);
  PyObject* const scope = count > 0 ? PyTuple_GetItem(args, 0) : NULL;
  if (scope == NULL || Py_TYPE(scope) != scope_type) {
    PyErr_SetString(PyExc_TypeError, "the first argument is a jobscope scope");
    return NULL;
  }
  return Call(scope, (size_t)count - 1);
}

static PyType_Slot self_slots[] = {
    {Py_tp_descr_get, &SelfGet},
    {Py_tp_call, &SelfCall},
    {0, NULL},
};
static PyType_Spec self_spec = {
    .name = "jobscope._native.ScopeItself",
    .basicsize = sizeof(PyObject),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = self_slots,
};

static PyMemberDef scope_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(struct scope, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyType_Slot scope_slots[] = {
    {Py_tp_dealloc, &Dealloc},
    {Py_tp_call, &TupleCall},
    {Py_tp_members, scope_members},
    {Py_tp_doc, "A scope that is recorded from the beginning to the end of a with block."},
    {0, NULL},
};
static PyType_Spec scope_spec = {
    .name = "jobscope.Scope",
    .basicsize = sizeof(struct scope),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | HAVE_VECTORCALL,
    .slots = scope_slots,
};

static PyType_Slot idle_slots[] = {
    {Py_tp_doc, "Replaces a scope while recording is off."},
    {0, NULL},
};
static PyType_Spec idle_spec = {
    .name = "jobscope.IdleScope",
    .basicsize = sizeof(PyObject),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = idle_slots,
};

/* ---- the functions that make them ---- */

static PyObject* __attribute__((noinline, cold)) WrongName(const char* function) {
  return PyErr_Format(PyExc_TypeError,
                      "%s: the first argument is the name, a str; all others are key=value",
                      function);
}

static PyObject* MakeScope(PyObject* name, PyObject* const* values, PyObject* kwnames, int kind) {
  NameThread();
  struct scope* const scope = NewScope(SiteOf(name, kwnames, kind));
  if (UNLIKELY(scope == NULL)) return PyErr_NoMemory();
  if (kwnames != NULL) TakeArguments(&scope->arguments, values, PyTuple_Size(kwnames));
  return (PyObject*)scope;
}

PyObject* Trace(PyObject* module, PyObject* const* args, Py_ssize_t count, PyObject* kwnames) {
  (void)module;
  if (UNLIKELY(count != 1 || !PyUnicode_Check(args[0]))) return WrongName("trace");
  if (LIKELY(!MaskHas(JOBSCOPE_BIT_LEVEL1))) return IdleScope();
  return MakeScope(args[0], args + 1, kwnames, KIND_LEVEL1);
}

PyObject* TraceCoarse(PyObject* module, PyObject* const* args, Py_ssize_t count,
                      PyObject* kwnames) {
  (void)module;
  if (UNLIKELY(count != 1 || !PyUnicode_Check(args[0]))) return WrongName("trace_coarse");
  if (LIKELY(!MaskHas(JOBSCOPE_BIT_COARSE))) return IdleScope();
  return MakeScope(args[0], args + 1, kwnames, KIND_COARSE);
}

PyObject* TraceAt(PyObject* module, PyObject* const* args, Py_ssize_t count, PyObject* kwnames) {
  (void)module;
  if (UNLIKELY(count != 2 || !PyLong_Check(args[0]) || !PyUnicode_Check(args[1]))) {
    PyErr_SetString(PyExc_TypeError,
                    "trace_at: the arguments are the level, the name, and key=value");
    return NULL;
  }
  const long level = PyLong_AsLong(args[0]);
  if (UNLIKELY(level < 1 || level > 3)) {
    PyErr_Clear();
    return PyErr_Format(PyExc_ValueError, "trace_at: the level is 1, 2 or 3, not %R", args[0]);
  }
  const int kind = KIND_LEVEL1 + (int)level - 1;
  if (LIKELY(!MaskHas(BitOfKind(kind)))) return IdleScope();
  return MakeScope(args[1], args + 2, kwnames, kind);
}

/* Default names. */
static PyObject* input_wait_name;
static PyObject* train_name;

PyObject* InputWait(PyObject* module, PyObject* const* args, Py_ssize_t count, PyObject* kwnames) {
  (void)module;
  PyObject* const name = count == 0 ? input_wait_name : args[0];
  if (UNLIKELY(count > 1 || !PyUnicode_Check(name))) return WrongName("input_wait");
  if (LIKELY(!MaskHas(JOBSCOPE_BIT_INPUT_WAIT))) {
    LookForRecorder();
    return IdleScope();
  }
  return MakeScope(name, args + count, kwnames, KIND_INPUT_WAIT);
}

static PyObject* __attribute__((noinline, cold)) WrongStep(void) {
  PyErr_SetString(PyExc_TypeError,
                  "step: the arguments are the step's number, an int, and a name, a str");
  return NULL;
}

PyObject* Step(PyObject* module, PyObject* const* args, Py_ssize_t count, PyObject* kwnames) {
  (void)module;
  PyObject* name = train_name;
  if (count == 2) {
    name = args[1];
  } else if (UNLIKELY(count != 1)) {
    return WrongStep();
  }
  if (kwnames != NULL && PyTuple_Size(kwnames) > 0) {
    PyObject* const key = PyTuple_GetItem(kwnames, 0);
    if (count != 1 || PyTuple_Size(kwnames) != 1 ||
        PyUnicode_CompareWithASCIIString(key, "name") != 0) {
      return WrongStep();
    }
    name = args[1];
  }
  if (UNLIKELY(!PyUnicode_Check(name))) return WrongStep();
  if (LIKELY(!MaskHas(JOBSCOPE_BIT_STEP)) && PyLong_Check(args[0])) {
    LookForRecorder();
    return IdleScope();
  }
  PyObject* const number = PyNumber_Index(args[0]);
  if (number == NULL) return NULL;
  int overflow = 0;
  const long long step = PyLong_AsLongLongAndOverflow(number, &overflow);
  Py_DECREF(number);
  if (UNLIKELY(!MaskHas(JOBSCOPE_BIT_STEP))) {
    LookForRecorder();
    return IdleScope();
  }
  struct scope* const scope = (struct scope*)MakeScope(name, NULL, NULL, KIND_STEP);
  if (UNLIKELY(scope == NULL)) return NULL;
  scope->is_step = 1;
  scope->step = overflow == 0 ? step : overflow > 0 ? INT64_MAX : INT64_MIN;
  return (PyObject*)scope;
}

/* Sets the attribute `name` of the type. Steals the reference to the value. */
static int SetAttribute(PyObject* type, const char* name, PyObject* value) {
  const int result = value != NULL ? PyObject_SetAttrString(type, name, value) : -1;
  Py_XDECREF(value);
  return result;
}

static int MakeScopeType(void) {
  scope_type = (PyTypeObject*)PyType_FromSpec(&scope_spec);
  PyObject* const self_type = PyType_FromSpec(&self_spec);
  if (scope_type == NULL || self_type == NULL) return -1;
  PyObject* const type = (PyObject*)scope_type;
  const int result = SetAttribute(type, "__enter__", PyObject_CallObject(self_type, NULL)) != 0 ||
                     SetAttribute(type, "__exit__", PyObject_CallObject(self_type, NULL)) != 0;
  Py_DECREF(self_type);
  return -result;
}

static int MakeIdleScope(void) {
  PyObject* const type = PyType_FromSpec(&idle_spec);
  if (type == NULL) return -1;
  for (size_t i = 0; i < sizeof(idle_methods) / sizeof(idle_methods[0]); ++i) {
    PyObject* const function = PyCFunction_New(&idle_methods[i], NULL);
    if (SetAttribute(type, idle_methods[i].ml_name, function) != 0) return -1;
  }
  idle_scope = PyObject_CallObject(type, NULL);
  Py_DECREF(type);
  return idle_scope != NULL ? 0 : -1;
}

int InitScopes(PyObject* module) {
  if (idle_scope == NULL) {
    input_wait_name = PyUnicode_InternFromString("input_wait");
    train_name = PyUnicode_InternFromString("train");
    if (input_wait_name == NULL || train_name == NULL || MakeScopeType() != 0 ||
        MakeIdleScope() != 0) {
      return -1;
    }
  }
  if (PyModule_AddObjectRef(module, "Scope", (PyObject*)scope_type) != 0) return -1;
  return PyModule_AddObjectRef(module, "IdleScope", (PyObject*)Py_TYPE(idle_scope));
}
