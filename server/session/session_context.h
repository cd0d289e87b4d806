// SPDX-License-Identifier: Apache-2.0
//
// Defines what a session shares with the threads of its collectors.
#ifndef SERVER_SESSION_SESSION_CONTEXT_H_
#define SERVER_SESSION_SESSION_CONTEXT_H_

#include <cstdint>
#include <memory>

#include "common/xspace/segment/names.h"
#include "common/xspace/segment/store.h"
#include "server/session/session_control.h"

namespace jobscope {

// The part of a session that a hanging collector may still use after the session's end.
struct SessionContext {
  // The session ends when its trace has reached `max_trace_bytes`.
  SessionContext(std::shared_ptr<SessionControl> events, uint64_t store_bytes,
                 uint64_t max_trace_bytes);

  const std::shared_ptr<SessionControl> control;
  const std::unique_ptr<xspace::Store> store;
  xspace::Names names;
};

// Returns a context's store for its consumers, also after the session's end. The last one that
// releases it closes it: that frees its memory, even if a hanging collector keeps the context.
std::shared_ptr<xspace::Store> ShareStore(const std::shared_ptr<SessionContext>& context);

}  // namespace jobscope

#endif  // SERVER_SESSION_SESSION_CONTEXT_H_
