// SPDX-License-Identifier: Apache-2.0
//
// Encodes the one TFRecord that makes TensorBoard recognise a logdir.
#ifndef COMMON_RUN_TFRECORD_H_
#define COMMON_RUN_TFRECORD_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace jobscope {

// Returns the CRC-32C (Castagnoli) of `bytes`.
uint32_t Crc32c(std::string_view bytes);

// Encodes a TFRecord: length, its masked CRC, the data, their masked CRC; integers are
// little-endian.
std::string TfRecord(std::string_view data);

// Encodes the record that begins every event file: wall time and format version.
std::string FileVersionRecord(absl::Time now);

}  // namespace jobscope

#endif  // COMMON_RUN_TFRECORD_H_
