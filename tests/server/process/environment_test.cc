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
  EXPECT_EQ(environment->listen, "");
  EXPECT_EQ(environment->port_dir, "");
  EXPECT_EQ(environment->tls_cert, "");
  EXPECT_EQ(environment->tls_key, "");
  EXPECT_EQ(environment->tls_ca, "");
  EXPECT_EQ(environment->token_file, "");
  EXPECT_FALSE(environment->disable);
  EXPECT_FALSE(environment->insecure);
  EXPECT_FALSE(environment->allow_close);
  EXPECT_FALSE(environment->store_bytes.has_value());
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
                                 {"JOBSCOPE_LOG_LEVEL", "Debug"}});
  ASSERT_TRUE(environment.ok()) << environment.status();
  EXPECT_EQ(environment->listen, "127.0.0.1:0");
  EXPECT_TRUE(environment->disable);
  EXPECT_EQ(environment->port_dir, "/run/ports");
  EXPECT_TRUE(environment->insecure);
  EXPECT_TRUE(environment->allow_close);
  EXPECT_EQ(environment->store_bytes, uint64_t{64} << 20);
  EXPECT_EQ(environment->tls_cert, "a");
  EXPECT_EQ(environment->tls_key, "b");
  EXPECT_EQ(environment->tls_ca, "c");
  EXPECT_EQ(environment->token_file, "d");
}

TEST(Environment, AnEmptyVariableIsNotSet) {
  const auto environment =
      Read({{"JOBSCOPE_DISABLE", ""}, {"JOBSCOPE_STORE_MB", ""}, {"JOBSCOPE_LOG_LEVEL", ""}});
  ASSERT_TRUE(environment.ok()) << environment.status();
  EXPECT_FALSE(environment->disable);
  EXPECT_FALSE(environment->store_bytes.has_value());
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
