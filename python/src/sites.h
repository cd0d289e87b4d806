/* SPDX-License-Identifier: Apache-2.0
 *
 * Maps names to site ids. A site is made per (name, keys, kind), with the file and line of its
 * first use. All functions require the GIL.
 */
#ifndef JOBSCOPE_PYTHON_SITES_H_
#define JOBSCOPE_PYTHON_SITES_H_

#include "python.h"

/* Determines level, bit and role of a site. */
enum site_kind {
  KIND_LEVEL1,
  KIND_LEVEL2,
  KIND_LEVEL3,
  KIND_COARSE,
  KIND_INPUT_WAIT,
  KIND_STEP,
  KIND_INSTANT,
  KIND_COUNTER,
  KIND_ASYNC_LEVEL1,
  KIND_ASYNC_LEVEL2,
  KIND_ASYNC_LEVEL3,
  KIND_COUNT
};

uint32_t BitOfKind(int kind);

/* Returns the id of the site `name` (a str) with the argument names `kwnames` (a tuple of str, or
 * NULL). Never 0 and never an exception: if the recorder's dictionary is full, that of "(dictionary
 * full)". Costs a pointer comparison for names and key tuples that are constants of the code.
 * Requires the recorder. */
uint32_t SiteOf(PyObject* name, PyObject* kwnames, int kind);

/* Returns the id of a site whose place is known. Not cached. */
uint32_t SiteAt(const char* name, const char* file, uint32_t line, int kind);

/* Returns the number of names that the cache keeps alive, for tests. */
PyObject* CacheInfo(PyObject* module, PyObject* unused);

int InitSites(void);

#endif
