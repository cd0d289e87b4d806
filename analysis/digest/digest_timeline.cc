// SPDX-License-Identifier: Apache-2.0
#include "analysis/digest/digest_timeline.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace jobscope::analysis {
namespace {

// Each kept step takes some KiB. The job's slowest step is slow on all workers that run in step,
// but not the slowest of each: four leave room for the others.
constexpr size_t kSlowest = 4;
constexpr size_t kLargestOwn = 2;
constexpr size_t kSampled = 16;

// The indices of the `count` largest values, none of which is in `known`.
void AddLargest(const std::vector<uint64_t>& values, size_t count, std::set<size_t>* known) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return values[a] > values[b]; });
  order.resize(std::min(count, order.size()));
  known->insert(order.begin(), order.end());
}

std::vector<int64_t> NumbersOf(const v1::DigestSteps& steps) {
  std::vector<int64_t> numbers;
  uint64_t number = 0;
  for (const int64_t delta : steps.number()) {
    number += static_cast<uint64_t>(delta);
    numbers.push_back(static_cast<int64_t>(number));
  }
  return numbers;
}

// An even spread of the bits of `value`: Stafford's finalizer, as SplitMix64 has it.
uint64_t Mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// Steps whose hashed number ends in so many zeros that at most kSampled are left. A worker with
// more steps keeps a subset of what one with fewer steps keeps.
void AddSample(const std::vector<int64_t>& numbers, std::set<size_t>* kept) {
  for (uint64_t mask = 0;; mask = 2 * mask + 1) {
    std::vector<size_t> sample;
    for (size_t i = 0; i < numbers.size() && sample.size() <= kSampled; ++i) {
      if ((Mix(static_cast<uint64_t>(numbers[i])) & mask) == 0) sample.push_back(i);
    }
    if (sample.size() > kSampled && mask != UINT64_MAX) continue;
    sample.resize(std::min(sample.size(), kSampled));  // all of one number
    kept->insert(sample.begin(), sample.end());
    return;
  }
}

}  // namespace

std::vector<size_t> TimelineSteps(const v1::DigestSteps& steps) {
  std::set<size_t> kept;
  std::vector<uint64_t> accounts(steps.account_ns().begin(), steps.account_ns().end());
  AddLargest(accounts, kSlowest, &kept);
  if (steps.blocked_ns_size() == steps.account_ns_size()) {
    for (size_t i = 0; i < accounts.size(); ++i) {
      accounts[i] -= std::min(accounts[i], steps.blocked_ns(static_cast<int>(i)));
    }
    AddLargest(accounts, kLargestOwn, &kept);
  }
  AddSample(NumbersOf(steps), &kept);
  return {kept.begin(), kept.end()};
}

Intervals TimelineWindows(const v1::DigestSteps& packed, const std::vector<size_t>& steps) {
  Intervals windows;
  std::vector<int64_t> ends;
  int64_t end_ns = 0;
  for (int i = 0; i < packed.begin_ns_size(); ++i) {
    end_ns += packed.begin_ns(i) + static_cast<int64_t>(packed.length_ns(i));
    ends.push_back(end_ns);
  }
  for (const size_t step : steps) {
    const auto account_ns = static_cast<int64_t>(packed.account_ns(static_cast<int>(step)));
    windows.push_back({ends[step] - account_ns, ends[step]});
  }
  return windows;
}

void EncodeTimeline(const std::vector<size_t>& steps, TimelineReader* reader,
                    v1::DigestTimeline* out) {
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> names;  // name and class
  std::map<uint32_t, uint32_t> lines;
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::vector<TimelineBlock> blocks = reader->TakeBlocks(i);
    v1::DigestTimeline::Step* step = out->add_steps();
    step->set_step(static_cast<uint32_t>(steps[i]));
    step->set_left_out(reader->left_out(i));
    const int64_t window_begin_ns = reader->window(i).begin_ns;
    int64_t before_ns = window_begin_ns;
    for (const TimelineBlock& block : blocks) {
      const auto [line, new_line] =
          lines.emplace(block.line, static_cast<uint32_t>(out->lines_size()));
      if (new_line) out->add_lines(reader->lines()[block.line]);
      const auto [name, new_name] = names.emplace(std::make_pair(block.name, block.what),
                                                  static_cast<uint32_t>(out->names_size()));
      if (new_name) {
        out->add_names(reader->names()[block.name].name);
        out->add_what(block.what);
      }
      step->add_line(line->second);
      step->add_name(name->second);
      step->add_begin_ns(block.span.begin_ns - before_ns);
      before_ns = block.span.begin_ns;
      step->add_length_ns(static_cast<uint64_t>(block.span.length_ns()));
      step->add_events(block.events);
    }
  }
}

}  // namespace jobscope::analysis
