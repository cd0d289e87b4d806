// SPDX-License-Identifier: Apache-2.0
#include "server/session/session_manager.h"

#include <chrono>
#include <exception>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/functional/function_ref.h"
#include "common/log/log.h"
#include "common/sync/mutex.h"
#include "common/threads/worker_thread.h"
#include "server/guard/resource_guard.h"
#include "server/session/request_queue.h"
#include "server/session/running_session.h"
#include "server/session/session_run.h"
#include "server/tasks/collector_slot.h"

namespace jobscope {
namespace {

// How long a request waits for a session that only delivers. The worker learns a message later than
// the client that the client has its last byte: a client that starts its next capture at once would
// otherwise be refused because of its own previous one.
constexpr auto kDeliveryGrace = std::chrono::seconds(1);

// Sets why a request is refused, or that memory ran out while that was found out.
void Refuse(SessionRequest* request, absl::FunctionRef<absl::Status()> why) {
  try {
    request->refused = why();
  } catch (const std::exception&) {
    request->refused = OutOfMemoryError();
  }
}

// Calls `done` and releases all that it holds. `done` builds the answer; if memory runs out in it,
// its caller gets no answer and the session thread continues.
void Deliver(SessionRequest* request, SessionResult result) {
  try {
    request->callbacks.done(std::move(result));
  } catch (const std::exception&) {
    Log(LogLevel::kError, "a capture could not be delivered: out of memory");
  }
  request->callbacks.done = nullptr;
}

void Evict(absl::AnyInvocable<void()>& evict) {
  try {
    evict();
  } catch (const std::exception&) {
    Log(LogLevel::kError, "an older capture could not be dropped: out of memory");
  }
}

}  // namespace

// Shared with the session thread, which exists only while there is work.
struct SessionManager::State : std::enable_shared_from_this<SessionManager::State> {
  explicit State(Dependencies dependencies)
      : uses_tsc(dependencies.uses_tsc),
        identity(std::move(dependencies.identity)),
        clock(dependencies.clock != nullptr
                  ? std::move(dependencies.clock)
                  : std::make_shared<ClockBaseline>(dependencies.uses_tsc)) {
    for (Collector* collector : dependencies.collectors) {
      slots.push_back(std::make_shared<CollectorSlot>(collector));
    }
  }

