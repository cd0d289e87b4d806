// SPDX-License-Identifier: Apache-2.0
//
// Recordings of CUPTI's buffers, byte for byte, for tests on machines without a GPU. The format is
// ours; numbers are little-endian:
//
//   "JSCUPTI1"  u32 version of CUPTI (cuptiGetVersion)  u32 zero
//   then blocks: u32 tag  u32 zero  u64 bytes  payload, padded with zeros to a multiple of 8
//     kOrigin   where it comes from: a text
//     kString   u64 address, then the text that stood there: names that records point to
//     kBuffer   the valid part of one buffer
//
// Strings precede the buffers that point to them. A recording may be cut at its end: the
// process that wrote it may have been killed.
#ifndef TESTS_COLLECTORS_CUDA_RECORDINGS_RECORDING_H_
#define TESTS_COLLECTORS_CUDA_RECORDINGS_RECORDING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace jobscope::cuda {

inline constexpr std::string_view kRecordingMagic = "JSCUPTI1";
enum RecordingTag : uint32_t { kOrigin = 1, kString = 2, kBuffer = 3 };

struct Recording {
  uint32_t version = 0;
  std::string origin;
  std::map<uint64_t, std::string> strings;
  std::vector<std::vector<uint8_t>> buffers;
  bool cut = false;
};

// Empty, or what is wrong with it.
inline std::string ParseRecording(std::string_view bytes, Recording* out);
// The bytes of a recording.
inline std::string FormatRecording(const Recording& recording);

namespace recording_detail {

template <typename T>
T Number(std::string_view bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<T>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  }
  return value;
}

template <typename T>
void Append(T value, std::string* out) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    out->push_back(static_cast<char>((value >> (8 * i)) & 0xff));
  }
}

inline void AppendBlock(RecordingTag tag, std::string_view payload, std::string* out) {
  Append<uint32_t>(tag, out);
  Append<uint32_t>(0, out);
  Append<uint64_t>(payload.size(), out);
  out->append(payload);
  out->append((8 - payload.size() % 8) % 8, '\0');
}

}  // namespace recording_detail

inline std::string ParseRecording(std::string_view bytes, Recording* out) {
  using recording_detail::Number;
  *out = {};
  if (bytes.size() < 16 || bytes.substr(0, 8) != kRecordingMagic) return "no recording";
  out->version = Number<uint32_t>(bytes.substr(8));
  bytes.remove_prefix(16);
  while (!bytes.empty()) {
    if (bytes.size() < 16) {
      out->cut = true;
      break;
    }
    const auto tag = Number<uint32_t>(bytes);
    const auto size = Number<uint64_t>(bytes.substr(8));
    bytes.remove_prefix(16);
    if (size > bytes.size()) {
      out->cut = true;
      break;
    }
    const std::string_view payload = bytes.substr(0, size);
    bytes.remove_prefix(std::min<size_t>(bytes.size(), (size + 7) / 8 * 8));
    switch (tag) {
      case kOrigin:
        out->origin = payload;
        break;
      case kString:
        if (payload.size() < 8) return "a string without an address";
        out->strings[Number<uint64_t>(payload)] = payload.substr(8);
        break;
      case kBuffer:
        out->buffers.emplace_back(payload.begin(), payload.end());
        break;
      default:
        return "unknown block " + std::to_string(tag);
    }
  }
  return {};
}

inline std::string FormatRecording(const Recording& recording) {
  using recording_detail::Append;
  using recording_detail::AppendBlock;
  std::string out(kRecordingMagic);
  Append<uint32_t>(recording.version, &out);
  Append<uint32_t>(0, &out);
  AppendBlock(kOrigin, recording.origin, &out);
  for (const auto& [address, text] : recording.strings) {
    std::string payload;
    Append<uint64_t>(address, &payload);
    AppendBlock(kString, payload + text, &out);
  }
  for (const std::vector<uint8_t>& buffer : recording.buffers) {
    AppendBlock(kBuffer, {reinterpret_cast<const char*>(buffer.data()), buffer.size()}, &out);
  }
  return out;
}

}  // namespace jobscope::cuda

#endif  // TESTS_COLLECTORS_CUDA_RECORDINGS_RECORDING_H_
