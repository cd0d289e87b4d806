// SPDX-License-Identifier: Apache-2.0
//
// Planes without lines, which are copied as they came.
#ifndef COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_PLANE_H_
#define COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_PLANE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace jobscope::framework {

// A copy of an XPlane of at most `max_bytes`, in which bytes of strings that are not UTF-8 are
// replaced by '?': one of them would make the whole trace unreadable. Fields that do not fit are
// left out and counted. Throws protozero::exception.
std::string CopyRawPlane(std::string_view plane, size_t max_bytes, size_t* left_out);

}  // namespace jobscope::framework

#endif  // COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_PLANE_H_
