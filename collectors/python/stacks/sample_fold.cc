// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/stacks/sample_fold.h"

#include <algorithm>

namespace jobscope::python {

void SampleFold::Add(uint64_t ticks, const StackRound& round) {
  if (ticks > window_.end_ticks) return;
  ticks = std::max(ticks, window_.start_ticks);
  last_ticks_ = ticks;
  ++rounds_;
  for (const uint64_t ident : round.idents) {
    if (const auto known = threads_.find(ident); known != threads_.end()) {
      known->second.last_round = rounds_;
    }
  }
  for (const ThreadStack& stack : round.stacks) {
    ++stacks_;
    if (stack.cut) ++cut_stacks_;
    Thread& thread = threads_[stack.ident];
    if (thread.tid != stack.tid) Close(&thread, 0, ticks);  // another thread with a reused ident
    thread.tid = stack.tid;
    if (thread.name != stack.name) thread.name = stack.name;
    thread.last_round = rounds_;
    size_t same = 0;
    while (same < thread.open.size() && same < stack.frames.size() &&
           thread.open[same].code == stack.frames[same].code) {
      ++same;
    }
    Close(&thread, same, ticks);
    for (size_t depth = same; depth < stack.frames.size(); ++depth) {
      thread.open.push_back({stack.frames[depth].code, ticks, thread.samples});
    }
    ++thread.samples;
  }
  for (auto at = threads_.begin(); at != threads_.end();) {
    if (at->second.last_round == rounds_) {
      ++at;
      continue;
    }
    Close(&at->second, 0, ticks);
    threads_.erase(at++);
  }
}

void SampleFold::Finish(uint64_t end_ticks) {
  // The end becomes known a little late: spans that a later sample has ended are not shortened any
  // more, and those around them contain them.
  window_.end_ticks = std::min(window_.end_ticks, std::max(end_ticks, last_ticks_));
  for (auto& [ident, thread] : threads_) Close(&thread, 0, window_.end_ticks);
  threads_.clear();
}

void SampleFold::Close(Thread* thread, size_t depth, uint64_t ticks) {
  while (thread->open.size() > depth) {
    const OpenSpan& open = thread->open.back();
    FunctionSpan span;
    span.begin_ticks = open.begin_ticks;
    span.end_ticks = ticks;
    span.code = open.code;
    span.depth = static_cast<uint32_t>(thread->open.size() - 1);
    span.samples = thread->samples - open.first_sample;
    lines_->Add(thread->tid, thread->name, span, window_);
    thread->open.pop_back();
  }
}

}  // namespace jobscope::python
