// SPDX-License-Identifier: Apache-2.0
//
// Marks the steps of a training loop and its waits for input. C++11 and later, header-only; link
// jobscope::trace, as for <jobscope/trace.h>.
//
//   for (const auto& step : jobscope::Steps(loader)) {          // anything with begin() and end()
//     Train(step.number, step.batch);
//   }
//   for (const auto& step : jobscope::Steps([&] { return queue.Pop(); })) {
//     Train(step.number, step.batch);                           // until Pop() returns false
//   }
//
// Each iteration is a step. Each wait for a batch is an input wait, and belongs to the step of that
// batch. If a loop ends by break, return or an exception, its step ends there.
#ifndef JOBSCOPE_STEPS_H_
#define JOBSCOPE_STEPS_H_

#include <stdint.h>

#include <iterator>
#include <type_traits>
#include <utility>

#include "jobscope/trace.h"

namespace jobscope {
#if defined(JOBSCOPE_DISABLED)
inline namespace disabled {
#else
inline namespace recording {
#endif

// The step number and the batch of one iteration. `Batch` is the type of the dereferenced iterator:
// usually a reference, valid until the next iteration.
template <typename Batch>
struct NumberedBatch {
  int64_t number;
  Batch batch;
};

#pragma GCC visibility push(hidden)
namespace steps_detail {

// Records the marks of one loop, on its thread. Records nothing with JOBSCOPE_DISABLED.
class Marks {
 public:
  Marks(const char* name, int64_t first, const char* file, uint32_t line)
      : name_(name), file_(file), line_(line), number_(first) {}
  // Moves marks that have not begun.
  Marks(Marks&& other) noexcept
      : name_(other.name_), file_(other.file_), line_(other.line_), number_(other.number_) {}
  Marks& operator=(Marks&&) = delete;
  ~Marks() { EndStep(); }

  int64_t number() const { return number_; }

#if defined(JOBSCOPE_DISABLED)
  void BeginStep() {}
  void EndStep() {}
  struct Wait {
    explicit Wait(Marks*) {}
    ~Wait() {}
  };
#else
  void BeginStep() {
    if (!trace_detail::Enabled(JOBSCOPE_BIT_STEP)) return;
    if (step_site_ == 0) step_site_ = Site(name_, JOBSCOPE_BIT_STEP, JOBSCOPE_ROLE_STEP);
    token_ = trace_detail::Writer()->step_begin(step_site_, number_);
    open_ = true;
  }
  void EndStep() {
    if (open_) trace_detail::Writer()->step_end(step_site_, token_, number_);
    open_ = false;
  }

  // Records an input wait for its lifetime.
  class Wait {
   public:
    explicit Wait(Marks* marks) : site_(0), token_() {
      if (!trace_detail::Enabled(JOBSCOPE_BIT_INPUT_WAIT)) return;
      if (marks->wait_site_ == 0) {
        marks->wait_site_ =
            marks->Site("input_wait", JOBSCOPE_BIT_INPUT_WAIT, JOBSCOPE_ROLE_INPUT_WAIT);
      }
      site_ = marks->wait_site_;
      token_ = trace_detail::Writer()->begin(site_);
    }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    ~Wait() {
      if (site_ != 0) trace_detail::Writer()->end(site_, token_);
    }

   private:
    uint32_t site_;
    jobscope_token token_;
  };
#endif
  void Next() { ++number_; }

 private:
#if !defined(JOBSCOPE_DISABLED)
  uint32_t Site(const char* name, uint32_t bit, uint32_t role) const {
    const jobscope_site site = {
        sizeof(jobscope_site), 0, name, JOBSCOPE_CATEGORY, file_, line_, bit, role, 0};
    return trace_detail::Writer()->find_site(&site, nullptr, 0);
  }
  uint32_t step_site_ = 0;
  uint32_t wait_site_ = 0;
  jobscope_token token_ = {0, 0};
  bool open_ = false;
#endif
  const char* name_;
  const char* file_;
  uint32_t line_;
  int64_t number_;
};

// Presents the successive results of `next` as a single-pass range.
template <typename Next>
class Pulled {
 public:
  explicit Pulled(Next next) : next_(std::move(next)), value_() {}

  class Iterator {
   public:
    explicit Iterator(Pulled* range) : range_(range) { Pull(); }
    auto operator*() const -> decltype(*std::declval<Pulled&>().value_) { return *range_->value_; }
    Iterator& operator++() {
      Pull();
      return *this;
    }
    bool operator!=(const Iterator& other) const { return range_ != other.range_; }

   private:
    void Pull() {
      if (range_ == nullptr) return;
      range_->value_ = range_->next_();
      if (!range_->value_) range_ = nullptr;
    }
    Pulled* range_;  // null at the end
  };
  Iterator begin() { return Iterator(this); }
  Iterator end() { return Iterator(nullptr); }

 private:
  Next next_;

 public:
  decltype(std::declval<Next&>()()) value_;
};

// `Range`: a reference, or an owned range. Single-pass.
template <typename Range>
class StepRange {
  typedef decltype(std::begin(std::declval<Range&>())) Base;

 public:
  StepRange(Range&& range, Marks marks)
      : range_(std::forward<Range>(range)), marks_(std::move(marks)) {}

  class Iterator {
   public:
    Iterator(Marks* marks, Base at, Base end)
        : marks_(marks), at_(std::move(at)), end_(std::move(end)) {}
    NumberedBatch<decltype(*std::declval<Base&>())> operator*() { return {marks_->number(), *at_}; }
    Iterator& operator++() {
      marks_->EndStep();
      marks_->Next();
      {
        const Marks::Wait wait(marks_);
        ++at_;
      }
      if (at_ != end_) marks_->BeginStep();
      return *this;
    }
    bool operator!=(const Iterator& other) const { return at_ != other.at_; }

   private:
    Marks* marks_;
    Base at_;
    Base end_;
  };

  Iterator begin() {
    // begin() also counts as a wait: a loader starts its threads and fetches the first batches.
    Iterator iterator = First();
    if (iterator != end()) marks_.BeginStep();
    return iterator;
  }
  Iterator end() { return Iterator(&marks_, std::end(range_), std::end(range_)); }

 private:
  Iterator First() {
    const Marks::Wait wait(&marks_);
    return Iterator(&marks_, std::begin(range_), std::end(range_));
  }

  Range range_;
  Marks marks_;
};

template <typename Range>
struct IsRange {
  template <typename T>
  static decltype(std::begin(std::declval<T&>()), std::true_type()) Test(int);
  template <typename T>
  static std::false_type Test(...);
  static constexpr bool value = decltype(Test<Range>(0))::value;
};

}  // namespace steps_detail
#pragma GCC visibility pop

// Returns the batches of `range`, each as a step named `name`, numbered from `first` on. `range` is
// any range that a range-based for accepts, whose begin() and ++ wait for data. Keeps a reference
// to `range`; takes ownership if it is a temporary. `name` must outlive the loop. For rising
// numbers over several epochs, pass first = epoch * batches_per_epoch. `file` and `line` are the
// caller's.
template <typename Range>
typename std::enable_if<steps_detail::IsRange<Range>::value, steps_detail::StepRange<Range>>::type
Steps(Range&& range, const char* name = "train", int64_t first = 0,
      const char* file = __builtin_FILE(), uint32_t line = __builtin_LINE()) {
  return {std::forward<Range>(range), steps_detail::Marks(name, first, file, line)};
}

// Does the same for the results of `next()`, std::optionals or pointers, until one is false.
template <typename Next>
typename std::enable_if<!steps_detail::IsRange<Next>::value,
                        steps_detail::StepRange<steps_detail::Pulled<Next>>>::type
Steps(Next next, const char* name = "train", int64_t first = 0, const char* file = __builtin_FILE(),
      uint32_t line = __builtin_LINE()) {
  return {steps_detail::Pulled<Next>(std::move(next)),
          steps_detail::Marks(name, first, file, line)};
}

}  // namespace disabled or recording
}  // namespace jobscope

#endif  // JOBSCOPE_STEPS_H_
