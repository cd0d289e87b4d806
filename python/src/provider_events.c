/* SPDX-License-Identifier: Apache-2.0 */
#include "provider_events.h"

#include <string.h>

#include "arguments.h"
#include "jobscope/provider.h"

/* Events passed to the sink at a time: it copies them in about 20 us, and the GIL is held no longer
 * than it takes to make as many. */
#define BATCH 64
/* Maximum number of values taken from one event. */
#define MAX_ARGS 16

struct batch {
  jobscope_provider_sink* sink;
  size_t count;
  jobscope_provider_event events[BATCH];
  jobscope_provider_arg args[BATCH][MAX_ARGS];
  PyObject*
      held; /* a list of the owners of the texts above: other threads run while they are used */
};

/* Returns the text of a str, NULL with an exception. Invalid characters are replaced. */
static const char* TextOf(struct batch* batch, PyObject* string) {
  const char* text = PyUnicode_AsUTF8AndSize(string, NULL);
  if (text != NULL) return PyList_Append(batch->held, string) == 0 ? text : NULL;
  PyErr_Clear();
  PyObject* const bytes = PyUnicode_AsEncodedString(string, "utf-8", "replace");
  if (bytes == NULL) return NULL;
  text = PyList_Append(batch->held, bytes) == 0 ? PyBytes_AsString(bytes) : NULL;
  Py_DECREF(bytes);
  return text;
}

static int TakeTime(PyObject* value, const char* what, int64_t* time) {
  PyObject* const number = PyNumber_Index(value);
  if (number == NULL) {
    PyErr_Format(PyExc_TypeError, "an event's %s is an int of nanoseconds, not %R", what, value);
    return -1;
  }
  *time = PyLong_AsLongLong(number);
  Py_DECREF(number);
  return *time == -1 && PyErr_Occurred() ? -1 : 0;
}

static int TakeArgument(struct batch* batch, PyObject* key, PyObject* value,
                        jobscope_provider_arg* arg) {
  if (!PyUnicode_Check(key)) {
    PyErr_Format(PyExc_TypeError, "an argument's key is a str, not %R", key);
    return -1;
  }
  arg->key = TextOf(batch, key);
  if (arg->key == NULL) return -1;
  struct arguments taken;
  TakeArguments(&taken, &value, 1);
  switch (taken.args[0].type) {
    case JOBSCOPE_ARG_INT64:
      arg->type = JOBSCOPE_PROVIDER_INT64;
      arg->value.int64_value = taken.args[0].value.int64_value;
      break;
    case JOBSCOPE_ARG_UINT64:
      arg->type = JOBSCOPE_PROVIDER_UINT64;
      arg->value.uint64_value = taken.args[0].value.uint64_value;
      break;
    case JOBSCOPE_ARG_DOUBLE:
      arg->type = JOBSCOPE_PROVIDER_DOUBLE;
      arg->value.double_value = taken.args[0].value.double_value;
      break;
    default:
      arg->type = JOBSCOPE_PROVIDER_TEXT;
      arg->value.text = taken.args[0].value.text;
  }
  int result = 0;
  for (uint32_t i = 0; i < taken.held_count; ++i) {
    result |= PyList_Append(batch->held, taken.held[i]);
  }
  DropArguments(&taken);
  return result;
}

static int TakeAllArguments(struct batch* batch, PyObject* arguments, jobscope_provider_arg* args,
                            size_t* count) {
  *count = 0;
  if (arguments == Py_None) return 0;
  if (!PyDict_Check(arguments)) {
    PyErr_Format(PyExc_TypeError, "an event's arguments are a dict, not %R", arguments);
    return -1;
  }
  Py_ssize_t at = 0;
  PyObject *key = NULL, *value = NULL;
  while (*count < MAX_ARGS && PyDict_Next(arguments, &at, &key, &value)) {
    /* Converting it may call code that changes the dict. */
    Py_INCREF(key);
    Py_INCREF(value);
    const int failed = TakeArgument(batch, key, value, &args[*count]);
    Py_DECREF(key);
    Py_DECREF(value);
    if (failed) return -1;
    ++*count;
  }
  return 0;
}

static int TakeLine(struct batch* batch, PyObject* line, jobscope_provider_event* event) {
  if (line == Py_None) return 0;
  if (PyUnicode_Check(line)) {
    event->line = TextOf(batch, line);
    return event->line != NULL ? 0 : -1;
  }
  if (!PyLong_Check(line)) {
    PyErr_Format(PyExc_TypeError,
                 "an event's line is a str, or the native id of a thread, an int, not %R", line);
    return -1;
  }
  return TakeTime(line, "line", &event->thread_id);
}