  // Puts a request into the queue, and starts the session thread if there is none. Answers the
  // request at once, on the caller's thread, if it has no memory or no thread for that.
  void Enqueue(SessionRequest request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Returns RESOURCE_EXHAUSTED, and leaves `*request` as it is, if that is so. Does not throw.
  absl::Status TryEnqueue(SessionRequest* request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void RunThread();
  std::shared_ptr<SessionRun> MakeRun(SessionRequest* request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void RunOne(SessionRequest request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Answers the queued requests that were cancelled, refused or have run out of time. Returns the
  // time at which the next one will.
  CondVar::Clock::time_point ProcessQueue();

  const bool uses_tsc;
  const IdentitySource identity;
  const std::shared_ptr<ClockBaseline> clock;
  // Made in advance: copies need no memory, which may be short when requests are cancelled or the
  // process exits.
  const absl::Status cancelled = absl::CancelledError("cancelled while queued");
  const absl::Status shutting_down =
      absl::UnavailableError("the worker is shutting down; no capture starts any more");
  mutable Mutex mutex;
  CondVar idle;
  std::vector<std::shared_ptr<CollectorSlot>> slots ABSL_GUARDED_BY(mutex);
  std::shared_ptr<absl::AnyInvocable<void()>> evict ABSL_GUARDED_BY(mutex);
  RequestQueue queue ABSL_GUARDED_BY(mutex);
  RunningSession running ABSL_GUARDED_BY(mutex);
  SessionTicket last_ticket ABSL_GUARDED_BY(mutex) = 0;
  bool thread_runs ABSL_GUARDED_BY(mutex) = false;
  bool shut_down ABSL_GUARDED_BY(mutex) = false;
};

SessionManager::SessionManager(Dependencies dependencies)
    : state_(std::make_shared<State>(std::move(dependencies))) {}

SessionManager::~SessionManager() = default;

SessionTicket SessionManager::Submit(SessionOptions options, WhenBusy when_busy,
                                     absl::Time deadline, SessionCallbacks callbacks) {
  State& state = *state_;
  const MutexLock lock(&state.mutex);
  SessionRequest request;
  request.ticket = ++state.last_ticket;
  request.options = std::move(options);
  request.deadline = deadline;
  request.callbacks = std::move(callbacks);
  if (state.shut_down) {
    request.refused = state.shutting_down;
  } else if (when_busy == WhenBusy::kRefuse) {
    const bool others_wait = !state.queue.empty();
    if (state.running.active() || (state.running.delivering() && others_wait)) {
      Refuse(&request, [&state]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) {
        return state.running.BusyError();
      });
    } else if (others_wait) {
      Refuse(&request, [] {
        return absl::AlreadyExistsError(
            "a capture is about to start here; wait for it, or end it with `capture stop`");
      });
    } else if (state.running.delivering()) {
      request.refuse_at = CondVar::Clock::now() + kDeliveryGrace;
    }
  }
  const SessionTicket ticket = request.ticket;
  state.Enqueue(std::move(request));
  return ticket;
}

void SessionManager::HoldSlot(SessionOptions options,
                              absl::AnyInvocable<void(SessionResult)> done) {
  State& state = *state_;
  const MutexLock lock(&state.mutex);
  SessionRequest request;
  request.ticket = ++state.last_ticket;
  request.options = std::move(options);
  request.deadline = absl::InfiniteFuture();
  request.callbacks.done = std::move(done);
  request.only_delivers = true;
  if (state.shut_down) {
    request.refused = state.shutting_down;
  } else if (!state.running.none() || !state.queue.empty()) {
    Refuse(&request, [] {
      return absl::AlreadyExistsError("another session has the slot, or waits for it");
    });
  }
  state.Enqueue(std::move(request));
}

void SessionManager::State::Enqueue(SessionRequest request) {
  absl::Status enqueued = TryEnqueue(&request);
  if (enqueued.ok()) return;
  const MutexUnlock unlocked(&mutex);
  SessionRequest leaving = std::move(request);  // destroyed without the lock
  SessionResult result;
  result.status = std::move(enqueued);
  Deliver(&leaving, std::move(result));
}

absl::Status SessionManager::State::TryEnqueue(SessionRequest* request) {
  try {
    queue.Push(request);
  } catch (const std::exception&) {
    return OutOfMemoryError();
  }
  if (thread_runs) {
    running.Wake();
    return absl::OkStatus();
  }
  absl::Status launched;
  try {
    launched = StartWorkerThread("jobscope-session",
                                 [shared = shared_from_this()] { shared->RunThread(); });
  } catch (const std::exception&) {
    launched = OutOfMemoryError();
  }
  thread_runs = launched.ok();
  // A request that stayed in the queue would run with the next one, after its caller has received
  // an error.
  if (!launched.ok()) *request = queue.TakeLast();
  return launched;
}

void SessionManager::SetEvictor(absl::AnyInvocable<void()> evict) {
  const MutexLock lock(&state_->mutex);
  state_->evict = std::make_shared<absl::AnyInvocable<void()>>(std::move(evict));
}

bool SessionManager::Command(SessionTicket ticket, StartCommand command) {
  const MutexLock lock(&state_->mutex);
  return state_->running.Is(ticket) && state_->running.run()->control().Command(std::move(command));
}

std::optional<SessionProgress> SessionManager::Progress(SessionTicket ticket) const {
  std::shared_ptr<SessionRun> run;
  {
    const MutexLock lock(&state_->mutex);
    if (!state_->running.Is(ticket)) return std::nullopt;
    run = state_->running.run();
  }
  return run->Progress();
}

void SessionManager::Cancel(SessionTicket ticket) {
  State& state = *state_;
  const MutexLock lock(&state.mutex);
  if (state.running.Is(ticket)) {
    state.running.run()->control().Cancel();
  } else if (state.queue.Refuse(ticket, state.cancelled)) {
    state.running.Wake();
  }
}

std::optional<std::string> SessionManager::Stop(std::string_view session_id, EndedBy cause) {
  State& state = *state_;
  const MutexLock lock(&state.mutex);
  if (state.running.active()) {
    SessionRun& run = *state.running.run();
    if (session_id.empty() || run.options().session_id == session_id) {
      run.control().Stop(cause);
      return run.options().session_id;
    }
  }
  if (session_id.empty()) return std::nullopt;
  if (!state.queue.RefuseSession(session_id, absl::CancelledError("stopped while queued"))) {
    return std::nullopt;
  }
  state.running.Wake();
  return std::string(session_id);
}

bool SessionManager::StopTicket(SessionTicket ticket, EndedBy cause) {
  const MutexLock lock(&state_->mutex);
  if (!state_->running.Is(ticket) || state_->running.delivering()) return false;
  state_->running.run()->control().Stop(cause);
  return true;
}

void SessionManager::SetClientLost(SessionTicket ticket, std::optional<ClientLost> lost) {
  const MutexLock lock(&state_->mutex);
  if (state_->running.Is(ticket)) state_->running.SetClientLost(lost);
}

std::optional<v1::Busy> SessionManager::busy() const {
  const MutexLock lock(&state_->mutex);
  if (state_->running.none()) return std::nullopt;
  v1::Busy busy = state_->running.Describe();
  busy.set_waiting(static_cast<uint32_t>(state_->queue.size()));
  return busy;
}

bool SessionManager::AddCollector(Collector* collector) {
  const MutexLock lock(&state_->mutex);
  for (const auto& slot : state_->slots) {
    if (slot->collector()->name() == collector->name()) return false;
  }
  state_->slots.push_back(std::make_shared<CollectorSlot>(collector));
  return true;
}

std::vector<v1::CollectorState> SessionManager::DescribeCollectors() const {
  std::vector<std::shared_ptr<CollectorSlot>> slots;
  {
    const MutexLock lock(&state_->mutex);
    slots = state_->slots;
  }
  std::vector<v1::CollectorState> states;
  for (const auto& slot : slots) states.push_back(slot->Describe());
  return states;
}

bool SessionManager::Shutdown(absl::Duration grace) {
  State& state = *state_;
  const MutexLock lock(&state.mutex);
  state.shut_down = true;
  state.queue.RefuseAll(state.shutting_down);
  if (!state.running.none()) {
    state.running.run()->control().Stop(EndedBy::kShutdown);
    state.running.Wake();
  }
  return state.idle.WaitFor(
      &state.mutex, grace,
      [&state]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) { return !state.thread_runs; });
}

void SessionManager::State::RunThread() {
  const std::shared_ptr<State> keep = shared_from_this();  // until this thread has ended
  const MutexLock lock(&mutex);
  // Also if it ends by an exception: the next request starts another thread.
  const absl::Cleanup ended = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    thread_runs = false;
    idle.NotifyAll();
  };
  while (!queue.empty()) {
    {
      const MutexUnlock unlocked(&mutex);
      ProcessQueue();
    }
    if (queue.empty()) break;
    RunOne(queue.TakeFirst());
  }
}

std::shared_ptr<SessionRun> SessionManager::State::MakeRun(SessionRequest* request) {
  SessionRun::Environment environment;
  environment.slots = slots;
  environment.uses_tsc = uses_tsc;
  environment.clock = clock;
  environment.identity = identity;
  environment.armed = std::move(request->callbacks.armed);
  environment.started = std::move(request->callbacks.started);
  environment.process_queue = [this] { return ProcessQueue(); };
  return std::make_shared<SessionRun>(std::move(request->options), std::move(environment));
}

void SessionManager::State::RunOne(SessionRequest request) {
  SessionResult result;
  if (!request.refused.ok()) {  // as all are at the shutdown
    result.status = request.refused;
  } else {
    try {
      running = RunningSession(MakeRun(&request), request.ticket);
    } catch (const std::exception&) {
      result.status = OutOfMemoryError();
    }
  }
  if (!result.status.ok()) {
    const MutexUnlock unlocked(&mutex);
    Deliver(&request, std::move(result));
    return;
  }
  std::shared_ptr<SessionRun> run = running.run();
  if (request.only_delivers) {
    run->SkipToDelivery();
  } else {
    const std::shared_ptr<absl::AnyInvocable<void()>> evictor = evict;
    const MutexUnlock unlocked(&mutex);
    // The run's store maps no memory before it is armed: two traces are never in memory at once.
    if (evictor != nullptr && *evictor) Evict(*evictor);
    result = run->Run();
  }
  running.BeginDelivery();
  {
    const MutexUnlock unlocked(&mutex);
    // The slot stays taken while `done` assembles the answer, or for as long as the receiver keeps
    // `slot` to send it.
    try {
      result.slot =
          std::shared_ptr<void>(run.get(), [run](void* /*run*/) { run->control().Delivered(); });
    } catch (const std::exception&) {
      // Out of memory: the slot is released at once.
    }
    Deliver(&request, std::move(result));
    run->AwaitDelivered();
  }
  running = RunningSession();
  // Unmaps the store, which takes a while if it is large. The next session begins on this thread:
  // two stores never exist at once.
  const MutexUnlock unlocked(&mutex);
  run.reset();
}

CondVar::Clock::time_point SessionManager::State::ProcessQueue() {
  RequestQueue::Requests leaving;
  auto next = CondVar::Clock::time_point::max();
  {
    const MutexLock lock(&mutex);
    next = queue.TakeLeaving(
        running.delivering(),
        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return running.BusyError(); }, &leaving);
  }
  for (SessionRequest& request : leaving) {
    SessionResult result;
    result.status = request.refused;
    Deliver(&request, std::move(result));
  }
  return next;
}

}  // namespace jobscope
