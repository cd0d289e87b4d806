// SPDX-License-Identifier: Apache-2.0
//
// Finds the Python interpreter of this process, without linking it.
#ifndef COLLECTORS_PYTHON_BRIDGE_INTERPRETER_H_
#define COLLECTORS_PYTHON_BRIDGE_INTERPRETER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace jobscope::python {

struct Api;

// A value passed to a Python function or to a native function: int, float, str, bytes, None.
struct Bytes {
  std::string data;
};
using Value = std::variant<std::monostate, int64_t, double, std::string, Bytes>;

// A function of ours that Python calls, on any thread, with the GIL held. Must not block or call
// Python.
using NativeFunction = std::function<void(const std::vector<Value>& arguments)>;

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

// A piece of Python source, run once as a module that is not in sys.modules; never freed (a few
// kilobytes, once per source and process).
class Script {
 public:
  // Runs the source with `functions` as globals of the module. A Python exception becomes an
  // INTERNAL status "ValueError: …" that names script and line.
  static absl::StatusOr<std::unique_ptr<Script>> Load(
      const Interpreter* interpreter, std::string_view name, std::string_view source,
      std::vector<std::pair<std::string, NativeFunction>> functions = {});
  ~Script();
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;

  // Calls function(*arguments). The result must be None, int, float, str or bytes. Python holds the
  // GIL as for any Python code: a slow function must release it itself.
  absl::StatusOr<Value> Call(const char* function, const std::vector<Value>& arguments = {}) const;

 private:
  struct State;
  explicit Script(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_BRIDGE_INTERPRETER_H_
