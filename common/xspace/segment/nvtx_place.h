// SPDX-License-Identifier: Apache-2.0
//
// Encodes an NVTX event's domain, category and colour in its site, in place of a file:
// "nvtx:DOMAIN<tab>CATEGORY<tab>#rrggbb", each possibly empty. The file distinguishes sites, so
// equal messages of two domains are two sites, and what is stored once for a site need not be
// recorded with each event. Written by the NVTX handler, read by the host collector, which makes
// stats of it.
#ifndef COMMON_XSPACE_SEGMENT_NVTX_PLACE_H_
#define COMMON_XSPACE_SEGMENT_NVTX_PLACE_H_

#include <cstddef>
#include <string_view>

namespace jobscope {

inline constexpr std::string_view kNvtxPlacePrefix = "nvtx:";
inline constexpr char kNvtxPlaceSeparator = '\t';
// The three together stay below the 127 bytes that the recorder keeps of a file.
inline constexpr size_t kNvtxMaxDomainBytes = 63;
inline constexpr size_t kNvtxMaxCategoryBytes = 31;
// The name of the sites of messages for which there was no room; these events carry their message
// as an argument.
inline constexpr std::string_view kNvtxMoreNames = "(more NVTX names)";

struct NvtxPlace {
  std::string_view domain;
  std::string_view category;
  std::string_view color;
};

inline bool IsNvtxPlace(std::string_view file) {
  return file.substr(0, kNvtxPlacePrefix.size()) == kNvtxPlacePrefix;
}

// Views into `file`, for which IsNvtxPlace holds.
inline NvtxPlace ParseNvtxPlace(std::string_view file) {
  file.remove_prefix(kNvtxPlacePrefix.size());
  NvtxPlace place;
  for (std::string_view* part : {&place.domain, &place.category, &place.color}) {
    const size_t end = file.find(kNvtxPlaceSeparator);
    *part = file.substr(0, end);
    file = end == std::string_view::npos ? std::string_view() : file.substr(end + 1);
  }
  return place;
}

}  // namespace jobscope

#endif  // COMMON_XSPACE_SEGMENT_NVTX_PLACE_H_
