// SPDX-License-Identifier: Apache-2.0
//
// Computes how long each scope and operator, or each kernel, takes per step of a run.
#ifndef ANALYSIS_REPORT_NAME_TIMES_H_
#define ANALYSIS_REPORT_NAME_TIMES_H_

#include <map>
#include <optional>
#include <string>

namespace jobscope::analysis {

struct Report;

// Self time within steps, in ms per step: the mean over the workers with steps. A digest keeps only
// the largest names of a worker, so of some names only an upper limit is known.
struct NameTime {
  std::optional<double> ms;
  std::optional<double> at_most_ms;  // set if `ms` is not, and the run has recorded names
};

class NameTimes {
 public:
  // Sums the times of all workers: of kernels, or of scopes and operators.
  NameTimes(const Report& report, bool kernels);

  // Names that take time in steps, with the time that the digests contain. Empty: the run has
  // recorded none.
  const std::map<std::string, double>& recorded_ms() const { return recorded_ms_; }

  // Returns the time of any name; 0: it did not happen.
  NameTime Of(const std::string& name) const;

 private:
  std::map<std::string, double> recorded_ms_;
  // The most that all digests together can have left out of one name; and, for each name, the part
  // of that which belongs to digests that have the name.
  double left_out_ms_ = 0;
  std::map<std::string, double> not_left_out_ms_;
};

}  // namespace jobscope::analysis

#endif  // ANALYSIS_REPORT_NAME_TIMES_H_