/* (name, begin_ns, duration_ns=0, line=None, arguments=None), or (name, at_ns, value). */
static int TakeEvent(struct batch* batch, PyObject* item, int is_sample) {
  jobscope_provider_event* const event = &batch->events[batch->count];
  memset(event, 0, sizeof(*event));
  event->size = sizeof(*event);
  const Py_ssize_t size = PyTuple_Check(item) ? PyTuple_Size(item) : 0;
  if (size < 2 || size > 5 || (is_sample && size != 3) ||
      !PyUnicode_Check(PyTuple_GetItem(item, 0))) {
    PyErr_Format(PyExc_TypeError,
                 "an event is a jobscope.Event, a jobscope.Sample, or a tuple (name, begin_ns, "
                 "duration_ns, line, arguments), not %R",
                 item);
    return -1;
  }
  event->name = TextOf(batch, PyTuple_GetItem(item, 0));
  if (event->name == NULL || TakeTime(PyTuple_GetItem(item, 1), "begin", &event->begin_ns) != 0) {
    return -1;
  }
  if (is_sample) {
    event->kind = JOBSCOPE_PROVIDER_COUNTER;
    event->value = PyFloat_AsDouble(PyTuple_GetItem(item, 2));
    if (event->value == -1 && PyErr_Occurred()) return -1;
  } else {
    if (size > 2 && TakeTime(PyTuple_GetItem(item, 2), "duration", &event->duration_ns) != 0) {
      return -1;
    }
    if (size > 3 && TakeLine(batch, PyTuple_GetItem(item, 3), event) != 0) return -1;
    event->args = batch->args[batch->count];
    if (size > 4 && TakeAllArguments(batch, PyTuple_GetItem(item, 4), batch->args[batch->count],
                                     &event->arg_count) != 0) {
      return -1;
    }
  }
  ++batch->count;
  return 0;
}

static int Give(struct batch* batch) {
  int code = JOBSCOPE_OK;
  if (batch->count == 0) return code;
  Py_BEGIN_ALLOW_THREADS;
  code = batch->sink->add(batch->sink, batch->events, batch->count);
  Py_END_ALLOW_THREADS;
  batch->count = 0;
  if (PyList_SetSlice(batch->held, 0, PyList_Size(batch->held), NULL) != 0) return -1;
  return code;
}

/* Returns the sink's code, or -1 with an exception; events before the exception are added. */
static int AddAll(struct batch* batch, PyObject* iterator, PyObject* sample_class) {
  int code = JOBSCOPE_OK;
  PyObject* item = NULL;
  while (code == JOBSCOPE_OK && (item = PyIter_Next(iterator)) != NULL) {
    const int is_sample = PyObject_IsInstance(item, sample_class);
    if (is_sample < 0 || TakeEvent(batch, item, is_sample) != 0) code = -1;
    Py_DECREF(item);
    if (batch->count == BATCH) code = Give(batch);
  }
  if (code != JOBSCOPE_OK && code != -1) return code;
  if (!PyErr_Occurred()) return Give(batch);
  PyObject *type = NULL, *value = NULL, *traceback = NULL;
  PyErr_Fetch(&type, &value, &traceback);
  if (Give(batch) == -1) PyErr_Clear();
  PyErr_Restore(type, value, traceback);
  return -1;
}

static jobscope_provider_sink* SinkOf(PyObject* capsule) {
  return PyCapsule_GetPointer(capsule, SINK_NAME);
}

PyObject* ProviderAdd(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *capsule = NULL, *iterable = NULL, *sample_class = NULL;
  if (!PyArg_ParseTuple(args, "OOO", &capsule, &iterable, &sample_class)) return NULL;
  jobscope_provider_sink* const sink = SinkOf(capsule);
  if (sink == NULL) return NULL;
  PyObject* const iterator = PyObject_GetIter(iterable);
  if (iterator == NULL) return NULL;
  struct batch* const batch = PyMem_Malloc(sizeof(*batch));
  PyObject* result = NULL;
  if (batch == NULL) {
    PyErr_NoMemory();
  } else {
    batch->sink = sink;
    batch->count = 0;
    batch->held = PyList_New(0);
    const int code = batch->held != NULL ? AddAll(batch, iterator, sample_class) : -1;
    if (code != -1) result = PyLong_FromLong(code);
    Py_XDECREF(batch->held);
    PyMem_Free(batch);
  }
  Py_DECREF(iterator);
  return result;
}

PyObject* ProviderAddXSpace(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *capsule = NULL, *bytes = NULL;
  if (!PyArg_ParseTuple(args, "OS", &capsule, &bytes)) return NULL;
  jobscope_provider_sink* const sink = SinkOf(capsule);
  char* data = NULL;
  Py_ssize_t size = 0;
  if (sink == NULL || PyBytes_AsStringAndSize(bytes, &data, &size) != 0) return NULL;
  char error[ERROR_BYTES] = "";
  int code;
  Py_BEGIN_ALLOW_THREADS;
  code = sink->add_xspace(sink, data, (size_t)size, error, sizeof(error));
  Py_END_ALLOW_THREADS;
  return Py_BuildValue("(is)", code, error);
}
