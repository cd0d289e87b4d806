// SPDX-License-Identifier: Apache-2.0
//
// The verbs that ask each worker one question: `check` (who are you, are you busy) and `stop` (end
// what runs).
#ifndef CLIENT_CLI_SURVEY_H_
#define CLIENT_CLI_SURVEY_H_

#include "client/cli/flags.h"

namespace jobscope {

// Describe on all workers. Exit code: all, some or none can be reached.
int RunCheck(const Flags& flags);

// Stop on all workers. Ours end their session; stock ones are sent Terminate, which needs
// --session_id and stays with the worker: sent for a session that does not run, it ends a later one
// of that name. Exit code: all, some or none were stopped or idle.
int RunStop(const Flags& flags);

}  // namespace jobscope

#endif  // CLIENT_CLI_SURVEY_H_
