// SPDX-License-Identifier: Apache-2.0
//
// Reports the versions of the libraries that this program was linked with.
#ifndef CLIENT_CLI_VERSIONS_H_
#define CLIENT_CLI_VERSIONS_H_

#include <string>

namespace jobscope {

// Returns one line per library, "name version", this program first. The libraries themselves report
// their versions if they can; abseil reports only that of its headers.
std::string LinkedVersions();

}  // namespace jobscope

#endif  // CLIENT_CLI_VERSIONS_H_
