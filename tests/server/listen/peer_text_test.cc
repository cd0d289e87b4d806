// SPDX-License-Identifier: Apache-2.0
#include "server/listen/peer_text.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include "server/rpc/peer.h"

namespace jobscope {
namespace {

sockaddr_storage Ipv6(const char* host, uint32_t scope) {
  sockaddr_storage address = {};
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(40123);
  v6.sin6_scope_id = scope;
  EXPECT_EQ(inet_pton(AF_INET6, host, &v6.sin6_addr), 1);
  return address;
}

TEST(PeerText, IsThatOfGrpc) {
  EXPECT_EQ(PeerText(Ipv6("::1", 0)), ReadablePeer("ipv6:%5B::1%5D:40123"));
  EXPECT_EQ(PeerText(Ipv6("::ffff:10.0.0.3", 0)), ReadablePeer("ipv4:10.0.0.3:40123"));
  EXPECT_EQ(PeerText(Ipv6("fe80::1", 2)), "[fe80::1%2]:40123");
  EXPECT_EQ(ReadablePeer("ipv6:%5Bfe80::1%252%5D:40123"), "[fe80::1%2]:40123");
}

}  // namespace
}  // namespace jobscope
