// SPDX-License-Identifier: Apache-2.0
//
// Implements a provider whose callbacks are controlled by a test.
#ifndef TESTS_COLLECTORS_PROVIDER_FAKE_PROVIDER_H_
#define TESTS_COLLECTORS_PROVIDER_FAKE_PROVIDER_H_

#include <condition_variable>
#include <cstdio>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "collectors/provider/provider_collector.h"
#include "jobscope/provider.h"

namespace jobscope {

inline jobscope_provider_event Span(const char* name, int64_t begin_ns, int64_t duration_ns) {
  jobscope_provider_event event = {};
  event.size = sizeof(event);
  event.name = name;
  event.begin_ns = begin_ns;
  event.duration_ns = duration_ns;
  return event;
}

// Thread-safe.
class FakeProvider {
 public:
  using Body = std::function<void(const jobscope_provider_session&)>;

  // What a verb ("arm", "start", "stop") does.
  void On(const std::string& verb, Body body) {
    std::lock_guard<std::mutex> lock(mutex_);
    bodies_[verb] = std::move(body);
  }
  void FailIn(const std::string& verb, const std::string& reason) {
    std::lock_guard<std::mutex> lock(mutex_);
    failures_[verb] = reason;
  }
  // The verb hangs until Release.
  void HangIn(const std::string& verb) {
    std::lock_guard<std::mutex> lock(mutex_);
    hang_in_ = verb;
  }
  void Release() {
    std::lock_guard<std::mutex> lock(mutex_);
    hang_in_.clear();
    changed_.notify_all();
  }
  // Waits, at most 20 s, until the verb has been called.
  bool AwaitCall(const std::string& verb) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] {
      for (const std::string& call : calls_) {
        if (call == verb) return true;
      }
      return false;
    });
  }
  std::vector<std::string> calls() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return calls_;
  }

  ProviderCallbacks callbacks() {
    ProviderCallbacks callbacks;
    callbacks.context = this;
    callbacks.arm = [](void* me, const jobscope_provider_session* session, char* reason,
                       size_t size) { return Called(me, "arm", *session, reason, size); };
    callbacks.start = [](void* me, const jobscope_provider_session* session, char* reason,
                         size_t size) { return Called(me, "start", *session, reason, size); };
    callbacks.stop = [](void* me, const jobscope_provider_session* session, char* reason,
                        size_t size) { return Called(me, "stop", *session, reason, size); };
    return callbacks;
  }

 private:
  static int Called(void* me, const char* verb, const jobscope_provider_session& session,
                    char* reason, size_t size) {
    return static_cast<FakeProvider*>(me)->Run(verb, session, reason, size);
  }

  int Run(const std::string& verb, const jobscope_provider_session& session, char* reason,
          size_t size) {
    Body body;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      calls_.push_back(verb);
      changed_.notify_all();
      changed_.wait(lock, [&] { return hang_in_ != verb; });
      if (const auto failure = failures_.find(verb); failure != failures_.end()) {
        std::snprintf(reason, size, "%s", failure->second.c_str());
        return 1;
      }
      body = bodies_[verb];
    }
    if (body) body(session);
    return 0;
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<std::string, Body> bodies_;
  std::map<std::string, std::string> failures_;
  std::string hang_in_;
  std::vector<std::string> calls_;
};

}  // namespace jobscope

#endif  // TESTS_COLLECTORS_PROVIDER_FAKE_PROVIDER_H_
