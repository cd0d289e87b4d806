// SPDX-License-Identifier: Apache-2.0
//
// Implements the verbs that ask each worker one question: `check` (identity and state) and `stop`
// (ends a running capture, or closes the server).
#ifndef CLIENT_CLI_SURVEY_H_
#define CLIENT_CLI_SURVEY_H_

#include "client/cli/flags.h"

namespace jobscope {

// Calls Describe on all workers. The exit code says whether all, some or none are reachable.
int RunCheck(const Flags& flags);

// Calls Stop on all workers. Workers of ours end their session; stock ones receive Terminate, which
// needs --session_id and is remembered by the worker: sent for a session that does not run, it ends
// a later one of that name. With --server, calls Close instead. The exit code says whether all,
// some or none were stopped or idle, or are closed.
int RunStop(const Flags& flags);

}  // namespace jobscope

#endif  // CLIENT_CLI_SURVEY_H_
