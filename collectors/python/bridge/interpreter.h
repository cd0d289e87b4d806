// SPDX-License-Identifier: Apache-2.0
//
// Finds the Python interpreter of this process, without linking it.
#ifndef COLLECTORS_PYTHON_BRIDGE_INTERPRETER_H_
#define COLLECTORS_PYTHON_BRIDGE_INTERPRETER_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace jobscope::python {

struct Api;

// The interpreter; lives as long as the process. All functions may be called from any thread that
// does not hold the GIL; they acquire it (blocking without a limit: callers are collectors'
// threads, which the session can abandon) and release it. None of them starts an interpreter, and
// none imports a module that the program has not imported (except the standard library).
class Interpreter {
 public:
  // Finds the interpreter. NOT_FOUND: no Python in this process, or not initialised yet;
  // UNAVAILABLE: it is shutting down; UNIMPLEMENTED: unsupported (free-threaded, older than 3.9),
  // with the reason.
  static absl::StatusOr<const Interpreter*> Find();

  // "3.11.7"
  std::string version() const;

  // Returns whether sys.modules has `name` and its import is complete. Never imports.
  bool HasModule(std::string_view name) const;

  // Returns Python's own functions, for code of this folder.
  const Api* api() const { return api_; }

 private:
  explicit Interpreter(const Api* api) : api_(api) {}
  const Api* const api_;
};

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_BRIDGE_INTERPRETER_H_
