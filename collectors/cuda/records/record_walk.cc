// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/records/record_walk.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace jobscope::cuda {
namespace {

// Fits two records of any known kind.
constexpr size_t kProbeWords = 128;

}  // namespace

RecordWalk::RecordWalk(const CuptiApi* api, const uint8_t* data, size_t bytes)
    : api_(api), data_(data), end_(data + bytes) {}

bool RecordWalk::Next() {
  auto* next = const_cast<uint8_t*>(record_);
  const CuptiResult result = api_->cuptiActivityGetNextRecord(
      const_cast<uint8_t*>(data_), static_cast<size_t>(end_ - data_), &next);  // only reads
  if (result == kCuptiMaxLimitReached) return false;
  // An unknown kind ends the buffer; so does an invalid answer.
  if (result != kCuptiSuccess || next == nullptr || next < data_ || next >= end_ ||
      next <= record_) {
    unreadable_ = !OnlyZerosFollow();
    return false;
  }
  record_ = next;
  return true;
}

bool RecordWalk::OnlyZerosFollow() const {
  const uint8_t* rest = data_;
  if (record_ != nullptr) {
    uint32_t kind = 0;
    if (left() < sizeof(kind)) return false;
    std::memcpy(&kind, record_, sizeof(kind));
    const size_t stride = StrideOf(kind);
    if (stride == 0) return false;
    rest = record_ + std::min(stride, left());
  }
  return std::all_of(rest, end_, [](uint8_t byte) { return byte == 0; });
}

size_t RecordWalk::StrideOf(uint32_t kind) const {
  std::array<uint64_t, kProbeWords> words{};
  words.fill(kind);  // every place where a record may begin holds one of that kind
  auto* const probe = reinterpret_cast<uint8_t*>(words.data());
  uint8_t* record = nullptr;
  if (api_->cuptiActivityGetNextRecord(probe, sizeof(words), &record) != kCuptiSuccess ||
      api_->cuptiActivityGetNextRecord(probe, sizeof(words), &record) != kCuptiSuccess ||
      record <= probe) {
    return 0;
  }
  return static_cast<size_t>(record - probe);
}

}  // namespace jobscope::cuda
