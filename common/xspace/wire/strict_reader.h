// SPDX-License-Identifier: Apache-2.0
//
// Reads fields as strictly as protobuf does, for bytes that are checked here and copied unchanged
// into a trace.
#ifndef COMMON_XSPACE_WIRE_STRICT_READER_H_
#define COMMON_XSPACE_WIRE_STRICT_READER_H_

#include <algorithm>
#include <cstdint>
#include <protozero/exception.hpp>
#include <protozero/pbf_reader.hpp>
#include <string_view>

namespace jobscope::xspace {

// Reads protobuf fields like protozero::pbf_reader and throws its exceptions, but rejects a tag or
// a length that does not fit into 32 bits (protozero drops the higher bits, protobuf refuses the
// message).
class StrictReader {
 public:
  explicit StrictReader(std::string_view bytes) : reader_(bytes.data(), bytes.size()) {}

  bool Next() {
    CheckShortVarint();
    if (!reader_.next()) return false;
    if (reader_.wire_type() == protozero::pbf_wire_type::length_delimited) CheckShortVarint();
    return true;
  }

  // Returns the current field's value. Call exactly one of the following, matching the wire type.
  std::string_view Bytes() {
    const protozero::data_view view = reader_.get_view();
    return {view.data(), view.size()};
  }
  uint64_t Varint() { return reader_.get_uint64(); }
  void Skip() { reader_.skip(); }

  // Returns where the next field begins, once the current one has been read.
  const char* position() const { return reader_.data().data(); }

  uint32_t field() const { return reader_.tag(); }
  bool is_bytes() const {
    return reader_.wire_type() == protozero::pbf_wire_type::length_delimited;
  }
  bool is_varint() const { return reader_.wire_type() == protozero::pbf_wire_type::varint; }

 private:
  void CheckShortVarint() const {
    constexpr size_t kMaxBytes = 5;
    const protozero::data_view rest = reader_.data();
    const size_t size = std::min(rest.size(), kMaxBytes);
    for (size_t i = 0; i < size; ++i) {
      const auto byte = static_cast<uint8_t>(rest.data()[i]);
      if (byte < 0x80) {
        if (i + 1 == kMaxBytes && byte > 0x0f) break;
        return;
      }
    }
    if (size == kMaxBytes) throw protozero::varint_too_long_exception();
  }

  protozero::pbf_reader reader_;
};

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_WIRE_STRICT_READER_H_
