// SPDX-License-Identifier: Apache-2.0
//
// Loads Python source that calls native functions and is called by them.
#ifndef COLLECTORS_PYTHON_BRIDGE_SCRIPT_H_
#define COLLECTORS_PYTHON_BRIDGE_SCRIPT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace jobscope::python {

class Interpreter;

// Folder in the file names of our scripts' code objects.
inline constexpr char kScriptFolder[] = "<jobscope>/";

// A value passed to a Python function or to a native function: int, float, str, bytes, None.
struct Bytes {
  std::string data;
};
using Value = std::variant<std::monostate, int64_t, double, std::string, Bytes>;

// A function of ours that Python calls, on any thread, with the GIL held. Must not block or call
// Python.
using NativeFunction = std::function<void(const std::vector<Value>& arguments)>;

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

#endif  // COLLECTORS_PYTHON_BRIDGE_SCRIPT_H_
