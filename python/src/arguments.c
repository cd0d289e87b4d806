/* SPDX-License-Identifier: Apache-2.0 */
#include "arguments.h"

#include <string.h>

static void SetInt64(struct jobscope_arg* arg, long long value) {
  arg->type = JOBSCOPE_ARG_INT64;
  arg->length = 0;
  arg->value.int64_value = value;
}

static void SetDouble(struct jobscope_arg* arg, double value) {
  arg->type = JOBSCOPE_ARG_DOUBLE;
  arg->length = 0;
  arg->value.double_value = value;
}

static void SetText(struct jobscope_arg* arg, const char* text, Py_ssize_t length) {
  arg->type = JOBSCOPE_ARG_STRING;
  arg->length = length < UINT32_MAX ? (uint32_t)length : UINT32_MAX;
  arg->value.text = text;
}

/* Stores an int of any size: beyond 64 bits it becomes a double. */
static void SetInteger(struct jobscope_arg* arg, PyObject* value) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (LIKELY(overflow == 0)) {
    SetInt64(arg, number);
    return;
  }
  const unsigned long long larger = PyLong_AsUnsignedLongLong(value);
  if (!PyErr_Occurred()) {
    arg->type = JOBSCOPE_ARG_UINT64;
    arg->length = 0;
    arg->value.uint64_value = larger;
    return;
  }
  PyErr_Clear();
  const double approximate = PyLong_AsDouble(value);
  if (PyErr_Occurred()) {
    PyErr_Clear();
    SetDouble(arg, overflow > 0 ? __builtin_inf() : -__builtin_inf());
    return;
  }
  SetDouble(arg, approximate);
}

/* Keeps the object alive; steals the reference. */
static void Hold(struct arguments* arguments, PyObject* object) {
  arguments->held[arguments->held_count++] = object;
}

static void SetString(struct arguments* arguments, struct jobscope_arg* arg, PyObject* value) {
  Py_ssize_t length = 0;
  const char* text = PyUnicode_AsUTF8AndSize(value, &length);
  if (LIKELY(text != NULL)) {
    Py_INCREF(value);
    Hold(arguments, value);
    SetText(arg, text, length);
    return;
  }
  PyErr_Clear();
  PyObject* const bytes = PyUnicode_AsEncodedString(value, "utf-8", "replace");
  char* copy = NULL;
  if (bytes != NULL && PyBytes_AsStringAndSize(bytes, &copy, &length) == 0) {
    Hold(arguments, bytes);
    SetText(arg, copy, length);
    return;
  }
  PyErr_Clear();
  Py_XDECREF(bytes);
  SetText(arg, "?", 1);
}

/* Returns whether it is a NumPy scalar. Their conversions are plain arithmetic; those of other
 * libraries' numbers may wait for a device. */
static int IsNumpyScalar(PyObject* type) {
  PyObject* const module = PyObject_GetAttrString(type, "__module__");
  const int is = module != NULL && PyUnicode_Check(module) &&
                 PyUnicode_CompareWithASCIIString(module, "numpy") == 0 &&
                 !PyObject_HasAttrString(type, "__len__");
  Py_XDECREF(module);
  PyErr_Clear();
  return is;
}

static int SetNumpyScalar(struct jobscope_arg* arg, PyObject* value) {
  /* numpy.bool has an __index__ that warns. */
  PyObject* const name = PyObject_GetAttrString((PyObject*)Py_TYPE(value), "__name__");
  const int is_truth = name != NULL && PyUnicode_Check(name) &&
                       (PyUnicode_CompareWithASCIIString(name, "bool") == 0 ||
                        PyUnicode_CompareWithASCIIString(name, "bool_") == 0);
  Py_XDECREF(name);
  PyErr_Clear();
  if (is_truth) {
    SetInt64(arg, PyObject_IsTrue(value) == 1);
    return 1;
  }
  PyObject* const integer = PyIndex_Check(value) ? PyNumber_Index(value) : NULL;
  if (integer != NULL) {
    SetInteger(arg, integer);
    Py_DECREF(integer);
    return 1;
  }
  PyErr_Clear();
  PyObject* const number = PyNumber_Float(value);
  if (number == NULL) {
    PyErr_Clear();
    return 0;
  }
  SetDouble(arg, PyFloat_AsDouble(number));
  Py_DECREF(number);
  return 1;
}

static void SetOther(struct arguments* arguments, struct jobscope_arg* arg, PyObject* value) {
  if (value == Py_None) {
    SetText(arg, "None", 4);
    return;
  }
  PyObject* const type = (PyObject*)Py_TYPE(value);
  if (IsNumpyScalar(type) && SetNumpyScalar(arg, value)) return;
  PyObject* const name = PyObject_GetAttrString(type, "__name__");
  PyObject* const text =
      name != NULL && PyUnicode_Check(name) ? PyUnicode_FromFormat("<%U>", name) : NULL;
  PyErr_Clear();
  Py_XDECREF(name);
  if (text == NULL) {
    SetText(arg, "?", 1);
    return;
  }
  SetString(arguments, arg, text);
  Py_DECREF(text);
}

void TakeArguments(struct arguments* arguments, PyObject* const* values, Py_ssize_t count) {
  if (count > JOBSCOPE_MAX_KEYS) count = JOBSCOPE_MAX_KEYS;
  arguments->count = (uint32_t)count;
  arguments->held_count = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const value = values[i];
    struct jobscope_arg* const arg = &arguments->args[i];
    PyTypeObject* const type = Py_TYPE(value);
    if (LIKELY(type == &PyLong_Type) || PyLong_Check(value)) { /* bool, IntEnum */
      SetInteger(arg, value);
    } else if (type == &PyFloat_Type || PyFloat_Check(value)) { /* numpy.float64 */
      SetDouble(arg, PyFloat_AsDouble(value));
    } else if (PyUnicode_Check(value)) {
      SetString(arguments, arg, value);
    } else {
      SetOther(arguments, arg, value);
    }
  }
}

void DropArguments(struct arguments* arguments) {
  while (arguments->held_count > 0) Py_DECREF(arguments->held[--arguments->held_count]);
}

int TakeSample(PyObject* value, struct jobscope_arg* arg) {
  memset(arg, 0, sizeof(*arg));
  if (PyFloat_Check(value)) {
    SetDouble(arg, PyFloat_AsDouble(value));
    return 0;
  }
  if (PyLong_Check(value)) {
    SetInteger(arg, value);
    return 0;
  }
  PyObject* const integer = PyIndex_Check(value) ? PyNumber_Index(value) : NULL;
  if (integer != NULL) {
    SetInteger(arg, integer);
    Py_DECREF(integer);
    return 0;
  }
  PyErr_Clear();
  PyObject* const number = PyNumber_Float(value);
  if (number == NULL) return -1;
  SetDouble(arg, PyFloat_AsDouble(number));
  Py_DECREF(number);
  return 0;
}
