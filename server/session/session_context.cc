// SPDX-License-Identifier: Apache-2.0
#include "server/session/session_context.h"

#include <utility>

namespace jobscope {

SessionContext::SessionContext(std::shared_ptr<SessionControl> events, uint64_t store_bytes,
                               uint64_t max_trace_bytes)
    : control(std::move(events)),
      store(std::make_unique<xspace::Store>(store_bytes, max_trace_bytes)),
      names(store.get()) {
  // The trace has reached its ceiling: what follows would be lost.
  store->SetSpentListener([this] { control->Stop(EndedBy::kMaxTraceBytes); });
}

std::shared_ptr<xspace::Store> ShareStore(const std::shared_ptr<SessionContext>& context) {
  return {context->store.get(), [context](xspace::Store* store) { store->Close(); }};
}

}  // namespace jobscope
