// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <unordered_set>
#include <vector>

#include "common/net/address_list.h"
#include "common/net/endpoint.h"

// Whatever is typed: no crash, no endless expansion; what is accepted is unique, also as file
// names.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  // Files are not this fuzzer's business.
  for (char& c : text) {
    if (c == '@') c = 'a';
  }
  const jobscope::Resolver resolver = [](const std::string& name) {
    return std::vector<std::string>{"10.0.0.1", "fd00::1", name};
  };
  const auto endpoints = jobscope::ParseAddressList(text, resolver);
  if (!endpoints.ok()) return 0;
  if (endpoints->empty() || endpoints->size() > jobscope::kMaxEndpoints) std::abort();
  std::unordered_set<std::string> stems;
  for (const std::string& stem : jobscope::FileStems(*endpoints)) {
    if (stem.empty() || stem.size() > 140 || stem[0] == '.' || stem[0] == '-') std::abort();
    if (stem.find_first_not_of(
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") !=
        std::string::npos) {
      std::abort();
    }
    if (!stems.insert(stem).second) std::abort();
  }
  return 0;
}
