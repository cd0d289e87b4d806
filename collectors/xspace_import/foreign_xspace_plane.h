// SPDX-License-Identifier: Apache-2.0
//
// Copies planes without lines unchanged.
#ifndef COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_PLANE_H_
#define COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_PLANE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace jobscope::framework {

// Copies an XPlane, at most `max_bytes`, and replaces invalid UTF-8 in strings by '?': a single
// such byte would make the whole trace unreadable. Fields that do not fit are left out and counted.
// Throws protozero::exception.
std::string CopyRawPlane(std::string_view plane, size_t max_bytes, size_t* left_out);

}  // namespace jobscope::framework

#endif  // COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_PLANE_H_
