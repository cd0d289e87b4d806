// SPDX-License-Identifier: Apache-2.0
//
// Names the recorder's reader table: the struct shares its name with the function that returns it,
// and the function hides the struct.
#ifndef COLLECTORS_HOST_ENCODING_READER_H_
#define COLLECTORS_HOST_ENCODING_READER_H_

#include "collectors/host/recorder/reader_abi.h"

namespace jobscope::host {

using Reader = struct ::jobscope_trace_reader;

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_ENCODING_READER_H_
