// SPDX-License-Identifier: Apache-2.0
//
// Chooses a sample of many workers.
#ifndef CLIENT_CLI_SAMPLE_H_
#define CLIENT_CLI_SAMPLE_H_

#include <cstddef>
#include <vector>

#include "common/net/endpoint.h"

namespace jobscope {

// Returns the indices of `count` endpoints, ascending; all if there are no more. Spread over hosts:
// no host contributes a second endpoint before each has contributed one, and with more hosts than
// `count`, the chosen ones are evenly spaced in the list. The same list gives the same sample.
std::vector<size_t> SpreadSample(const std::vector<Endpoint>& endpoints, size_t count);

}  // namespace jobscope

#endif  // CLIENT_CLI_SAMPLE_H_
