// SPDX-License-Identifier: Apache-2.0
#include "server/process/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::StatusOr<Environment> Read(const std::map<std::string, std::string>& variables) {
  return ReadEnvironment([&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(Environment, IsEmptyByDefault) {
  const auto environment = Read({});
  ASSERT_TRUE(environment.ok());
  EXPECT_TRUE(environment->options == ServerOptions());
  EXPECT_EQ(environment->port_dir, "");
  EXPECT_FALSE(environment->disable);
}

TEST(Environment, ReadsEveryVariable) {
  const auto environment = Read({{"JOBSCOPE_LISTEN", "127.0.0.1:0"},
                                 {"JOBSCOPE_DISABLE", "1"},
                                 {"JOBSCOPE_PORT_DIR", "/run/ports"},
                                 {"JOBSCOPE_INSECURE", "Yes"},
                                 {"JOBSCOPE_ALLOW_CLOSE", "on"},
                                 {"JOBSCOPE_STORE_MB", "64"},
                                 {"JOBSCOPE_TLS_CERT", "a"},
                                 {"JOBSCOPE_TLS_KEY", "b"},
                                 {"JOBSCOPE_TLS_CA", "c"},
                                 {"JOBSCOPE_TOKEN_FILE", "d"},
                                 {"JOBSCOPE_MAX_TRACE_MB", "3"},
                                 {"JOBSCOPE_MAX_DURATION_MS", "4"},
                                 {"JOBSCOPE_LOG_LEVEL", "Debug"}});
  ASSERT_TRUE(environment.ok()) << environment.status();
  EXPECT_TRUE(environment->disable);
  EXPECT_EQ(environment->port_dir, "/run/ports");
  const ServerOptions& options = environment->options;
  EXPECT_EQ(options.address, "127.0.0.1:0");
  EXPECT_TRUE(options.insecure);
  EXPECT_TRUE(options.allow_close);
  EXPECT_EQ(options.store_bytes, uint64_t{64} << 20);
  EXPECT_EQ(options.tls_cert, "a");
  EXPECT_EQ(options.tls_key, "b");
  EXPECT_EQ(options.tls_ca, "c");
  EXPECT_EQ(options.token_file, "d");
  EXPECT_EQ(options.max_trace_bytes, uint64_t{3} << 20);
  EXPECT_EQ(options.max_duration_ms, 4u);
}

TEST(Environment, AnEmptyVariableIsNotSet) {
  const auto environment =
      Read({{"JOBSCOPE_DISABLE", ""}, {"JOBSCOPE_STORE_MB", ""}, {"JOBSCOPE_LOG_LEVEL", ""}});
  ASSERT_TRUE(environment.ok()) << environment.status();
  EXPECT_FALSE(environment->disable);
  EXPECT_EQ(environment->options.store_bytes, 0u);
}

TEST(Environment, ABadValueIsNamed) {
  struct {
    const char* name;
    const char* value;
    const char* range;
  } const cases[] = {
      {"JOBSCOPE_DISABLE", "maybe", "1 or 0"},
      {"JOBSCOPE_INSECURE", "2", "1 or 0"},
      {"JOBSCOPE_ALLOW_CLOSE", "please", "1 or 0"},
      {"JOBSCOPE_STORE_MB", "0", "1 to 1900"},
      {"JOBSCOPE_STORE_MB", "1901", "1 to 1900"},
      {"JOBSCOPE_STORE_MB", "-1", "1 to 1900"},
      {"JOBSCOPE_STORE_MB", "256M", "1 to 1900"},
      {"JOBSCOPE_STORE_MB", "99999999999999999999", "1 to 1900"},
      {"JOBSCOPE_LOG_LEVEL", "loud", "debug, info"},
  };
  for (const auto& bad : cases) {
    const auto environment = Read({{bad.name, bad.value}});
    EXPECT_EQ(environment.status().code(), absl::StatusCode::kInvalidArgument) << bad.name;
    EXPECT_THAT(std::string(environment.status().message()),
                AllOf(HasSubstr(bad.name), HasSubstr(bad.value), HasSubstr(bad.range)));
  }
}

}  // namespace
}  // namespace jobscope
