// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/segment/event_names.h"

#include <gtest/gtest.h>

namespace jobscope::xspace {
namespace {

TEST(EventNamesTest, NamesThatXProfMisreadsGetAPrefix) {
  for (const char* name :
       {"train", "train_step", "testing", "TraceContext", "FunctionRun", "EagerExecute: MatMul"}) {
    EXPECT_EQ(SafeEventName(name), std::string("scope/") + name);
    EXPECT_FALSE(IsMisleadingName(SafeEventName(name)));
  }
  for (const char* name : {"Train", "my_train", "train/step", "load_batch", "tes"}) {
    EXPECT_EQ(SafeEventName(name), name);
  }
  EXPECT_EQ(SafeEventName(""), "unnamed");
}

TEST(EventNamesTest, KeysThatXProfActsUponGetAPrefix) {
  for (const char* key : {"group_id", "_r", "_anything", "step_num", "correlation_id", "tf_op"}) {
    EXPECT_EQ(SafeStatName(key), std::string("arg.") + key);
  }
  for (const char* key : {"bytes", "file", "step", "group"}) EXPECT_EQ(SafeStatName(key), key);
  EXPECT_EQ(SafeStatName(""), "arg");
}

TEST(EventNamesTest, CppNamesBecomeOps) {
  EXPECT_EQ(TfOpOf("forward", ""), "forward:Scope");
  EXPECT_EQ(TfOpOf("forward", "compute"), "forward:Compute");
  EXPECT_EQ(TfOpOf("ns::Class::method(int, float)", ""), "ns/Class/method:Scope");
  EXPECT_EQ(TfOpOf("load batch", "input io"), "load_batch:Input_io");
  EXPECT_EQ(TfOpOf("operator()", "7"), "operator:C7");
  EXPECT_EQ(TfOpOf("::x", ""), "x/x:Scope");
  EXPECT_EQ(TfOpOf("(lambda)", ""), "x_lambda_:Scope");
  EXPECT_EQ(TfOpOf("", ""), "x:Scope");
}

TEST(EventNamesTest, NamesThatAreOpsStayAsTheyAre) {
  EXPECT_EQ(TfOpOf("model/dense:MatMul", "x"), "");
  EXPECT_EQ(TfOpOf("model/dense:matmul", ""), "model/dense_matmul:Scope");
}

}  // namespace
}  // namespace jobscope::xspace
