// SPDX-License-Identifier: Apache-2.0
//
// Defines field numbers of the messages that are encoded and parsed without generated code: items
// (proto/jobscope/v1/item.proto) and the XSpace format (proto/tensorflow/xplane.proto).
#ifndef COMMON_XSPACE_WIRE_FIELDS_H_
#define COMMON_XSPACE_WIRE_FIELDS_H_

#include <cstdint>

namespace jobscope::xspace {

namespace events_field {
enum : uint32_t {
  kPlane = 1,
  kLine = 2,
  kSource = 3,
  kCount = 4,
  kFirstStart = 5,
  kLastStart = 6,
  kEvents = 7,
};
}  // namespace events_field

namespace names_field {
enum : uint32_t { kPlane = 1, kEvents = 2, kStats = 3 };
}  // namespace names_field

namespace name_field {
enum : uint32_t { kId = 1, kName = 2, kDisplayName = 3, kStats = 4 };
}  // namespace name_field

namespace line_field {
enum : uint32_t { kPlane = 1, kLine = 2, kName = 3, kDisplayName = 4 };
}  // namespace line_field

namespace plane_field {
enum : uint32_t { kPlane = 1, kId = 2, kName = 3, kStats = 4 };
}  // namespace plane_field

namespace raw_plane_field {
enum : uint32_t { kPlane = 1 };
}  // namespace raw_plane_field

namespace xspace_field {
enum : uint32_t { kPlanes = 1, kErrors = 2, kWarnings = 3, kHostnames = 4 };
}  // namespace xspace_field

namespace xplane_field {
enum : uint32_t {
  kId = 1,
  kName = 2,
  kLines = 3,
  kEventMetadata = 4,
  kStatMetadata = 5,
  kStats = 6,
};
}  // namespace xplane_field

namespace xline_field {
enum : uint32_t {
  kId = 1,
  kName = 2,
  kTimestampNs = 3,
  kEvents = 4,
  kDurationPs = 9,
  kDisplayName = 11,
};
}  // namespace xline_field

namespace xevent_field {
enum : uint32_t { kMetadataId = 1, kOffsetPs = 2, kDurationPs = 3, kStats = 4 };
}  // namespace xevent_field

namespace xstat_field {
enum : uint32_t {
  kMetadataId = 1,
  kDouble = 2,
  kUint64 = 3,
  kInt64 = 4,
  kString = 5,
  kBytes = 6,
  kRef = 7,
};
}  // namespace xstat_field

namespace xevent_metadata_field {
enum : uint32_t { kId = 1, kName = 2, kDisplayName = 4, kStats = 5, kChildId = 6 };
}  // namespace xevent_metadata_field

namespace xstat_metadata_field {
enum : uint32_t { kId = 1, kName = 2, kDescription = 3 };
}  // namespace xstat_metadata_field

namespace map_entry_field {
enum : uint32_t { kKey = 1, kValue = 2 };
}  // namespace map_entry_field

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_WIRE_FIELDS_H_
