// SPDX-License-Identifier: Apache-2.0
//
// Addresses to listen on, from options and environment: what is accepted is one that can be bound.
// The first byte is the local rank, 255: none.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include "server/listen/listen_address.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::optional<int> rank = data[0] == 255 ? std::nullopt : std::optional<int>(data[0]);
  std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  text.resize(std::min(text.find('\0'), text.size()));  // as options and environment end
  const auto address = jobscope::ParseListenAddress(text, rank);
  if (!address.ok()) {
    if (address.status().code() != absl::StatusCode::kInvalidArgument) std::abort();
    if (address.status().message().empty()) std::abort();
    return 0;
  }
  if (address->is_unix()) {
    if (address->unix_path.size() > 107 || !address->host.empty()) std::abort();
    return 0;
  }
  if (address->host.empty()) std::abort();
  return 0;
}
