// SPDX-License-Identifier: Apache-2.0
//
// Implements the verb `stop`: ends a running capture, or closes the server.
#ifndef CLIENT_CLI_SURVEY_STOP_VERB_H_
#define CLIENT_CLI_SURVEY_STOP_VERB_H_

#include "client/cli/base/worker_verb.h"

namespace jobscope {

// Calls Stop on all workers. Workers of ours end their session; stock ones receive Terminate, which
// needs --session_id and is remembered by the worker: sent for a session that does not run, it ends
// a later one of that name. With --server, calls Close instead. The exit code says whether all,
// some or none were stopped or idle, or are closed.
extern const WorkerVerb kStopVerb;

}  // namespace jobscope

#endif  // CLIENT_CLI_SURVEY_STOP_VERB_H_
