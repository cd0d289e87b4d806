// SPDX-License-Identifier: Apache-2.0
//
// Formats the lines below a table: what workers report, and what people can do about it.
#ifndef CLIENT_TERMINAL_NOTES_H_
#define CLIENT_TERMINAL_NOTES_H_

#include <string>

#include "common/run/manifest.h"

namespace jobscope {

// Makes one line of a foreign text, short enough for a table.
std::string Cell(const std::string& text);

// Returns lines such as "error of w1:6009 and 3 more: ...": errors, warnings and hints. Texts of
// several workers that differ only in numbers appear once. A worker's further texts of the same
// form (GPU 0, GPU 1) are texts of their own. `with_collectors`: also "collectors of w1:6009 and 3
// more: host on; gc on", which must be equal; `verbose`: with those that have nothing to record.
std::string Notes(const Manifest& manifest, bool with_collectors = false, bool verbose = false);

}  // namespace jobscope

#endif  // CLIENT_TERMINAL_NOTES_H_
