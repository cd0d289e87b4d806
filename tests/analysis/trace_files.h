// SPDX-License-Identifier: Apache-2.0
//
// Traces and runs made by hand, for tests.
#ifndef TESTS_ANALYSIS_TRACE_FILES_H_
#define TESTS_ANALYSIS_TRACE_FILES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tensorflow::profiler {
class XPlane;
}  // namespace tensorflow::profiler

namespace jobscope::analysis {

using Stats = std::vector<std::pair<std::string, int64_t>>;
using Texts = std::vector<std::pair<std::string, std::string>>;

// One worker's trace. Times are milliseconds.
class TraceFile {
 public:
  void Event(const std::string& name, double begin_ms, double end_ms, const Stats& stats = {},
             const Texts& texts = {}, const std::string& plane = "/host:CPU", int64_t line = 1);
  void Step(int64_t number, double begin_ms, double end_ms, Stats more = {});
  void Input(double begin_ms, double end_ms);
  void AllReduce(int64_t sequence, double begin_ms, double end_ms, const std::string& group = "0");
  void Kernel(const std::string& name, double begin_ms, double end_ms, int64_t stream = 7);
  // What an allocator reports when it gives or takes a block.
  void Allocation(const std::string& allocator, double at_ms, int64_t in_use, int64_t peak,
                  int64_t bytes, const std::string& operation, int64_t line = 1,
                  std::optional<double> fragmentation = {});
  void Counter(const std::string& name, double at_ms, double value);
  void NameLine(const std::string& plane, int64_t line, const std::string& name);
  // A stat of a plane.
  void PlaneText(const std::string& plane, const std::string& name, const std::string& text);
  // A sample of a GPU as jobscope's NVML collector writes it.
  void GpuCounter(const std::string& what, double at_ms, double value);
  // file:line of events of a name.
  void Source(const std::string& event, const std::string& source);

  std::string Bytes() const;

 private:
  struct Entry {
    std::string name;
    double begin_ms, end_ms;
    Stats stats;
    Texts texts;
    std::optional<std::pair<std::string, double>> number;
  };
  struct Plane {
    std::map<int64_t, std::vector<Entry>> lines;
    std::map<int64_t, std::string> names;
    Texts texts;
  };
  static constexpr int64_t kCounters = 1'000'000;

  void Fill(const std::string& name, const Plane& plane, tensorflow::profiler::XPlane* out) const;

  std::map<std::string, Plane> planes_;
  std::map<std::string, std::string> sources_;
};

}  // namespace jobscope::analysis

#endif  // TESTS_ANALYSIS_TRACE_FILES_H_
