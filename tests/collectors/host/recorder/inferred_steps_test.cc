// SPDX-License-Identifier: Apache-2.0
//
// Tests steps that the program does not mark itself, by boundaries that other code reports. The
// source of steps is the process's, so this is one test, in its order.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

#include "jobscope/trace.h"
#include "tests/collectors/host/recorder/recorded.h"

namespace jobscope::recorder_test {
namespace {

const struct jobscope_trace_reader* Reader() { return jobscope_trace_reader(); }
const struct jobscope_trace_writer_table* Writer() { return jobscope_trace_writer(); }

uint32_t SiteOf(const char* name) {
  const jobscope_site site = {sizeof(jobscope_site),       0, name, "", "", 0, JOBSCOPE_BIT_STEP,
                              JOBSCOPE_ROLE_INFERRED_STEP, 0};
  return Writer()->find_site(&site, nullptr, 0);
}

std::vector<jobscope_step_info> Recent() {
  std::vector<jobscope_step_info> steps(256);
  steps.resize(Reader()->recent_steps(steps.data(), steps.size()));
  return steps;
}

// What this thread records from now on.
class Since {
 public:
  Since() {
    Writer()->event(SiteOf("warm up"), JOBSCOPE_KIND_INSTANT, nullptr, 0);
    jobscope_thread_info infos[64];
    const size_t count = Reader()->threads(0, infos, 64);
    for (size_t i = 0; i < count; ++i) {
      if (infos[i].tid != static_cast<int32_t>(gettid())) continue;
      serial_ = infos[i].serial;
      cursor_ = {infos[i].head_record, infos[i].head_event};
    }
  }
  std::vector<jobscope_record> Records() {
    std::vector<jobscope_record> records(1024);
    jobscope_read_result result{};
    EXPECT_EQ(Reader()->read(serial_, &cursor_, records.data(), records.size(), &result), 0);
    EXPECT_EQ(result.lost_events, 0u);
    records.resize(result.records);
    return records;
  }

 private:
  uint64_t serial_ = 0;
  jobscope_cursor cursor_{};
};

// One test: the source can be taken over once only.
TEST(InferredSteps, AreRecordedUntilTheProgramMarksItsOwn) {
  const Recording recording(JOBSCOPE_BIT_STEP);
  EXPECT_EQ(Reader()->step_source(), 0u);
  const uint32_t batches = SiteOf("batch");
  Since since;

  // The begin of the first is not known: it begins only now.
  const uint64_t first = Writer()->step_boundary(batches, 2, 0);
  ASSERT_NE(first, 0u);
  EXPECT_EQ(since.Records().size(), 0u);
  ASSERT_EQ(Recent().size(), 1u);
  EXPECT_EQ(Recent()[0].number, 2);
  EXPECT_EQ(Reader()->step_source(), batches);
  EXPECT_EQ(Recent()[0].end_ticks, 0u);

  const uint64_t second = Writer()->step_boundary(batches, 2, first);
  ASSERT_GT(second, first);
  const auto records = since.Records();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].kind, JOBSCOPE_KIND_STEP);
  EXPECT_EQ(records[0].site, batches);
  EXPECT_EQ(records[0].begin_ticks, first);
  EXPECT_EQ(records[0].end_ticks, second);
  EXPECT_EQ(records[0].arg, 2u);
  auto steps = Recent();
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].end_ticks, second);
  EXPECT_EQ(steps[1].number, 3);

  // The trigger takes them as any steps.
  Reader()->arm_trigger(4, 5, JOBSCOPE_BIT_LEVEL1);
  const uint64_t third = Writer()->step_boundary(batches, 3, second);
  jobscope_trigger_info trigger{};
  Reader()->trigger(&trigger);
  EXPECT_EQ(trigger.state, uint32_t{JOBSCOPE_TRIGGER_OPEN});
  EXPECT_EQ(trigger.first_step, 4);
  EXPECT_EQ(trigger.open_ticks, third);
  const uint64_t fourth = Writer()->step_boundary(batches, 4, third);
  const uint64_t fifth = Writer()->step_boundary(batches, 5, fourth);
  Reader()->trigger(&trigger);
  EXPECT_EQ(trigger.state, uint32_t{JOBSCOPE_TRIGGER_CLOSED});
  EXPECT_EQ(trigger.last_step, 5);
  EXPECT_EQ(trigger.close_ticks, fifth);
  Reader()->disarm_trigger();

  // A step that was none, as an epoch ended in it, begins again: a window of two steps has two.
  const uint64_t before = Reader()->step_count();
  Reader()->arm_trigger_by_ordinal(before + 1, before + 2, JOBSCOPE_BIT_LEVEL1);
  (void)Writer()->step_boundary(batches, 6, fifth);
  const uint64_t seventh = Writer()->step_boundary(batches, 7, 0);
  EXPECT_EQ(Reader()->step_count(), before + 1);
  EXPECT_EQ(Recent().back().number, 7);
  EXPECT_EQ(Recent().back().begin_ticks, seventh);
  const uint64_t eighth = Writer()->step_boundary(batches, 7, seventh);
  Reader()->trigger(&trigger);
  EXPECT_EQ(trigger.state, uint32_t{JOBSCOPE_TRIGGER_OPEN});
  const uint64_t ninth = Writer()->step_boundary(batches, 8, eighth);
  Reader()->trigger(&trigger);
  EXPECT_EQ(trigger.state, uint32_t{JOBSCOPE_TRIGGER_CLOSED});
  EXPECT_EQ(trigger.close_ticks, ninth);
  Reader()->disarm_trigger();

  // Another thing that was inferred takes over; its history begins there.
  const uint32_t updates = SiteOf("update");
  const uint64_t update = Writer()->step_boundary(updates, 71, 0);
  ASSERT_NE(update, 0u);
  ASSERT_EQ(Recent().size(), 1u);
  EXPECT_EQ(Recent()[0].number, 71);
  EXPECT_EQ(Reader()->step_source(), updates);

  // In a forked child nothing is recorded.
  const pid_t child = fork();
  if (child == 0) _exit(Writer()->step_boundary(updates, 71, update) == 0 ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);

  // The program's own steps win permanently, and the step that ran is no longer in the list.
  const uint64_t count = Reader()->step_count();
  { JOBSCOPE_STEP("train", 1000); }
  steps = Recent();
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].number, 1000);
  EXPECT_NE(steps[0].end_ticks, 0u);
  jobscope_site_info source{};
  ASSERT_EQ(Reader()->site(Reader()->step_source(), &source), 0);
  EXPECT_STREQ(source.name, "train");
  EXPECT_EQ(source.role, uint32_t{JOBSCOPE_ROLE_STEP});
  EXPECT_EQ(Reader()->step_count(), count + 1);
  (void)since.Records();
  EXPECT_EQ(Writer()->step_boundary(updates, 71, update), 0u);
  EXPECT_EQ(Writer()->step_boundary(batches, 6, fifth), 0u);
  EXPECT_EQ(since.Records().size(), 0u);
  EXPECT_EQ(Recent().size(), 1u);
}

}  // namespace
}  // namespace jobscope::recorder_test
