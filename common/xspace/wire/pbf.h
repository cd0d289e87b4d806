// SPDX-License-Identifier: Apache-2.0
//
// Lets parsers use protozero with the standard's string_view.
#ifndef COMMON_XSPACE_WIRE_PBF_H_
#define COMMON_XSPACE_WIRE_PBF_H_

#include <cstdint>
#include <protozero/pbf_reader.hpp>
#include <protozero/types.hpp>
#include <string_view>

namespace jobscope::xspace {

inline protozero::pbf_reader Reader(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

inline std::string_view View(protozero::data_view view) { return {view.data(), view.size()}; }
// Reads the current field.
inline std::string_view View(protozero::pbf_reader* reader) { return View(reader->get_view()); }

// Values of pbf_reader::tag_and_type(). Fields are identified by number and wire type: one of
// another type is unknown and skipped.
constexpr uint32_t VarintField(uint32_t field) {
  return protozero::tag_and_type(field, protozero::pbf_wire_type::varint);
}
constexpr uint32_t Fixed64Field(uint32_t field) {
  return protozero::tag_and_type(field, protozero::pbf_wire_type::fixed64);
}
constexpr uint32_t BytesField(uint32_t field) {
  return protozero::tag_and_type(field, protozero::pbf_wire_type::length_delimited);
}

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_WIRE_PBF_H_
