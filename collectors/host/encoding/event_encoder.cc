// SPDX-License-Identifier: Apache-2.0
#include "collectors/host/encoding/event_encoder.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "collectors/host/encoding/arguments.h"
#include "common/xspace/segment/trace_planes.h"

namespace jobscope::host {
namespace {

// Context type "generic" of XProf's producer and consumer stats.
constexpr int64_t kGenericContext = 0;

xspace::SegmentEvent PointEvent(const Window& window, uint64_t ticks, uint64_t metadata_id,
                                uint32_t depth, std::string_view stats) {
  xspace::SegmentEvent event;
  event.start_ps = window.map.ToPs(ticks);
  event.duration_ps = 1;
  event.metadata_id = metadata_id;
  event.depth = depth;
  event.stats = stats;
  return event;
}

// Returns the event's begin in the trace.
uint64_t FollowOne(StepBegins* steps, const Site& site, const jobscope_record& event) {
  switch (event.kind) {
    case JOBSCOPE_KIND_SCOPE:
      if (site.role == JOBSCOPE_ROLE_INPUT_WAIT) {
        steps->OnWait(event.begin_ticks, event.end_ticks);
      } else {
        steps->OnScope(event.begin_ticks);
      }
      break;
    case JOBSCOPE_KIND_STEP_BEGIN:
      steps->OnStepBegin(event.begin_ticks);
      break;
    case JOBSCOPE_KIND_STEP:
      return steps->OnStepEnd(event.begin_ticks, event.end_ticks);
    default:
      break;
  }
  return event.begin_ticks;
}

}  // namespace

EventEncoder::EventEncoder(const Reader* reader, xspace::ItemSink* sink, xspace::Names* names,
                           xspace::PlaneKey plane, const Window* window)
    : window_(window), sites_(reader, names, plane), async_(reader, sink, names, window, &sites_) {}

EventEncoder::Progress EventEncoder::Encode(ThreadState* thread, const jobscope_record* records,
                                            size_t count, uint64_t max_events,
                                            uint64_t hold_ticks) {
  Progress progress;
  Account& account = thread->line->account;
  while (progress.records < count && progress.events < max_events) {
    const jobscope_record* const group = records + progress.records;
    const size_t size = 1 + JOBSCOPE_FLAGS_CONTINUATIONS(group->flags);
    if (group->end_ticks > hold_ticks) break;
    if (size > count - progress.records || group->kind == JOBSCOPE_KIND_CONTINUATION) {
      // Violates the recorder's contract: no later event boundary can be trusted.
      break;
    }
    progress.records += size;
    ++progress.events;

    const Site* const site = sites_.Find(group->site);
    if (site == nullptr || group->begin_ticks > group->end_ticks) {
      account.Lose(LossCause::kInvalid);
      continue;
    }
    if (group->kind >= JOBSCOPE_KIND_ASYNC_BEGIN) {
      // These check the window themselves: their other half may be inside of it.
      switch (group->kind) {
        case JOBSCOPE_KIND_ASYNC_BEGIN:
        case JOBSCOPE_KIND_ASYNC_END:
          Async(thread, group, size);
          continue;
        case JOBSCOPE_KIND_FLOW_OUT:
        case JOBSCOPE_KIND_FLOW_IN:
          Flow(thread, *group);
          continue;
        case JOBSCOPE_KIND_STEP_BEGIN:
          --account.attempted;
          thread->steps.OnStepBegin(group->begin_ticks);
          thread->step_open = true;
          thread->step_begin = *group;
          continue;
        case JOBSCOPE_KIND_STEP:
          break;
        default:
          account.Lose(LossCause::kInvalid);
          continue;
      }
    }
    if (!thread->open_scopes.empty()) ForgetOpenScope(thread, *group);
    if (group->kind == JOBSCOPE_KIND_STEP) thread->step_open = false;
    const uint64_t begin = FollowOne(&thread->steps, *site, *group);
    if (!window_->Intersects(begin, group->end_ticks)) {
      ++account.outside;
      continue;
    }
    switch (group->kind) {
      case JOBSCOPE_KIND_SCOPE:
      case JOBSCOPE_KIND_INSTANT:
        if (site->role != JOBSCOPE_ROLE_INPUT_WAIT) {
          thread->newest_scope_begin = std::max(thread->newest_scope_begin, group->begin_ticks);
        }
        Scope(thread, *site, group, size);
        break;
      case JOBSCOPE_KIND_COUNTER:
        Counter(thread, *site, *group);
        break;
      default:
        Step(thread, *site, group, size, begin);
        break;
    }
  }
  return progress;
}

void EventEncoder::Scope(ThreadState* thread, const Site& site, const jobscope_record* group,
                         size_t size) {
  const Clipped clipped = window_->Clip(group->begin_ticks, group->end_ticks);
  xspace::SegmentEvent event;
  event.start_ps = clipped.start_ps;
  event.duration_ps = clipped.duration_ps;
  event.metadata_id = site.event_id;
  event.depth = group->depth;
  const uint32_t type = JOBSCOPE_FLAGS_ARG_TYPE(group->flags);
  const bool one_record = size == 1 && (group->flags & JOBSCOPE_FLAG_CUT) == 0;
  const bool plain = one_record && type == JOBSCOPE_ARG_NONE;
  if (one_record && !clipped.at_start && !clipped.at_end && thread->flows.empty()) {
    if (plain) {
      event.stats = site.stats;
      thread->line->AddEvent(event);
      return;
    }
    // The most frequent argument: the general form below takes a sixth longer.
    const bool is_signed = type == JOBSCOPE_ARG_INT64;
    if ((is_signed || type == JOBSCOPE_ARG_UINT64) && site.key_count > 0) {
      stats_.Clear();
      stats_.Encoded(site.stats);
      if (is_signed) {
        stats_.Int64(site.key_ids[0], static_cast<int64_t>(group->arg));
      } else {
        stats_.Uint64(site.key_ids[0], group->arg);
      }
      event.stats = stats_.bytes();
      thread->line->AddEvent(event);
      return;
    }
  }
  stats_.Clear();
  stats_.Encoded(site.stats);
  if (group->kind == JOBSCOPE_KIND_SCOPE && !thread->flows.empty()) {
    AttachFlows(thread, group->depth, group->begin_ticks);
  }
  ClipStats(clipped, group->begin_ticks, group->end_ticks);
  uint32_t first_argument = 0;
  if (site.named_by_argument && size > 1 &&
      JOBSCOPE_FLAGS_ARG_TYPE(group->flags) == JOBSCOPE_ARG_STRING) {
    char text[kMaxStringBytes];
    size_t at = 1;
    if (const uint64_t id = sites_.EventNamed(site, ReadString(group, size, &at, text)); id != 0) {
      event.metadata_id = id;
      first_argument = 1;
    }
  }
  if (!plain) AddArguments(&sites_, site, group, size, first_argument, &stats_);
  event.stats = stats_.bytes();
  thread->line->AddEvent(event);
}

void EventEncoder::Follow(StepBegins* steps, const jobscope_record& event) {
  if (const Site* const site = sites_.Find(event.site); site != nullptr) {
    (void)FollowOne(steps, *site, event);
  }
}

void EventEncoder::Step(ThreadState* thread, const Site& site, const jobscope_record* group,
                        size_t size, uint64_t begin) {
  if (group->begin_ticks == window_->first_step_ticks) {
    begin = std::min(std::max(begin, window_->start_ticks), group->begin_ticks);
  }
  const Clipped clipped = window_->Clip(begin, group->end_ticks);
  const bool whole = !clipped.at_start && !clipped.at_end;
  const auto number = static_cast<int64_t>(group->arg);
  const CommonStats& common = sites_.common();
  stats_.Clear();
  if (whole) {
    stats_.Int64(common.r, 1);
    stats_.Int64(common.step_num, number);
    // For GPU work launched by other threads. An event has space for one producer, and a flow has
    // priority.
    if (thread->flows.empty()) {
      stats_.Int64(common.producer_type, kStepContextType);
      stats_.Uint64(common.producer, group->begin_ticks);
    }
  } else {
    stats_.Int64(common.clipped_step, number);
  }
  if (!thread->flows.empty()) AttachFlows(thread, group->depth, group->begin_ticks);
  ClipStats(clipped, begin, group->end_ticks);
  if (begin != group->begin_ticks && group->begin_ticks >= window_->start_ticks) {
    stats_.Int64(common.marked_start_ns, window_->map.ToPs(group->begin_ticks) / 1000);
  }
  // For a clipped step they would describe more than its event.
  if (size > 1 && whole) AddArguments(&sites_, site, group, size, 1, &stats_);
  xspace::SegmentEvent event;
  event.start_ps = clipped.start_ps;
  event.duration_ps = clipped.duration_ps;
  event.metadata_id = whole ? site.event_id : site.clipped_event_id;
  event.depth = group->depth;
  event.stats = stats_.bytes();
  if (!whole) {
    thread->line->AddEvent(event);
    return;
  }
  const uint64_t lost = thread->line->account.lost();
  thread->line->AddStep(event, group->site);
  if (thread->line->account.lost() == lost && thread->newest_scope_begin < group->begin_ticks) {
    StepMark(thread, clipped, group->depth + 1);
  }
}

void EventEncoder::StepMark(ThreadState* thread, const Clipped& step, uint32_t depth) {
  xspace::SegmentEvent mark;
  mark.start_ps = step.start_ps + std::max<int64_t>(step.duration_ps, 1) - 1;
  mark.duration_ps = 1;
  mark.metadata_id = sites_.StepMarkId();
  if (mark.metadata_id == 0) return;  // without a mark the step is still written
  ++thread->line->account.attempted;
  mark.depth = depth;
  thread->line->AddEvent(mark);
}

void EventEncoder::Counter(ThreadState* thread, const Site& site, const jobscope_record& record) {
  stats_.Clear();
  const uint64_t key = site.counter_id != 0 ? site.counter_id : sites_.KeyId(site, 0);
  AddNumber(&sites_, key, JOBSCOPE_FLAGS_ARG_TYPE(record.flags), record.arg, &stats_);
  thread->line->AddCounter(
      PointEvent(*window_, record.begin_ticks, site.event_id, record.depth, stats_.bytes()));
}

void EventEncoder::Async(ThreadState* thread, const jobscope_record* group, size_t size) {
  AsyncHalf half;
  half.ticks = group->begin_ticks;
  half.site = group->site;
  half.line = thread->line;
  if (group->kind == JOBSCOPE_KIND_ASYNC_END) {
    async_.End(group->arg, half);
    return;
  }
  if (size > 1) {
    SiteTable* const sites = async_.sites();
    if (const Site* const site = sites->Find(group->site); site != nullptr) {
      xspace::StatsEncoder stats(xspace::StatsOf::kEvent);
      AddArguments(sites, *site, group, size, 1, &stats);
      half.stats = std::string(stats.bytes());
    }
  }
  async_.Begin(group->arg, std::move(half));
}

void EventEncoder::Flow(ThreadState* thread, const jobscope_record& record) {
  if (!window_->Intersects(record.begin_ticks, record.end_ticks)) {
    ++thread->line->account.outside;
    return;
  }
  const PendingFlow flow{record.begin_ticks, record.arg, record.site, record.depth,
                         record.kind == JOBSCOPE_KIND_FLOW_OUT};
  if (flow.depth == 0) {  // no enclosing scope
    PlaceFlow(thread, flow);
    return;
  }
  if (thread->flows.size() >= kMaxPendingFlows) {
    PlaceFlow(thread, thread->flows.front());
    thread->flows.erase(thread->flows.begin());
  }
  thread->flows.push_back(flow);
}

void EventEncoder::AttachFlows(ThreadState* thread, uint32_t depth, uint64_t begin) {
  // A scope ends before the one around it, so a flow belongs to the first scope that ends around
  // it. Flows of scopes that are not in the trace pass to the next outer one. An event has space
  // for one producer and one consumer.
  const CommonStats& common = sites_.common();
  bool has_out = false;
  bool has_in = false;
  auto keep = thread->flows.begin();
  for (auto flow = thread->flows.begin(); flow != thread->flows.end(); ++flow) {
    if (flow->depth <= depth || flow->ticks < begin) {
      *keep++ = *flow;
    } else if (flow->is_out && !has_out) {
      has_out = true;
      stats_.Int64(common.producer_type, kGenericContext);
      stats_.Uint64(common.producer, flow->id);
      --thread->line->account.attempted;
    } else if (!flow->is_out && !has_in) {
      has_in = true;
      stats_.Int64(common.consumer_type, kGenericContext);
      stats_.Uint64(common.consumer, flow->id);
      --thread->line->account.attempted;
    } else {
      PlaceFlow(thread, *flow);
    }
  }
  thread->flows.erase(keep, thread->flows.end());
}

void EventEncoder::PlaceFlow(ThreadState* thread, const PendingFlow& flow) {
  const Site* const site = sites_.Find(flow.site);
  if (site == nullptr) {
    thread->line->account.Lose(LossCause::kInvalid);
    return;
  }
  const CommonStats& common = sites_.common();
  xspace::StatsEncoder stats(xspace::StatsOf::kEvent);
  stats.Int64(flow.is_out ? common.producer_type : common.consumer_type, kGenericContext);
  stats.Uint64(flow.is_out ? common.producer : common.consumer, flow.id);
  thread->line->AddEvent(
      PointEvent(*window_, flow.ticks, site->event_id, flow.depth, stats.bytes()));
}

void EventEncoder::ClipStats(const Clipped& clipped, uint64_t begin, uint64_t end) {
  if (!clipped.at_start && !clipped.at_end) return;
  const CommonStats& common = sites_.common();
  stats_.Int64(common.truncated, 1);
  if (clipped.at_start) stats_.Int64(common.true_start_ns, window_->map.ToPs(begin) / 1000);
  if (clipped.at_end && end != UINT64_MAX) {
    stats_.Int64(common.true_end_ns, window_->map.ToPs(end) / 1000);
  }
}

void EventEncoder::ForgetOpenScope(ThreadState* thread, const jobscope_record& record) {
  if (record.kind != JOBSCOPE_KIND_SCOPE && record.kind != JOBSCOPE_KIND_STEP) return;
  auto& open = thread->open_scopes;
  const auto found = std::find_if(open.begin(), open.end(), [&](const jobscope_open_scope& scope) {
    return scope.begin_ticks == record.begin_ticks && scope.site == record.site;
  });
  if (found != open.end()) open.erase(found);
}

void EventEncoder::FinishThread(ThreadState* thread) {
  if (!window_->over) {
    // The thread ended during the session: its open scopes have no end.
    thread->open_scopes.clear();
    thread->step_open = false;
  }
  // A step that has begun and not ended is in the sample, unless sampling failed.
  if (thread->step_open) {
    const jobscope_record& step = thread->step_begin;
    const auto is_step = [&](const jobscope_open_scope& scope) {
      return scope.begin_ticks == step.begin_ticks && scope.site == step.site;
    };
    auto& open = thread->open_scopes;
    if (std::none_of(open.begin(), open.end(), is_step)) {
      open.push_back({step.site, step.depth, step.begin_ticks, 1, static_cast<int64_t>(step.arg)});
    }
    thread->step_open = false;
  }
  // Innermost first, in the order of their ends: flows then pass to the enclosing scope.
  std::sort(thread->open_scopes.begin(), thread->open_scopes.end(),
            [](const auto& a, const auto& b) { return a.begin_ticks > b.begin_ticks; });
  for (const jobscope_open_scope& scope : thread->open_scopes) OpenScope(thread, scope);
  thread->open_scopes.clear();
  for (const PendingFlow& flow : thread->flows) PlaceFlow(thread, flow);
  thread->flows.clear();
}

void EventEncoder::OpenScope(ThreadState* thread, const jobscope_open_scope& scope) {
  // Not counted as attempted before: no record has been published for it.
  if (scope.begin_ticks > window_->end_ticks) return;
  const Site* const site = sites_.Find(scope.site);
  if (site == nullptr) return;
  ++thread->line->account.attempted;
  const uint64_t begin = thread->steps.Of(scope.begin_ticks);
  const Clipped clipped = window_->Clip(begin, UINT64_MAX);
  const CommonStats& common = sites_.common();
  stats_.Clear();
  stats_.Ref(common.tf_op, site->tf_op_ref);
  if (scope.has_step_number != 0) stats_.Int64(common.clipped_step, scope.step_number);
  if (!thread->flows.empty()) AttachFlows(thread, scope.depth, scope.begin_ticks);
  ClipStats(clipped, begin, UINT64_MAX);
  xspace::SegmentEvent event;
  event.start_ps = clipped.start_ps;
  event.duration_ps = clipped.duration_ps;
  event.metadata_id = site->clipped_event_id;
  event.depth = scope.depth;
  event.stats = stats_.bytes();
  thread->line->AddEvent(event);
}

}  // namespace jobscope::host
