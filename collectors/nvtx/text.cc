// SPDX-License-Identifier: Apache-2.0
#include "collectors/nvtx/text.h"

#include <cstring>

#include "common/text/utf8.h"

namespace jobscope::nvtx {
namespace {

constexpr char kEllipsis[] = "\xE2\x80\xA6";
constexpr size_t kEllipsisBytes = sizeof(kEllipsis) - 1;
constexpr size_t kMaxCutBytes = kMaxTextBytes - kEllipsisBytes;

}  // namespace

uint64_t HashBytes(const char* bytes, size_t size) {
  uint64_t hash = size;
  for (; size >= 8; size -= 8, bytes += 8) {
    uint64_t word;
    memcpy(&word, bytes, 8);
    hash = MixHash(hash, word);
  }
  uint64_t rest = 0;
  for (size_t i = 0; i < size; ++i) {
    rest |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return MixHash(hash, rest);
}

void Text::SetBytes(const char* bytes) {
  if (bytes == nullptr) bytes = "";
  data_ = bytes;
  size_ = strnlen(bytes, kMaxTextBytes + 1);
  if (size_ > kMaxTextBytes) {
    size_t cut = kMaxCutBytes;
    for (int back = 0; back < 3 && cut > 0 && IsUtf8Continuation(bytes[cut]); ++back) --cut;
    memcpy(own_, bytes, cut);
    memcpy(own_ + cut, kEllipsis, kEllipsisBytes);
    data_ = own_;
    size_ = cut + kEllipsisBytes;
  }
  hash_ = HashBytes(data_, size_);
}

void Text::SetWide(const wchar_t* wide) {
  size_t size = 0;
  size_t cut = 0;  // length that fits before an ellipsis
  for (; wide != nullptr && *wide != 0; ++wide) {
    char encoded[4];
    const size_t bytes = EncodeUtf8(static_cast<uint32_t>(*wide), encoded);
    if (size + bytes > kMaxTextBytes) {
      memcpy(own_ + cut, kEllipsis, kEllipsisBytes);
      size = cut + kEllipsisBytes;
      break;
    }
    memcpy(own_ + size, encoded, bytes);
    size += bytes;
    if (size <= kMaxCutBytes) cut = size;
  }
  data_ = own_;
  size_ = size;
  hash_ = HashBytes(own_, size);
}

void Text::SetKnown(const char* bytes, size_t size, uint64_t hash) {
  data_ = bytes;
  size_ = size;
  hash_ = hash;
}

bool Text::Equals(const char* stored, size_t size) const {
  return size_ == size && memcmp(data_, stored, size) == 0;
}

void Text::CopyTo(char* to) const {
  memcpy(to, data_, size_);
  to[size_] = '\0';
}

}  // namespace jobscope::nvtx
