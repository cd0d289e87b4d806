// SPDX-License-Identifier: Apache-2.0
#include "server/process/server_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <variant>

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Values that are no defaults.
void Give(const char* text, std::string* member) { *member = text; }
void Give(const char* /*text*/, bool* member) { *member = true; }
void Give(const char* /*text*/, uint64_t* member) { *member = limits::kMinTraceBytes + 1; }

TEST(ServerOptionsTest, OptionsInCodePrecedeTheEnvironmentAndThatTheDefaults) {
  const ServerOptions defaults = Merge({}, {}).value();
  EXPECT_TRUE(defaults == defaults);
  EXPECT_EQ(defaults.store_bytes, uint64_t{256} << 20);
  for (const ServerOption& option : kServerOptions) {
    ServerOptions in_code;
    ServerOptions in_environment;
    std::visit(
        [&](auto member) {
          Give("environment", &(in_environment.*member));
          const ServerOptions of_environment = Merge({}, in_environment).value();
          EXPECT_FALSE(of_environment == defaults) << option.name;
          EXPECT_EQ(of_environment.*member, in_environment.*member) << option.name;
          if (option.most < limits::kMinTraceBytes) return;
          Give("code", &(in_code.*member));
          const ServerOptions of_code = Merge(in_code, in_environment).value();
          EXPECT_EQ(of_code.*member, in_code.*member) << option.name;
        },
        option.member);
  }
}

TEST(ServerOptionsTest, KnowsWhatGaveAText) {
  ServerOptions in_code;
  EXPECT_EQ(GiverOf(&ServerOptions::tls_ca, in_code), "JOBSCOPE_TLS_CA");
  in_code.tls_ca = "ca.pem";
  EXPECT_EQ(GiverOf(&ServerOptions::tls_ca, in_code), "options.tls_ca");
}

TEST(ServerOptionsTest, ANumberOutOfRangeIsNamed) {
  for (const ServerOption& option : kServerOptions) {
    const auto* const member = std::get_if<uint64_t ServerOptions::*>(&option.member);
    if (member == nullptr || option.most == UINT64_MAX) continue;
    ServerOptions options;
    options.** member = option.most + 1;
    const auto status = Merge(options, {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << option.name;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(option.name), HasSubstr(std::to_string(option.most))));
  }
}

}  // namespace
}  // namespace jobscope
