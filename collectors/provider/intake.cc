// SPDX-License-Identifier: Apache-2.0
#include "collectors/provider/intake.h"

#include <utility>

namespace jobscope::provider {

bool Intake::Add(const jobscope_provider_event& event) {
  ++attempted_;
  if (full()) {
    ++buffer_full_;
    return false;
  }
  if (batch_->Add(event)) return true;
  ++malformed_;
  return false;
}

std::unique_ptr<EventBatch> Intake::Take() {
  if (!open() || batch_->events().empty()) return nullptr;
  return std::exchange(batch_, std::make_unique<EventBatch>());
}

}  // namespace jobscope::provider
