// SPDX-License-Identifier: Apache-2.0
#include "common/net/address_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<std::vector<std::string>> NoNames(const std::string& name) {
  return absl::UnavailableError(absl::StrCat("cannot resolve ", name));
}

// The addresses, or the error's text.
std::vector<std::string> Parse(const std::string& list, const Resolver& resolver = NoNames) {
  const absl::StatusOr<std::vector<Endpoint>> endpoints = ParseAddressList(list, resolver);
  if (!endpoints.ok()) return {absl::StrCat("error: ", std::string(endpoints.status().message()))};
  std::vector<std::string> addresses;
  for (const Endpoint& endpoint : *endpoints) addresses.push_back(endpoint.address);
  return addresses;
}

TEST(AddressList, Commas) {
  EXPECT_THAT(Parse("a:1,grpc://b:2, [::1]:3 ,unix:/x"),
              ElementsAre("a:1", "b:2", "[::1]:3", "unix:/x"));
  EXPECT_THAT(Parse(""), ElementsAre(HasSubstr("no address")));
  EXPECT_THAT(Parse(" "), ElementsAre(HasSubstr("no address")));
  EXPECT_THAT(Parse("a:1,"), ElementsAre(HasSubstr("empty address")));
  EXPECT_THAT(Parse(",a:1"), ElementsAre(HasSubstr("empty address")));
}

TEST(AddressList, HostLists) {
  EXPECT_THAT(Parse("n[1-3,7]:6009,x:1"),
              ElementsAre("n1:6009", "n2:6009", "n3:6009", "n7:6009", "x:1"));
  EXPECT_THAT(Parse("grpc://n[1-2]:1"), ElementsAre("n1:1", "n2:1"));
  EXPECT_THAT(Parse("n[3-1]:1"), ElementsAre(AllOf(HasSubstr("n[3-1]:1"), HasSubstr("backwards"))));
  EXPECT_THAT(Parse("n[1-2:1"), ElementsAre(HasSubstr("cannot be part")));
  EXPECT_THAT(Parse("n[1-10000]:1,m[1-10000]:1"), ElementsAre(HasSubstr("more than 16384")));
  EXPECT_THAT(Parse("h:[65535-65536]"), ElementsAre(HasSubstr("65536")));
}

TEST(AddressList, DuplicatesAreNamed) {
  EXPECT_THAT(Parse("a:1,b:1,A:1"), ElementsAre(HasSubstr("A:1 was already given")));
  EXPECT_THAT(Parse("n[1-3]:1,n2:1"), ElementsAre(HasSubstr("n2:1 was already given")));
  EXPECT_THAT(Parse("n[1,1]:1"), ElementsAre(HasSubstr("n1:1 was already given")));
  EXPECT_THAT(Parse("[::1]:1,[0::1]:1"), ElementsAre(HasSubstr("already given")));
}

