// SPDX-License-Identifier: Apache-2.0
#include "tests/analysis/trace_files.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "tensorflow/xplane.pb.h"

namespace jobscope::analysis {

void TraceFile::Event(const std::string& name, double begin_ms, double end_ms, const Stats& stats,
                      const Texts& texts, const std::string& plane, int64_t line) {
  Plane& target = planes_[plane];
  target.lines[line].push_back({name, begin_ms, end_ms, stats, texts, {}});
}

void TraceFile::Step(int64_t number, double begin_ms, double end_ms, Stats more) {
  more.emplace_back("_r", 1);
  more.emplace_back("step_num", number);
  Event("train", begin_ms, end_ms, more);
}

void TraceFile::Input(double begin_ms, double end_ms) {
  Event("IteratorGetNext next_batch", begin_ms, end_ms);
}

void TraceFile::AllReduce(int64_t sequence, double begin_ms, double end_ms,
                          const std::string& group) {
  Event("gloo:all_reduce", begin_ms, end_ms, {{"sequence", sequence}, {"bytes", 4096}},
        {{"process_group", group}}, "/device:CUSTOM:async", 1);
}

void TraceFile::Kernel(const std::string& name, double begin_ms, double end_ms, int64_t stream) {
  Event(name, begin_ms, end_ms, {}, {}, "/device:GPU:0", stream);
}

void TraceFile::Allocation(const std::string& allocator, double at_ms, int64_t in_use, int64_t peak,
                           int64_t bytes, const std::string& operation, int64_t line,
                           std::optional<double> fragmentation) {
  Event(bytes > 0 ? "MemoryAllocation" : "MemoryDeallocation", at_ms, at_ms,
        {{"bytes_allocated", in_use},
         {"bytes_reserved", 0},
         {"bytes_available", (int64_t{1} << 34) - in_use},
         {"peak_bytes_in_use", peak},
         {"requested_bytes", std::max<int64_t>(bytes, 0)},
         {"allocation_bytes", std::abs(bytes)}},
        {{"allocator_name", allocator}, {"tf_op", operation}}, "/host:CPU", line);
  if (fragmentation.has_value()) {
    Entry& entry = planes_["/host:CPU"].lines[line].back();
    entry.number = {"fragmentation", *fragmentation};
  }
}

void TraceFile::Counter(const std::string& name, double at_ms, double value) {
  planes_["/host:CPU"].lines[kCounters].push_back(
      {name, at_ms, at_ms, {}, {}, std::make_pair(name, value)});
}

void TraceFile::NameLine(const std::string& plane, int64_t line, const std::string& name) {
  planes_[plane].names[line] = name;
}

void TraceFile::PlaneText(const std::string& plane, const std::string& name,
                          const std::string& text) {
  planes_[plane].texts.emplace_back(name, text);
}

void TraceFile::GpuCounter(const std::string& what, double at_ms, double value) {
  const std::string name = "GPU 0 " + what;
  planes_["/device:CUSTOM:NVML:0"].lines[kCounters].push_back(
      {name, at_ms, at_ms, {}, {}, std::make_pair(name, value)});
}

void TraceFile::Source(const std::string& event, const std::string& source) {
  sources_[event] = source;
}

std::string TraceFile::Bytes() const {
  tensorflow::profiler::XSpace space;
  for (const auto& [name, plane] : planes_) Fill(name, plane, space.add_planes());
  return space.SerializeAsString();
}

void TraceFile::Fill(const std::string& name, const Plane& plane,
                     tensorflow::profiler::XPlane* out) const {
  out->set_name(name);
  std::map<std::string, int64_t> events;
  std::map<std::string, int64_t> stats;
  const auto id_of = [](std::map<std::string, int64_t>* ids, const std::string& text) {
    return ids->emplace(text, static_cast<int64_t>(ids->size()) + 1).first->second;
  };
  for (const auto& [id, entries] : plane.lines) {
    auto* line = out->add_lines();
    line->set_id(id);
    const auto known = plane.names.find(id);
    line->set_name(id == kCounters              ? "_counters_"
                   : known != plane.names.end() ? known->second
                                                : "thread/" + std::to_string(id));
    std::vector<Entry> sorted = entries;
    std::stable_sort(sorted.begin(), sorted.end(), [](const Entry& a, const Entry& b) {
      return a.begin_ms != b.begin_ms ? a.begin_ms < b.begin_ms : a.end_ms > b.end_ms;
    });
    for (const Entry& entry : sorted) {
      auto* event = line->add_events();
      event->set_metadata_id(id_of(&events, entry.name));
      event->set_offset_ps(std::llround(entry.begin_ms * 1e9));
      event->set_duration_ps(std::llround((entry.end_ms - entry.begin_ms) * 1e9));
      for (const auto& [key, value] : entry.stats) {
        auto* stat = event->add_stats();
        stat->set_metadata_id(id_of(&stats, key));
        stat->set_int64_value(value);
      }
      for (const auto& [key, value] : entry.texts) {
        auto* stat = event->add_stats();
        stat->set_metadata_id(id_of(&stats, key));
        stat->set_str_value(value);
      }
      if (entry.number.has_value()) {
        auto* stat = event->add_stats();
        stat->set_metadata_id(id_of(&stats, entry.number->first));
        stat->set_double_value(entry.number->second);
      }
    }
  }
  for (const auto& [text, id] : events) {
    auto& metadata = (*out->mutable_event_metadata())[id];
    metadata.set_id(id);
    metadata.set_name(text);
    const auto source = sources_.find(text);
    if (source == sources_.end()) continue;
    auto* stat = metadata.add_stats();
    stat->set_metadata_id(id_of(&stats, "source"));
    stat->set_str_value(source->second);
  }
  for (const auto& [key, value] : plane.texts) {
    auto* stat = out->add_stats();
    stat->set_metadata_id(id_of(&stats, key));
    stat->set_str_value(value);
  }
  for (const auto& [text, id] : stats) {
    auto& metadata = (*out->mutable_stat_metadata())[id];
    metadata.set_id(id);
    metadata.set_name(text);
  }
}

}  // namespace jobscope::analysis
