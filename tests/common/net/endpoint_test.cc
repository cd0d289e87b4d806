// SPDX-License-Identifier: Apache-2.0
#include "common/net/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"

namespace jobscope {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

struct Good {
  const char* text;
  const char* address;
  const char* target;
  const char* stem;
};

class GoodAddress : public ::testing::TestWithParam<Good> {};

TEST_P(GoodAddress, IsParsed) {
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(GetParam().text);
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  EXPECT_EQ(endpoint->address, GetParam().address);
  EXPECT_EQ(endpoint->target, GetParam().target);
  EXPECT_EQ(FileStem(*endpoint), GetParam().stem);
}

INSTANTIATE_TEST_SUITE_P(
    Table, GoodAddress,
    ::testing::Values(
        Good{"w1:6009", "w1:6009", "dns:///w1:6009", "w1_6009"},
        Good{"grpc://w1:6009", "w1:6009", "dns:///w1:6009", "w1_6009"},
        Good{"W1.example.com:1", "W1.example.com:1", "dns:///W1.example.com:1", "W1.example.com_1"},
        Good{"a_b-c:65535", "a_b-c:65535", "dns:///a_b-c:65535", "a_b-c_65535"},
        Good{"h:06009", "h:6009", "dns:///h:6009", "h_6009"},
        Good{"127.0.0.1:80", "127.0.0.1:80", "ipv4:127.0.0.1:80", "127.0.0.1_80"},
        Good{"[::1]:80", "[::1]:80", "ipv6:[::1]:80", "__1_80"},
        Good{"grpc://[0:0::1]:80", "[::1]:80", "ipv6:[::1]:80", "__1_80"},
        Good{"[fe80::1%eth0]:7", "[fe80::1%eth0]:7", "ipv6:[fe80::1%25eth0]:7", "fe80__1_eth0_7"},
        Good{"unix:/run/w.sock", "unix:/run/w.sock", "unix:/run/w.sock", "unix_run_w.sock"},
        Good{"unix:///run/w.sock", "unix:/run/w.sock", "unix:/run/w.sock", "unix_run_w.sock"},
        Good{".h:1", ".h:1", "dns:///.h:1", "_h_1"}));

struct Bad {
  const char* text;
  const char* why;
};

class BadAddress : public ::testing::TestWithParam<Bad> {};

TEST_P(BadAddress, IsRefusedByName) {
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(GetParam().text);
  ASSERT_FALSE(endpoint.ok()) << endpoint->address;
  EXPECT_EQ(endpoint.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(endpoint.status().message()), HasSubstr(GetParam().text));
  EXPECT_THAT(std::string(endpoint.status().message()), HasSubstr(GetParam().why));
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadAddress,
    ::testing::Values(Bad{"", "empty"}, Bad{"grpc://", "empty"}, Bad{"host", "port is missing"},
                      Bad{"127.0.0.1", "port is missing"}, Bad{"host:", "1 to 65535"},
                      Bad{"host:0", "1 to 65535"}, Bad{"host:65536", "1 to 65535"},
                      Bad{"host:70000", "1 to 65535"}, Bad{"host:-1", "1 to 65535"},
                      Bad{"host:+1", "1 to 65535"}, Bad{"host: 1", "1 to 65535"},
                      Bad{"host:99999999999999999999", "1 to 65535"}, Bad{"h:abc", "1 to 65535"},
                      Bad{":6009", "host is missing"}, Bad{"-h:1", "does not begin"},
                      Bad{"h ost:1", "cannot be part"}, Bad{"h/x:1", "cannot be part"},
                      Bad{"::1:6009", "brackets"}, Bad{"[::1]", "port is missing"},
                      Bad{"[::1]6009", "port is missing"}, Bad{"[::1:6009", "not closed"},
                      Bad{"[::g]:1", "not an IPv6 address"}, Bad{"[1.2.3.4]:1", "not an IPv6"},
                      Bad{"[fe80::1%]:1", "not an IPv6"}, Bad{"http://h:1", "unknown scheme"},
                      Bad{"unix:run/w", "absolute path"}, Bad{"unix:", "absolute path"},
                      Bad{"unix:/", "absolute path"}, Bad{"unix:/a b", "blanks"},
                      Bad{"grpc://grpc://h:1", "unknown scheme"}));

TEST(Endpoint, LongOnesAreRefused) {
  EXPECT_FALSE(ParseEndpoint(std::string(254, 'a') + ":1").ok());
  EXPECT_TRUE(ParseEndpoint(std::string(253, 'a') + ":1").ok());
  EXPECT_FALSE(ParseEndpoint("unix:/" + std::string(107, 'a')).ok());
  EXPECT_TRUE(ParseEndpoint("unix:/" + std::string(106, 'a')).ok());
  EXPECT_FALSE(ParseEndpoint(std::string(1 << 20, '[')).ok());
}

TEST(Endpoint, TwoSpellingsHaveOneKey) {
  EXPECT_EQ(ParseEndpoint("HOST:7")->key, ParseEndpoint("host:007")->key);
  EXPECT_EQ(ParseEndpoint("[::1]:7")->key, ParseEndpoint("[0:0:0::1]:7")->key);
  EXPECT_NE(ParseEndpoint("host:7")->key, ParseEndpoint("host:8")->key);
}

TEST(Endpoint, ANulByteDoesNotHideTheRest) {
  EXPECT_FALSE(ParseEndpoint(std::string("[::1\0x]:1", 9)).ok());
  EXPECT_FALSE(ParseEndpoint(std::string("h\0x:1", 5)).ok());
}

TEST(FileStems, AreUnique) {
  std::vector<Endpoint> endpoints;
  for (const char* text : {"[::1]:6009", "__1:6009", "A:1", "a:2", "unix:/a", "unix:/a_2",
                           "unix:/x/y", "unix:/x_y", "unix:/X_y"}) {
    endpoints.push_back(*ParseEndpoint(text));
  }
  EXPECT_THAT(FileStems(endpoints),
              ::testing::ElementsAre("__1_6009", "__1_6009-2", "A_1", "a_2", "unix_a", "unix_a_2",
                                     "unix_x_y", "unix_x_y-2", "unix_X_y-3"));
}

// Whatever comes in: no crash, and what is accepted keeps the promises that files and gRPC rely on.
TEST(Endpoint, AnyBytesAreSafe) {
  std::minstd_rand random(20'26);
  static constexpr char kAlphabet[] = "ab1:[]/%.-_@, \0\xff\n0965unix:grpc://dns:";
  const std::string alphabet(kAlphabet, sizeof(kAlphabet) - 1);
  for (int round = 0; round < 200'000; ++round) {
    std::string text;
    const size_t size = random() % 24;
    for (size_t i = 0; i < size; ++i) text += alphabet[random() % alphabet.size()];
    const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(text);
    if (!endpoint.ok()) continue;
    const std::string stem = FileStem(*endpoint);
    EXPECT_THAT(stem, MatchesRegex("[A-Za-z0-9_][A-Za-z0-9._-]*")) << text;
    EXPECT_LE(stem.size(), 128u);
    const absl::StatusOr<Endpoint> again = ParseEndpoint(endpoint->address);
    ASSERT_TRUE(again.ok()) << endpoint->address;
    EXPECT_EQ(again->key, endpoint->key);
  }
}

}  // namespace
}  // namespace jobscope
