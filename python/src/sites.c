/* SPDX-License-Identifier: Apache-2.0 */
#include "sites.h"

#include <string.h>

#include "recorder.h"

/* Rows of two entries. 1,024 rows hold the names of any program that does not generate names at
 * each call; for one that does, they keep the last 2,048 alive. */
#define ROWS 1024
/* A name longer than what the recorder keeps was generated, and is not cached. */
#define MAX_CACHED_NAME 127
/* Names in code and names generated at calls have a table each in the recorder, so that the latter
 * cannot displace the former: 16,384 entries, some of them for C++, and 4,096. */
#define MAX_STANDING 8192
#define MAX_MADE_UP 4096

struct entry {
  PyObject* name;    /* owned */
  PyObject* kwnames; /* owned, may be NULL */
  uint32_t kind;
  uint32_t site;
};

static struct entry cache[ROWS][2];
/* (name, keys or None, kind) -> site id: for names that are equal, but not the same object. */
static PyObject* known;
static unsigned standing_count, made_up_count;
/* (name, file, line) -> True: what the recorder distinguishes sites by. */
static PyObject* places;

static const struct {
  uint32_t bit;
  uint32_t role;
  const char* word;
} kinds[KIND_COUNT] = {
    {JOBSCOPE_BIT_LEVEL1, JOBSCOPE_ROLE_SCOPE, "level 1"},
    {JOBSCOPE_BIT_LEVEL2, JOBSCOPE_ROLE_SCOPE, "level 2"},
    {JOBSCOPE_BIT_LEVEL3, JOBSCOPE_ROLE_SCOPE, "level 3"},
    {JOBSCOPE_BIT_COARSE, JOBSCOPE_ROLE_SCOPE, "coarse"},
    {JOBSCOPE_BIT_INPUT_WAIT, JOBSCOPE_ROLE_INPUT_WAIT, "input wait"},
    {JOBSCOPE_BIT_STEP, JOBSCOPE_ROLE_STEP, "step"},
    {JOBSCOPE_BIT_LEVEL1, JOBSCOPE_ROLE_INSTANT, "instant"},
    {JOBSCOPE_BIT_LEVEL1, JOBSCOPE_ROLE_COUNTER, "counter"},
    {JOBSCOPE_BIT_LEVEL1, JOBSCOPE_ROLE_ASYNC, "async level 1"},
    {JOBSCOPE_BIT_LEVEL2, JOBSCOPE_ROLE_ASYNC, "async level 2"},
    {JOBSCOPE_BIT_LEVEL3, JOBSCOPE_ROLE_ASYNC, "async level 3"},
};

uint32_t BitOfKind(int kind) { return kinds[kind].bit; }

/* Returns the UTF-8 of a str, with '?' for what cannot be encoded. *owner, if not NULL, keeps the
 * text alive; otherwise the str does. */
static const char* TextOf(PyObject* string, PyObject** owner) {
  *owner = NULL;
  const char* const text = PyUnicode_AsUTF8AndSize(string, NULL);
  if (text != NULL) return text;
  PyErr_Clear();
  *owner = PyUnicode_AsEncodedString(string, "utf-8", "replace");
  const char* const replaced = *owner != NULL ? PyBytes_AsString(*owner) : NULL;
  PyErr_Clear();
  return replaced != NULL ? replaced : "?";
}

static uint32_t Register(PyObject* name, PyObject* kwnames, int kind, const char* file,
                         uint32_t line, int made_up) {
  PyObject* owners[1 + JOBSCOPE_MAX_KEYS] = {NULL};
  const char* keys[JOBSCOPE_MAX_KEYS];
  Py_ssize_t key_count = kwnames != NULL ? PyTuple_Size(kwnames) : 0;
  if (key_count > JOBSCOPE_MAX_KEYS) key_count = JOBSCOPE_MAX_KEYS;
  for (Py_ssize_t i = 0; i < key_count; ++i) {
    keys[i] = TextOf(PyTuple_GetItem(kwnames, i), &owners[1 + i]);
  }
  struct jobscope_site site = {
      .size = sizeof(site),
      .name = TextOf(name, &owners[0]),
      .category = "",
      .file = file,
      .line = line,
      .bit = kinds[kind].bit,
      .role = kinds[kind].role,
  };
  const uint32_t id = made_up ? jobscope_py_writer->find_site(&site, keys, (uint32_t)key_count)
                              : jobscope_py_writer->register_site(&site, keys, (uint32_t)key_count);
  for (size_t i = 0; i < sizeof(owners) / sizeof(owners[0]); ++i) Py_XDECREF(owners[i]);
  return id;
}

