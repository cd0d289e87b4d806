// SPDX-License-Identifier: Apache-2.0
//
// Encodes names from items as the metadata maps of an XPlane. In a map entry the value repeats the
// key as its id, because XProf reads the id there and not from the key.
#ifndef COMMON_XSPACE_SEGMENT_METADATA_ENCODER_H_
#define COMMON_XSPACE_SEGMENT_METADATA_ENCODER_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace jobscope::xspace {

// Appends the XPlane.event_metadata entry of a jobscope.v1.Names.Name whose bytes have been
// checked.
void EncodeEventMetadata(std::string_view bytes, std::string* out);

// Appends the XPlane.stat_metadata entry of a jobscope.v1.Names.Name whose bytes have been checked.
void EncodeStatMetadata(std::string_view bytes, std::string* out);
// Does the same, but calls a stat whose name is `from` `to`.
void EncodeStatMetadata(std::string_view bytes, std::string_view from, std::string_view to,
                        std::string* out);
// Does the same for a name of our own.
void EncodeStatMetadata(uint64_t id, std::string_view name, std::string* out);

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_SEGMENT_METADATA_ENCODER_H_
