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

// What goes to a Python function, and comes to a function of ours: int, float, str, bytes, None.
struct Bytes {
  std::string data;
};
using Value = std::variant<std::monostate, int64_t, double, std::string, Bytes>;

// A function of ours that Python calls, with the GIL held, on any thread. Must not block, and must
// not call Python.
using NativeFunction = std::function<void(const std::vector<Value>& arguments)>;

// The interpreter, for as long as the process lives. All functions may be called from any thread
// that does not hold the GIL; they take it (and wait for it without a limit: callers are
// collectors' threads, which the session gives up on), and give it back. None of them starts an
// interpreter, none imports a module that the program has not imported (the standard library's
// excepted).
class Interpreter {
 public:
  // NOT_FOUND: no Python in this process, or not initialised yet; UNAVAILABLE: it is shutting
  // down; UNIMPLEMENTED: a kind that is not served (free-threaded, older than 3.9), with the
  // reason.
  static absl::StatusOr<const Interpreter*> Find();

  // "3.11.7"
  std::string version() const;

  // Whether sys.modules has `name`, and its import is over. Never imports.
  bool HasModule(std::string_view name) const;

  // Python's own functions, for code of this folder.
  const Api* api() const { return api_; }

 private:
  explicit Interpreter(const Api* api) : api_(api) {}
  const Api* const api_;
};

// A piece of Python source, run once as a module of its own that is not in sys.modules; freed never
// (a few kilobytes, once per source and process).
class Script {
 public:
  // `functions` are given to the module as globals before its source runs. A Python exception
  // becomes an INTERNAL status "ValueError: …" that names script and line.
  static absl::StatusOr<std::unique_ptr<Script>> Load(
      const Interpreter* interpreter, std::string_view name, std::string_view source,
      std::vector<std::pair<std::string, NativeFunction>> functions = {});
  ~Script();
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;

  // function(*arguments). The result must be None, int, float, str or bytes. The GIL is held while
  // Python runs the function, as with any Python code: what takes long there must release it
  // itself.
  absl::StatusOr<Value> Call(const char* function, const std::vector<Value>& arguments = {}) const;

 private:
  struct State;
  explicit Script(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_BRIDGE_INTERPRETER_H_