uint32_t SiteAt(const char* name, const char* file, uint32_t line, int kind) {
  struct jobscope_site site = {
      .size = sizeof(site),
      .name = name,
      .category = "",
      .file = file,
      .line = line,
      .bit = kinds[kind].bit,
      .role = kinds[kind].role,
  };
  return jobscope_py_writer->register_site(&site, NULL, 0);
}

/* Returns whether the frame runs code of this package, such as jobscope.steps. */
static int IsOurs(PyObject* frame) {
  PyObject* const globals = PyObject_GetAttrString(frame, "f_globals");
  PyObject* const package = globals != NULL && PyDict_Check(globals)
                                ? PyDict_GetItemString(globals, "__package__")
                                : NULL;
  const int is = package != NULL && PyUnicode_Check(package) &&
                 PyUnicode_CompareWithASCIIString(package, "jobscope") == 0;
  Py_XDECREF(globals);
  PyErr_Clear();
  return is;
}

/* Returns the frame (new reference) of the code that called this package; the innermost one if
 * there is no other. NULL without an exception. */
static PyObject* CallersFrame(void) {
  PyObject* const innermost = (PyObject*)PyEval_GetFrame();
  PyObject* frame = innermost;
  Py_XINCREF(frame);
  while (frame != NULL && frame != Py_None && IsOurs(frame)) {
    PyObject* const outer = PyObject_GetAttrString(frame, "f_back");
    Py_DECREF(frame);
    frame = outer;
  }
  if (frame != NULL && frame != Py_None) return frame;
  PyErr_Clear();
  Py_XDECREF(frame);
  Py_XINCREF(innermost);
  return innermost;
}

/* Returns file (new reference) and line of the calling Python code. NULL without an exception. */
static PyObject* CallersFile(uint32_t* line) {
  PyObject* const frame = CallersFrame();
  if (frame == NULL) return NULL;
  *line = (uint32_t)PyFrame_GetLineNumber((PyFrameObject*)frame);
  PyCodeObject* const code = PyFrame_GetCode((PyFrameObject*)frame);
  Py_DECREF(frame);
  PyObject* const file = PyObject_GetAttrString((PyObject*)code, "co_filename");
  Py_DECREF(code);
  if (file != NULL && PyUnicode_Check(file)) return file;
  Py_XDECREF(file);
  PyErr_Clear();
  return NULL;
}

/* Changes the file if the name and place have been seen with other keys or another kind: otherwise
 * the recorder would take the two for one site, and show the first one's keys with the second one's
 * values. */
static PyObject* DistinctFile(PyObject* name, PyObject* kwnames, int kind, PyObject* file,
                              uint32_t line) {
  PyObject* const place = Py_BuildValue("(OOI)", name, file, (unsigned)line);
  PyObject* distinct = NULL;
  if (place != NULL && PyDict_GetItemWithError(places, place) == NULL) {
    if (!PyErr_Occurred() && PyDict_SetItem(places, place, Py_True) == 0) {
      Py_INCREF(file);
      distinct = file;
    }
  } else if (place != NULL) {
    distinct = PyUnicode_FromFormat("%U (%s %R)", file, kinds[kind].word,
                                    kwnames != NULL ? kwnames : Py_None);
  }
  Py_XDECREF(place);
  return distinct;
}

