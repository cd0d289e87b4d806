// SPDX-License-Identifier: Apache-2.0
#include "collectors/host/encoding/line_table.h"

#include <memory>
#include <string_view>

#include "common/xspace/segment/trace_planes.h"

namespace jobscope::host {

ThreadLine* LineTable::For(int64_t tid, const char* name) {
  if (const auto found = lines_.find(tid); found != lines_.end()) {
    found->second->Rename(name);
    return found->second.get();
  }
  std::string_view line_name = name;
  if (lines_.size() >= kMaxLines) {
    tid = 0;
    line_name = kOtherThreadsLineName;
  }
  std::unique_ptr<ThreadLine>& line = lines_[tid];
  if (line == nullptr) line = std::make_unique<ThreadLine>(sink_, names_, plane_, tid, line_name);
  return line.get();
}

void LineTable::RetireAll() const {
  for (const auto& [tid, line] : lines_) line->Retire();
}

}  // namespace jobscope::host
