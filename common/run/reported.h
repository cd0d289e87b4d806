// SPDX-License-Identifier: Apache-2.0
//
// Defines a value of an enum that another process reported by its name.
#ifndef COMMON_RUN_REPORTED_H_
#define COMMON_RUN_REPORTED_H_

#include <string>
#include <utility>

namespace jobscope {

// The enum has a function Name(Enum), which is the only place of its names. The other process may
// be newer: a name that this one does not know stays readable, and equals no value.
template <typename Enum>
class Reported {
 public:
  Reported() = default;  // nothing was reported
  explicit Reported(std::string name) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }  // empty: nothing was reported
  friend bool operator==(const Reported& reported, Enum value) {
    return reported.name_ == Name(value);
  }
  friend bool operator!=(const Reported& reported, Enum value) { return !(reported == value); }

 private:
  std::string name_;
};

}  // namespace jobscope

#endif  // COMMON_RUN_REPORTED_H_
