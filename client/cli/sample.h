// SPDX-License-Identifier: Apache-2.0
//
// Some of many workers, when all would be too much to look at.
#ifndef CLIENT_CLI_SAMPLE_H_
#define CLIENT_CLI_SAMPLE_H_

#include <cstddef>
#include <vector>

#include "common/net/endpoint.h"

namespace jobscope {

// The indices of `count` endpoints, ascending; all, if there are no more. Spread over hosts: no
// host gives a second one before each has given one, and of more hosts than `count` those taken lie
// evenly in the order of the list. The same list gives the same sample.
std::vector<size_t> SpreadSample(const std::vector<Endpoint>& endpoints, size_t count);

}  // namespace jobscope

#endif  // CLIENT_CLI_SAMPLE_H_
