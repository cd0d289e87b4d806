// SPDX-License-Identifier: Apache-2.0
#ifndef COLLECTORS_PYTHON_BRIDGE_SCRIPT_H_
#define COLLECTORS_PYTHON_BRIDGE_SCRIPT_H_

namespace jobscope::python {

// Folder in the file names of our scripts' code objects.
inline constexpr char kScriptFolder[] = "<jobscope>/";

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_BRIDGE_SCRIPT_H_