TEST(AddressList, Names) {
  std::string asked;
  const Resolver resolver = [&asked](const std::string& name) {
    asked = name;
    return std::vector<std::string>{"10.0.0.2", "fd00::1"};
  };
  EXPECT_THAT(Parse("dns:///workers.ml:6009", resolver),
              ElementsAre("10.0.0.2:6009", "[fd00::1]:6009"));
  EXPECT_EQ(asked, "workers.ml");
  EXPECT_THAT(Parse("dns:///x:1", NoNames), ElementsAre(HasSubstr("cannot resolve x")));
  EXPECT_EQ(ParseAddressList("dns:///x:1", NoNames).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_THAT(Parse("dns:x:1", resolver), ElementsAre(HasSubstr("dns:///name:port")));
  EXPECT_THAT(Parse("dns:///x", resolver), ElementsAre(HasSubstr("port is missing")));
  EXPECT_THAT(Parse("dns:///unix:/x", resolver), ElementsAre(HasSubstr("dns:///name:port")));
  const Resolver nobody = [](const std::string&) { return std::vector<std::string>{}; };
  EXPECT_THAT(Parse("dns:///x:1", nobody), ElementsAre(HasSubstr("no address found")));
}

TEST(AddressList, Files) {
  const TemporaryDirectory directory;
  const std::string path =
      directory.Write("hosts", "# the job\n a:1 # first\n\n\tn[1-2]:2\r\nb:1,c:1\nunix:/x\n");
  EXPECT_THAT(Parse("@" + path), ElementsAre("a:1", "n1:2", "n2:2", "b:1", "c:1", "unix:/x"));
  EXPECT_THAT(Parse("z:1,@" + path).front(), "z:1");
  EXPECT_THAT(Parse("a:1,@" + path), ElementsAre(AllOf(HasSubstr("a:1"), HasSubstr("line 2"),
                                                       HasSubstr("already given"))));
  const std::string bad = directory.Write("bad", "a:1\nb\n");
  EXPECT_THAT(Parse("@" + bad), ElementsAre(AllOf(HasSubstr("'b'"), HasSubstr("bad line 2"))));
  const std::string nested = directory.Write("nested", "@" + path);
  EXPECT_THAT(Parse("@" + nested), ElementsAre(HasSubstr("cannot name another file")));
  const std::string empty = directory.Write("empty", "# nobody\n");
  EXPECT_THAT(Parse("@" + empty), ElementsAre(HasSubstr("holds no address")));
  EXPECT_THAT(Parse("@/no/such/file"), ElementsAre(HasSubstr("No such file")));
  EXPECT_THAT(Parse("@"), ElementsAre(HasSubstr("without a file")));
  const std::string huge = directory.Write("huge", std::string((1 << 20) + 1, '#'));
  EXPECT_THAT(Parse("@" + huge), ElementsAre(HasSubstr("more than 1048576 bytes")));
}

TEST(AddressList, PortDirectories) {
  const TemporaryDirectory directory;
  directory.Write("10.addr", "h:10\n");
  directory.Write("2.addr", "h:2\n");
  directory.Write("x.addr", "h:99\n");
  directory.Write("1a.addr", "h:98\n");
  directory.Write("3.addr.tmp", "h:3\n");
  directory.Write("README", "not an address\n");
  EXPECT_THAT(Parse("@" + directory.path()), ElementsAre("h:2", "h:10", "h:98", "h:99"));
  const TemporaryDirectory empty;
  EXPECT_THAT(Parse("@" + empty.path()), ElementsAre(HasSubstr("JOBSCOPE_PORT_DIR")));
}

// A killed worker leaves its file; the one that replaces it has another pid and the same port.
TEST(AddressList, EqualAddressesInAPortDirectoryAreOneWorker) {
  const TemporaryDirectory directory;
  const std::string& path = directory.path();
  directory.Write("a-1.addr", "h:1\n");
  directory.Write("a-2.addr", "H:1\n");
  EXPECT_THAT(Parse("@" + path), ElementsAre("h:1"));
  directory.Write("a-3.addr", "h:3\n");
  EXPECT_THAT(Parse("@" + path), ElementsAre("h:1", "h:3"));
  const auto given_twice = ElementsAre(AllOf(HasSubstr("h:1"), HasSubstr("was already given")));
  EXPECT_THAT(Parse("h:1,@" + path), given_twice);
  EXPECT_THAT(Parse("@" + path + ",h:1"), given_twice);
  EXPECT_THAT(Parse("@" + path + ",@" + path), given_twice);
}

// On two hosts, each worker may have the loopback address of one of the other host.
TEST(AddressList, EqualAddressesInAPortDirectoryAreNoted) {
  const TemporaryDirectory directory;
  const auto notes_of = [&directory] {
    std::vector<std::string> notes;
    EXPECT_TRUE(ParseAddressList("z:1,@" + directory.path(), NoNames, &notes).ok());
    return notes;
  };
  for (int rank = 0; rank < 4; ++rank) {
    directory.Write(absl::StrCat(rank, ".addr"), absl::StrCat("127.0.0.1:", 6009 + rank, "\n"));
  }
  EXPECT_THAT(notes_of(), ElementsAre());
  // Within one file, which no other worker wrote.
  directory.Write("0.addr", "127.0.0.1:6009\n127.0.0.1:6009\n");
  EXPECT_THAT(notes_of(), ElementsAre());
  for (int rank = 4; rank < 6; ++rank) {
    directory.Write(absl::StrCat(rank, ".addr"), absl::StrCat("127.0.0.1:", 6005 + rank, "\n"));
  }
  EXPECT_THAT(notes_of(),
              ElementsAre(AllOf(HasSubstr(directory.path()), HasSubstr(": 4.addr, 5.addr. "),
                                HasSubstr("run capture there"))));
  for (int i = 10; i < 20; ++i) directory.Write(absl::StrCat(i, ".addr"), "127.0.0.1:6009\n");
  EXPECT_THAT(notes_of(), ElementsAre(HasSubstr("15.addr and 4 more. ")));
}

// A worker that ends while its directory is read removes its file.
TEST(AddressList, FilesThatAreGoneArePassedOver) {
  const TemporaryDirectory directory;
  directory.Write("1.addr", "dns:///job:1\n");
  const std::string ended = directory.Write("2.addr", "h:2\n");
  directory.Write("3.addr", "h:3\n");
  const Resolver ends = [&ended](const std::string&) {
    EXPECT_EQ(unlink(ended.c_str()), 0);
    return std::vector<std::string>{"10.0.0.1"};
  };
  EXPECT_THAT(Parse("@" + directory.path(), ends), ElementsAre("10.0.0.1:1", "h:3"));
}

// Others may write to a port directory: nothing in it may keep the client waiting.
TEST(AddressList, WhatIsPlantedInAPortDirectoryIsNamed) {
  const TemporaryDirectory directory;
  directory.Write("1.addr", "h:1\n");
  const std::string fifo = directory.path() + "/2.addr";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0666), 0);
  EXPECT_THAT(Parse("@" + directory.path()),
              ElementsAre(AllOf(HasSubstr(fifo), HasSubstr("not a regular file"))));
  ASSERT_EQ(unlink(fifo.c_str()), 0);
  ASSERT_EQ(symlink("/dev/zero", fifo.c_str()), 0);
  EXPECT_THAT(Parse("@" + directory.path()),
              ElementsAre(AllOf(HasSubstr(fifo), HasSubstr("symbolic link"))));
  // A list that the user names may be a link, or a pipe.
  const std::string link = directory.path() + "/hosts";
  ASSERT_EQ(symlink("1.addr", link.c_str()), 0);
  EXPECT_THAT(Parse("@" + link), ElementsAre("h:1"));
}

}  // namespace
}  // namespace jobscope