static uint32_t RegisterHere(PyObject* name, PyObject* kwnames, int kind, int made_up) {
  uint32_t line = 0;
  PyObject* const file = CallersFile(&line);
  PyObject* const distinct = file != NULL ? DistinctFile(name, kwnames, kind, file, line) : NULL;
  PyErr_Clear();
  PyObject* owner = NULL;
  const uint32_t id = Register(name, kwnames, kind,
                               distinct != NULL ? TextOf(distinct, &owner) : "", line, made_up);
  Py_XDECREF(owner);
  Py_XDECREF(distinct);
  Py_XDECREF(file);
  return id;
}

/* Returns whether the name was generated for the call: then only the call holds it. A generated
 * name that a variable holds counts as one in code: there is space for thousands of them. */
static int IsMadeUp(PyObject* name) { return Py_REFCNT(name) == 1; }

/* Searches by content. */
static uint32_t FindKnown(PyObject* name, PyObject* kwnames, int kind) {
  const int made_up = IsMadeUp(name);
  PyObject* const key = Py_BuildValue("(OOi)", name, kwnames != NULL ? kwnames : Py_None, kind);
  PyObject* const found = key != NULL ? PyDict_GetItemWithError(known, key) : NULL;
  uint32_t id = 0;
  if (found != NULL) {
    id = (uint32_t)PyLong_AsUnsignedLong(found);
  } else {
    PyErr_Clear();
    if (made_up ? made_up_count >= MAX_MADE_UP : standing_count >= MAX_STANDING) {
      /* The recorder refuses and counts it. */
      id = Register(name, kwnames, kind, "", 0, /*made_up=*/1);
    } else {
      ++*(made_up ? &made_up_count : &standing_count);
      id = RegisterHere(name, kwnames, kind, made_up);
      PyObject* const value = key != NULL ? PyLong_FromUnsignedLong(id) : NULL;
      if (value != NULL) PyDict_SetItem(known, key, value);
      Py_XDECREF(value);
    }
  }
  Py_XDECREF(key);
  PyErr_Clear();
  return id;
}

static void Keep(struct entry row[2], PyObject* name, PyObject* kwnames, int kind, uint32_t site) {
  if (PyUnicode_GetLength(name) > MAX_CACHED_NAME) return;
  /* The newest entry is first; the older one is replaced. */
  const struct entry old = row[1];
  row[1] = row[0];
  Py_INCREF(name);
  Py_XINCREF(kwnames);
  row[0] = (struct entry){name, kwnames, (uint32_t)kind, site};
  /* Last: it may free objects, and code called by that must find a consistent row. */
  Py_XDECREF(old.name);
  Py_XDECREF(old.kwnames);
}

static inline int Is(const struct entry* entry, PyObject* name, PyObject* kwnames, int kind) {
  return entry->name == name && entry->kwnames == kwnames && entry->kind == (uint32_t)kind;
}

uint32_t SiteOf(PyObject* name, PyObject* kwnames, int kind) {
  const uintptr_t mixed =
      ((uintptr_t)name >> 4) ^ ((uintptr_t)kwnames >> 3) ^ ((uintptr_t)kind << 5);
  struct entry* const row = cache[(mixed ^ (mixed >> 10)) & (ROWS - 1)];
  if (LIKELY(Is(&row[0], name, kwnames, kind))) return row[0].site;
  if (LIKELY(Is(&row[1], name, kwnames, kind))) return row[1].site;
  const uint32_t site = FindKnown(name, kwnames, kind);
  Keep(row, name, kwnames, kind, site);
  return site;
}

PyObject* CacheInfo(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  Py_ssize_t kept = 0;
  for (size_t row = 0; row < ROWS; ++row) {
    for (size_t i = 0; i < 2; ++i) kept += cache[row][i].name != NULL;
  }
  return Py_BuildValue("{s:n,s:n,s:n}", "kept_names", kept, "known_sites", PyDict_Size(known),
                       "places", PyDict_Size(places));
}

int InitSites(void) {
  if (known != NULL) return 0;
  known = PyDict_New();
  places = PyDict_New();
  return known != NULL && places != NULL ? 0 : -1;
}
