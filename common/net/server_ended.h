// SPDX-License-Identifier: Apache-2.0
//
// Defines how a worker reports that its server has ended: part of the wire format (docs/wire.md).
#ifndef COMMON_NET_SERVER_ENDED_H_
#define COMMON_NET_SERVER_ENDED_H_

namespace jobscope {

// The text of the UNAVAILABLE that a shut-down server returns to its calls while the process may go
// on. Its captures are gone: a client that reads this text need not retry. Proxies between the two
// use other texts for UNAVAILABLE.
inline constexpr char kServerEndedText[] = "the profiler server of this process has ended";

}  // namespace jobscope

#endif  // COMMON_NET_SERVER_ENDED_H_
