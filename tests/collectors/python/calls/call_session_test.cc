// SPDX-License-Identifier: Apache-2.0
//
// Pairs begins and ends of calls; needs no Python.
#include "collectors/python/calls/call_session.h"

#include <pthread.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "collectors/python/calls/call_ring.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace jobscope::python {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A code object consists of its name.
Object* Code(const char* name) { return reinterpret_cast<Object*>(const_cast<char*>(name)); }

Api FakeApi() {
  Api api;
  api.minor = 13;
  api.IsFinalizing = [] { return 0; };
  api.DecRef = [](Object*) {};
  api.Err_Clear = [] {};
  api.Object_GetAttrString = [](Object* code, const char* attribute) {
    return std::strcmp(attribute, "co_qualname") == 0 ? code : nullptr;
  };
  api.Unicode_AsEncodedString = [](Object* text, const char*, const char*) { return text; };
  api.Bytes_AsStringAndSize = [](Object* text, char** data, intptr_t* size) {
    *data = reinterpret_cast<char*>(text);
    *size = static_cast<intptr_t>(std::strlen(*data));
    return 0;
  };
  api.Import_GetModuleDict = []() -> Object* { return nullptr; };
  api.Dict_GetItemString = [](Object*, const char*) -> Object* { return nullptr; };
  api.Long_FromLongLong = [](long long) -> Object* { return nullptr; };
  return api;
}

TraceApi FakeTraceApi() {
  TraceApi trace;
  trace.RequestCodeExtraIndex = [](void (*)(void*)) -> intptr_t { return -1; };
  return trace;
}

class CallSessionTest : public ::testing::Test {
 protected:
  void Activate(const std::vector<uint64_t>& idents) {
    CallSession::Limits limits;
    limits.max_calls = 1000;
    ASSERT_TRUE(session_.Activate(limits, idents));
  }
  void Enter(const char* name) { session_.Enter(Code(name)); }
  void Leave(const char* name) { session_.Leave(Code(name)); }

  // The names of the calls, "+" if they are truncated.
  std::vector<std::string> Calls() {
    std::vector<CallRecord> records(100);
    records.resize(session_.Take(records.data(), records.size()));
    std::vector<std::string> calls;
    for (const CallRecord& record : records) {
      const std::string& name = session_.codes()->Name(record.code);
      calls.push_back(name.substr(name.find(' ') + 1) + (record.truncated != 0 ? "+" : ""));
    }
    return calls;
  }

  const Api api_ = FakeApi();
  const TraceApi trace_ = FakeTraceApi();
  CallSession session_{api_, trace_, false, std::vector<CallRecord>(CallRing::kRecords)};
};

TEST_F(CallSessionTest, CallsNest) {
  Activate({});
  Enter("outer");
  Enter("inner");
  Leave("inner");
  Leave("outer");
  EXPECT_THAT(Calls(), ElementsAre("inner", "outer"));
  EXPECT_EQ(session_.unpaired(), 0u);
}

TEST_F(CallSessionTest, AnEndWhileNothingIsOpenIsOfACallThatWasOpenAtTheBegin) {
  Activate({pthread_self()});
  Enter("inner");
  Leave("inner");
  Leave("middle");
  Enter("inner");
  Leave("inner");
  Leave("outer");
  EXPECT_THAT(Calls(), ElementsAre("inner", "middle+", "inner", "outer+"));
  EXPECT_EQ(session_.unpaired(), 0u);
}

// Before 3.12 the hook of a new thread comes after its first calls.
TEST_F(CallSessionTest, OfALaterThreadItIsNot) {
  Activate({});
  Enter("run");
  Leave("run");
  Leave("bootstrap");
  EXPECT_THAT(Calls(), ElementsAre("run"));
  EXPECT_EQ(session_.unpaired(), 0u);
}

// One greenlet is left within `inner`, and comes back after the end of what ran before it.
TEST_F(CallSessionTest, GreenletsLoseCallsAndAreCounted) {
  Activate({pthread_self()});
  Enter("drive");
  Enter("handler");
  Enter("inner");
  Leave("drive");
  EXPECT_EQ(session_.unpaired(), 2u);
  Leave("inner");
  Leave("handler");
  EXPECT_THAT(Calls(), ElementsAre("drive"));
  EXPECT_EQ(session_.unpaired(), 2u);
  Leave("main");
  EXPECT_THAT(Calls(), ElementsAre("main+"));
}

TEST_F(CallSessionTest, AnEndWithoutABeginIsCounted) {
  Activate({pthread_self()});
  Enter("outer");
  Leave("other");
  EXPECT_THAT(Calls(), IsEmpty());
  EXPECT_EQ(session_.unpaired(), 1u);
  Leave("outer");
  EXPECT_THAT(Calls(), ElementsAre("outer"));
}

}  // namespace
}  // namespace jobscope::python
