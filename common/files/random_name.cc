// SPDX-License-Identifier: Apache-2.0
#include "common/files/random_name.h"

#include <sys/random.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace jobscope {

std::string RandomName() {
  uint64_t number = 0;
  if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number)) {
    number = static_cast<uint64_t>(absl::GetCurrentTimeNanos());
  }
  return absl::StrCat(absl::Hex(number, absl::kZeroPad16));
}

}  // namespace jobscope
