// SPDX-License-Identifier: Apache-2.0
//
// How a worker says that its server is gone: part of the wire (docs/wire.md).
#ifndef COMMON_NET_SERVER_ENDED_H_
#define COMMON_NET_SERVER_ENDED_H_

namespace jobscope {

// The text of the UNAVAILABLE with which a server that ends, in a process that may go on, ends its
// calls. Nothing of its captures is left then: a client that reads it need not try again. Whatever
// stands between the two has other texts for UNAVAILABLE.
inline constexpr char kServerEndedText[] = "the profiler server of this process has ended";

}  // namespace jobscope

#endif  // COMMON_NET_SERVER_ENDED_H_
