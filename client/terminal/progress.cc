// SPDX-License-Identifier: Apache-2.0
#include "client/terminal/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/terminal/columns.h"
#include "common/clock/monotonic.h"
#include "common/text/foreign_text.h"

namespace jobscope {
namespace {

constexpr absl::Duration kRedraw = absl::Milliseconds(100);
constexpr size_t kMaxLineBytes = 1000;

// A line that wraps cannot be redrawn.
size_t TerminalWidth() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return 80;
  return size.ws_col;
}

}  // namespace

Progress::Mode Progress::ModeFor(bool quiet) {
  if (quiet) return Mode::kQuiet;
  const char* const term = std::getenv("TERM");
  const bool can_redraw = term != nullptr && std::string(term) != "dumb";
  return isatty(STDERR_FILENO) == 1 && can_redraw ? Mode::kLive : Mode::kLines;
}

Progress::~Progress() { Clear(); }

absl::Duration Progress::period() const {
  return mode_ == Mode::kLive ? kRedraw : absl::InfiniteDuration();
}

bool Progress::IsDue(absl::Time now) const {
  return mode_ == Mode::kLive && now >= drawn_ + kRedraw;
}

void Progress::Clear() {
  if (live_) writer_.Write("\r\x1b[K");
  live_ = false;
}

void Progress::Flush() { writer_.Flush(absl::Seconds(1)); }

void Progress::Line(const std::string& text) {
  if (mode_ == Mode::kQuiet) return;
  Clear();
  writer_.Write(OneLine(text, kMaxLineBytes) + "\n");  // the text may quote a worker
}

void Progress::Update(const ProgressCounts& counts) {
  if (mode_ == Mode::kQuiet) return;
  if (mode_ == Mode::kLive) {
    // A thousand workers send thousands of letters per second; each redraw is a system call.
    const absl::Time now = SteadyNow();
    if (live_ && !IsDue(now)) return;
    drawn_ = now;
    std::string text = ProgressText(counts, /*live=*/true);
    text.resize(std::min(text.size(), TerminalWidth() - 1));
    writer_.Redraw(absl::StrCat("\r\x1b[K", text));
    live_ = true;
    return;
  }
  const std::string text = ProgressText(counts, /*live=*/false);
  const std::string phase = text.substr(0, text.find(' '));
  if (phase == last_phase_) return;
  last_phase_ = phase;
  Line(text);
}

std::string ProgressText(const ProgressCounts& counts, bool live) {
  const auto of_total = [&](size_t n) {
    return absl::StrCat(n, " of ", counts.total, counts.total == 1 ? " worker" : " workers");
  };
  std::string text;
  if (counts.recording > 0) {
    text = absl::StrCat("recording ", of_total(counts.recording));
    if (live && counts.left > absl::ZeroDuration()) {
      absl::StrAppendFormat(&text, ", %.1f s left", absl::ToDoubleSeconds(counts.left));
    }
  } else if (counts.connecting > 0) {
    text = absl::StrCat("connecting to ", of_total(counts.connecting));
    if (live) absl::StrAppend(&text, ", ", counts.arming + counts.ready, " connected");
  } else if (counts.arming + counts.ready > 0) {
    text = absl::StrCat("arming ", of_total(counts.arming + counts.ready));
    if (live) absl::StrAppend(&text, ", ", counts.ready, " armed");
  } else if (counts.collecting > 0) {
    text = absl::StrCat("collecting from ", of_total(counts.collecting));
  } else {
    text = absl::StrCat("writing ", of_total(counts.writing));
  }
  if (live && counts.steps_wanted > 0 && counts.recording > 0) {
    absl::StrAppend(&text, ", step ", counts.steps, " of ", counts.steps_wanted);
  }
  if (live && counts.events > 0) {
    absl::StrAppend(&text, ", ", Grouped(counts.events), " events, ");
    if (counts.lost > 0) absl::StrAppend(&text, Grouped(counts.lost), " lost, ");
    absl::StrAppend(&text, ByteCount(counts.bytes));
  }
  if (live && counts.delivered > 0) absl::StrAppend(&text, ", ", counts.delivered, " delivered");
  if (live && counts.failed > 0) absl::StrAppend(&text, ", ", counts.failed, " failed");
  return text;
}

}  // namespace jobscope
