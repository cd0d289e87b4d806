/* SPDX-License-Identifier: Apache-2.0
 *
 * From names to site ids. A site is made per (name, keys, kind), with the file and line of its
 * first use. All of it runs under the GIL.
 */
#ifndef JOBSCOPE_PYTHON_SITES_H_
#define JOBSCOPE_PYTHON_SITES_H_

#include "python.h"

/* Level, bit and role of a site. */
enum site_kind {
  KIND_LEVEL1,
  KIND_LEVEL2,
  KIND_LEVEL3,
  KIND_COARSE,
  KIND_INPUT_WAIT,
  KIND_STEP,
  KIND_INSTANT,
  KIND_COUNTER,
  KIND_ASYNC,
  KIND_COUNT
};

uint32_t BitOfKind(int kind);

/* The id of the site `name` (a str) with the argument names `kwnames` (a tuple of str, or NULL).
 * Never 0 and never an exception: where the recorder's dictionary is full, that of "(dictionary
 * full)". A pointer comparison for names and key tuples that are constants of the code. Needs the
 * recorder. */
uint32_t SiteOf(PyObject* name, PyObject* kwnames, int kind);

/* The id of a site whose place is known. Not cached. */
uint32_t SiteAt(const char* name, const char* file, uint32_t line, int kind);

/* The number of names kept alive by the cache, for tests. */
PyObject* CacheInfo(PyObject* module, PyObject* unused);

int InitSites(void);

#endif
