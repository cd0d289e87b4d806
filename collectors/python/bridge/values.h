// SPDX-License-Identifier: Apache-2.0
//
// Converts values between C++ and Python. Every function requires the GIL.
#ifndef COLLECTORS_PYTHON_BRIDGE_VALUES_H_
#define COLLECTORS_PYTHON_BRIDGE_VALUES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collectors/python/bridge/api.h"
#include "collectors/python/bridge/gil.h"
#include "collectors/python/bridge/script.h"

namespace jobscope::python {

// Returns the text of a str as UTF-8, with '?' for characters that cannot be encoded. Empty for
// anything else.
std::string TextOf(const Api& api, Object* object);
// Returns the value of an int that fits, else 0.
int64_t IntegerOf(const Api& api, Object* object);

// Converts a value; nullptr with an exception set: no memory.
Object* ToPython(const Api& api, const Value& value);
// Converts values to a tuple.
Object* ToPython(const Api& api, const std::vector<Value>& values);

// Converts a Python object. INVALID_ARGUMENT names an unsupported type.
absl::StatusOr<Value> FromPython(const Api& api, Object* object);

// Returns the name of an object's type.
std::string TypeName(const Api& api, Object* object);

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_BRIDGE_VALUES_H_
