// SPDX-License-Identifier: Apache-2.0
//
// Formats the address of an accepted connection as the peer of its requests.
#ifndef SERVER_LISTEN_PEER_TEXT_H_
#define SERVER_LISTEN_PEER_TEXT_H_

#include <sys/socket.h>

#include <string>

namespace jobscope {

// Formats an address like gRPC's peer text after ReadablePeer: "127.0.0.1:40123",
// "[fe80::1%2]:40123". Empty for a unix socket, whose callers have no name.
std::string PeerText(const sockaddr_storage& address);

}  // namespace jobscope

#endif  // SERVER_LISTEN_PEER_TEXT_H_
