// SPDX-License-Identifier: Apache-2.0
//
// A buffer of records that came from anywhere, of any version: each byte of it that is read lies
// within it, and what is read is the same twice.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "collectors/cuda/libraries/cupti_api.h"
#include "collectors/cuda/records/record.h"

namespace {

constexpr uint32_t kVersions[] = {13, 14, 15, 16, 17, 18,     19,     20, 21,        22,
                                  23, 24, 26, 27, 28, 130000, 130400, 0,  UINT32_MAX};

constexpr size_t kLongest = 512;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using jobscope::cuda::Activity;
  using jobscope::cuda::ParseResult;
  if (size == 0) return 0;
  const uint32_t version = kVersions[data[0] % (sizeof(kVersions) / sizeof(kVersions[0]))];
  ++data;
  --size;
  const std::vector<uint8_t> all(data, data + size);
  if (jobscope::cuda::CountRecords(all.data(), all.size(), version) > size) std::abort();
  size_t at = 0;
  while (at < size) {
    // A copy of exactly what may be touched, so that a sanitizer sees a read beyond it. No record
    // is longer than kLongest, so the rest of a large buffer makes no difference.
    const std::vector<uint8_t> rest(data + at, data + std::min(size, at + kLongest));
    Activity activity;
    const ParseResult result =
        jobscope::cuda::ParseRecord(rest.data(), rest.size(), version, &activity);
    uint32_t kind = 0;
    std::memcpy(&kind, rest.data(), rest.size() < sizeof(kind) ? rest.size() : sizeof(kind));
    const size_t bytes = jobscope::cuda::RecordBytes(kind, version);
    if ((result == ParseResult::kOk) != (bytes != 0 && bytes <= rest.size())) std::abort();
    at += result == ParseResult::kOk ? bytes : 8;
  }
  return 0;
}
