// SPDX-License-Identifier: Apache-2.0
//
// Lists of workers, as they are typed, and the files and port directories that they name: no crash,
// no endless expansion; what is accepted is unique, also as file names. The input is three texts,
// separated by zero bytes: the list, a file of addresses, a worker's port file. A name behind "@"
// begins with what it is: the file, the port directory ("p"), a directory without files ("d"), or
// nothing ("n").
#include <arpa/inet.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/net/address_list.h"
#include "common/net/endpoint.h"
#include "tests/fuzz_input.h"
#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

// Files of this fuzzer, whatever the list says.
std::string NameFiles(const std::string& list, const std::string& directory) {
  std::string named;
  for (size_t i = 0; i < list.size(); ++i) {
    named += list[i];
    if (list[i] != '@') continue;
    if (i + 1 == list.size() || list[i + 1] == ',') break;
    const char kind = list[i + 1];
    named += directory + (kind == 'p'   ? "/ports"
                          : kind == 'd' ? ""
                          : kind == 'n' ? "/no"
                                        : "/file");
    while (i + 1 < list.size() && list[i + 1] != ',') ++i;
  }
  return named;
}

// Asks the system only for what needs no name service.
absl::StatusOr<std::vector<std::string>> Resolve(const std::string& name) {
  in6_addr address;
  if (name[0] == 'n') return std::vector<std::string>();
  if (name[0] == 'u') return absl::UnavailableError("unknown");
  if (inet_pton(AF_INET, name.c_str(), &address) == 1 ||
      inet_pton(AF_INET6, name.c_str(), &address) == 1) {
    return ResolveWithSystem(name);
  }
  return std::vector<std::string>{"10.0.0.1", "fd00::1", name};
}

void Check(const std::vector<Endpoint>& endpoints) {
  Require(!endpoints.empty() && endpoints.size() <= kMaxEndpoints);
  std::unordered_set<std::string> stems;
  for (const std::string& stem : FileStems(endpoints)) {
    Require(!stem.empty() && stem.size() <= 140 && stem[0] != '.' && stem[0] != '-');
    Require(stem.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                   "0123456789._-") == std::string::npos);
    Require(stems.insert(stem).second);
  }
}

}  // namespace
}  // namespace jobscope

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace jobscope;  // NOLINT(google-build-using-namespace): one function
  static const TemporaryDirectory directory;
  const std::string input(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> texts = absl::StrSplit(input, absl::MaxSplits('\0', 2));
  texts.resize(3);
  if (texts[0].find('@') != std::string::npos) {
    (void)mkdir((directory.path() + "/ports").c_str(), 0700);
    directory.Write("file", texts[1]);
    directory.Write("ports/1.addr", texts[2]);
    directory.Write("ports/host-12.addr", "127.0.0.1:6009\n");
    directory.Write("ports/other", "");
  }
  const auto endpoints = ParseAddressList(NameFiles(texts[0], directory.path()), Resolve);
  if (endpoints.ok()) Check(*endpoints);
  return 0;
}
