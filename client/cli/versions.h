// SPDX-License-Identifier: Apache-2.0
//
// Versions of the libraries that this program was linked with.
#ifndef CLIENT_CLI_VERSIONS_H_
#define CLIENT_CLI_VERSIONS_H_

#include <string>

namespace jobscope {

// One line per library, "name version", this program first. Asked of the libraries themselves where
// they tell; abseil tells only its headers' version.
std::string LinkedVersions();

}  // namespace jobscope

#endif  // CLIENT_CLI_VERSIONS_H_
