// SPDX-License-Identifier: Apache-2.0
//
// Addresses to listen on, from options and environment: what is accepted is one that can be bound.
// The first byte is the local rank, 255: none.
#include <arpa/inet.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/net/endpoint.h"
#include "server/attach/listen_text.h"
#include "server/listen/listen_address.h"
#include "tests/fuzz_input.h"

namespace jobscope {
namespace {

// What needs no name service. A scope may follow an IPv6 address.
bool IsNumeric(const std::string& host) {
  in6_addr address;
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &address) == 1;
}

void Check(const ListenAddress& address) {
  if (address.is_unix()) {
    Require(address.unix_path.size() <= 107 && address.host.empty());
    Require(ParseEndpoint(absl::StrCat("unix:", address.unix_path)).ok());  // clients can dial it
  } else {
    Require(!address.host.empty());
    if (!IsNumeric(address.host)) return;
  }
  const auto targets = ResolveListenAddress(address);
  if (!targets.ok()) {
    Require(targets.status().code() == absl::StatusCode::kUnavailable);
    return;
  }
  Require(targets->size() == 1);
  if (address.is_unix()) {
    Require(targets->front().text == absl::StrCat("unix:", address.unix_path));
  } else {
    Require(absl::EndsWith(targets->front().text, absl::StrCat(":", address.port)));
  }
}

// What the attach library makes of it, which reads it first.
void CheckAttach(const std::string& text, int rank) {
  char address[attach::kMaxListenBytes + 1];
  if (!attach::WriteAddress(text.c_str(), rank, address, sizeof(address))) {
    Require(text.size() > attach::kMaxListenBytes);
    return;
  }
  Require(absl::StartsWith(text, address));
  (void)attach::IsTaken(address, rank);
}

}  // namespace
}  // namespace jobscope

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace jobscope;  // NOLINT(google-build-using-namespace): one function
  if (size == 0) return 0;
  const std::optional<int> rank = data[0] == 255 ? std::nullopt : std::optional<int>(data[0]);
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  // As options and environment end.
  const std::string text = bytes.substr(0, std::min(bytes.find('\0'), bytes.size()));
  CheckAttach(text, rank.value_or(-1));
  for (const std::string& given : {bytes, text}) {
    const auto address = ParseListenAddress(given, rank);
    if (address.ok()) {
      Check(*address);
    } else {
      Require(address.status().code() == absl::StatusCode::kInvalidArgument);
      Require(!address.status().message().empty());
    }
  }
  return 0;
}
