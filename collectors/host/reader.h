// SPDX-License-Identifier: Apache-2.0
//
// The recorder's reader table under a name of its own: the struct shares one with the function that
// returns it, and a function hides a struct.
#ifndef COLLECTORS_HOST_READER_H_
#define COLLECTORS_HOST_READER_H_

#include "collectors/host/recorder/reader_abi.h"

namespace jobscope::host {

using Reader = struct ::jobscope_trace_reader;

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_READER_H_
