// SPDX-License-Identifier: Apache-2.0
//
// Reads the events of a few windows of time, for pictures: a second pass over a worker's files.
#ifndef ANALYSIS_TRACE_TIMELINE_READER_H_
#define ANALYSIS_TRACE_TIMELINE_READER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "analysis/steps/intervals.h"
#include "analysis/steps/timeline_block.h"
#include "analysis/trace/mapped_file.h"
#include "analysis/trace/name_table.h"
#include "analysis/trace/plane_events.h"
#include "analysis/trace/trace_reader.h"
#include "analysis/trace/xspace_reader.h"

namespace jobscope::analysis {

// Thread-compatible. Memory is bounded by the number of windows, whatever the number of events.
class TimelineReader {
 public:
  // A window shows events this part of it long; shorter neighbours become one block.
  static constexpr int64_t kShortest = 600;
  // Blocks that a window keeps: the longest, and of each line at least kMinOfLine.
  static constexpr size_t kMaxBlocks = 200;
  static constexpr size_t kMinOfLine = 10;

  // `windows` are sorted and disjoint. `base_ns` is TraceReader::base_ns() after the first pass.
  TimelineReader(Intervals windows, int64_t base_ns);

  // `stretches`: TraceReader::TakeStretches() of the same file. INVALID_ARGUMENT: malformed bytes;
  // the blocks read until then stay.
  absl::Status Read(std::string_view xspace, const std::vector<LineStretch>& stretches) {
    return Read(xspace, stretches, nullptr);
  }
  // Likewise; keeps little of the file in memory. Returns also errors of file.status(): the blocks
  // cannot be used then.
  absl::Status Read(const MappedFile& file, const std::vector<LineStretch>& stretches) {
    return Read(file.bytes(), stretches, &file);
  }

  // Blocks of one window, sorted by line and begin; their lines and names are indices into lines()
  // and names(). After the last Read.
  std::vector<TimelineBlock> TakeBlocks(size_t window);
  const Interval& window(size_t window) const { return windows_[window].span; }
  uint64_t left_out(size_t window) const { return windows_[window].left_out; }  // events
  const std::vector<std::string>& lines() const { return line_names_; }
  const NameTable& names() const { return names_; }

 private:
  struct Window {
    Interval span;
    std::vector<TimelineBlock> blocks;
    uint64_t left_out = 0;
  };

  // A file, and where its events are.
  struct File {
    std::string_view bytes;
    const std::vector<LineStretch>& stretches;
  };

  absl::Status Read(std::string_view xspace, const std::vector<LineStretch>& stretches,
                    const MappedFile* file);
  void ReadPlane(const File& file, std::string_view name, std::string_view bytes);
  void ReadLine(const File& file, std::string_view plane, const LineHeader& header, bool is_host,
                PlaneEvents* events, std::string_view bytes);
  // Calls `callback(const RawEvent&)` for each event of a line that may be in a window.
  template <typename Callback>
  void ForEachEventInWindows(const File& file, std::string_view line, Callback&& callback);
  uint32_t LineOf(std::string_view plane, const LineHeader& header);
  static void Prune(Window* window);

  std::vector<Window> windows_;
  PassedPages passed_;
  const int64_t base_ns_;
  NameTable names_;
  std::vector<std::string> line_names_;
  std::map<std::pair<std::string, int64_t>, uint32_t> line_indices_;
};

}  // namespace jobscope::analysis

#endif  // ANALYSIS_TRACE_TIMELINE_READER_H_
