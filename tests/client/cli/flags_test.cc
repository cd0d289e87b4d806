// SPDX-License-Identifier: Apache-2.0
#include "client/cli/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "client/cli/capture_flags.h"
#include "client/cli/run/run_verb.h"
#include "client/cli/verbs.h"

namespace jobscope {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

FlagsResult Parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"/usr/bin/capture"});
  const VerbResult named = ParseVerb(arguments);
  return ParseFlags(*named.verb->worker_verb, named.program, named.arguments);
}

TEST(Flags, Defaults) {
  const FlagsResult result = Parse({"--service_addr=a:1", "--logdir=/tmp"});
  ASSERT_TRUE(result.flags.has_value()) << result.text;
  EXPECT_EQ(result.flags->duration_ms, 1000);
  EXPECT_EQ(result.flags->num_tracing_attempts, 3);
  EXPECT_EQ(result.flags->recording.host_tracer_level, 2);
  EXPECT_EQ(result.flags->recording.device_tracer_level, 1);
  EXPECT_EQ(result.flags->recording.python_tracer_level, 0);
  EXPECT_EQ(result.flags->connect_timeout_ms, 5000);
  EXPECT_EQ(result.flags->max_parallel, 256);
  EXPECT_FALSE(result.flags->min_workers.has_value());
}

TEST(Flags, AllAreTaken) {
  const FlagsResult result = Parse({"--service_addr",
                                    "a:1,b:2",
                                    "--logdir=/tmp",
                                    "--duration_ms=2000",
                                    "--delay_ms=5",
                                    "--num_tracing_attempts=1",
                                    "--host_tracer_level=0",
                                    "--device_tracer_level=0",
                                    "--python_tracer_level=1",
                                    "--session_id=x",
                                    "--connect_timeout_ms=7",
                                    "--max_parallel=1",
                                    "--max_trace_mb=9",
                                    "--max_duration_ms=3000",
                                    "--min_workers=2",
                                    "--protocol=tensorflow",
                                    "--transfer_timeout_ms=8",
                                    "--json",
                                    "--quiet",
                                    "--tls_ca=none",
                                    "--tls_cert=c",
                                    "--tls_key=k",
                                    "--token_file=t",
                                    "--tls_server_name=n"});
  ASSERT_TRUE(result.flags.has_value()) << result.text;
  EXPECT_EQ(result.flags->service_addr, "a:1,b:2");
  EXPECT_EQ(result.flags->duration_ms, 2000);
  EXPECT_EQ(result.flags->session_id, "x");
  EXPECT_EQ(result.flags->min_workers, 2);
  EXPECT_EQ(result.flags->transfer_timeout_ms, 8);
  EXPECT_EQ(result.flags->credentials.tls_ca, "none");
  EXPECT_EQ(result.flags->credentials.tls_cert, "c");
  EXPECT_EQ(result.flags->credentials.tls_key, "k");
  EXPECT_EQ(result.flags->credentials.token_file, "t");
  EXPECT_EQ(result.flags->credentials.tls_server_name, "n");
  EXPECT_TRUE(result.flags->json);
  EXPECT_TRUE(result.flags->quiet);
}

TEST(Flags, StepsAndLookback) {
  const FlagsResult steps =
      Parse({"--service_addr=a:1", "--logdir=/tmp", "--steps=5", "--start_step=100",
             "--protocol=native", "--sample=2", "--part_mb=1", "--resume_timeout_ms=0"});
  ASSERT_TRUE(steps.flags.has_value()) << steps.text;
  EXPECT_EQ(steps.flags->steps, 5);
  EXPECT_EQ(steps.flags->start_step, 100);
  EXPECT_EQ(steps.flags->sample, 2);
  EXPECT_EQ(steps.flags->part_mb, 1);
  EXPECT_EQ(steps.flags->resume_timeout_ms, 0);
  const FlagsResult dump =
      Parse({"--service_addr=a:1", "--logdir=/tmp", "--lookback_ms=10000", "--duration_ms=0"});
  ASSERT_TRUE(dump.flags.has_value()) << dump.text;
  EXPECT_EQ(dump.flags->lookback_ms, 10'000);
  // A bound of the steps is not a mistake about a duration that nobody gave.
  const FlagsResult bounded =
      Parse({"--service_addr=a:1", "--logdir=/tmp", "--steps=5", "--max_duration_ms=500"});
  ASSERT_TRUE(bounded.flags.has_value()) << bounded.text;
  EXPECT_EQ(bounded.flags->duration_ms, 500);
}

class UsageError
    : public ::testing::TestWithParam<std::pair<std::vector<std::string>, const char*>> {};

TEST_P(UsageError, NamesCulpritAndRemedy) {
  std::vector<std::string> arguments = {"--service_addr=a:1", "--logdir=/tmp"};
  arguments.insert(arguments.end(), GetParam().first.begin(), GetParam().first.end());
  const FlagsResult result = Parse(arguments);
  EXPECT_FALSE(result.flags.has_value());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.text, HasSubstr(GetParam().second));
  EXPECT_EQ(result.text.back(), '\n');
}

std::pair<std::vector<std::string>, const char*> Case(std::vector<std::string> arguments,
                                                      const char* text) {
  return {std::move(arguments), text};
}

INSTANTIATE_TEST_SUITE_P(
    Table, UsageError,
    ::testing::Values(
        Case({"--duration_ms=0"},
             "--duration_ms=0 is out of range; give 1 to 60000, or add --lookback_ms"),
        Case({"--duration_ms=-5"}, "--duration_ms=-5"),
        Case({"--duration_ms=60001"}, "raise --max_duration_ms"),
        Case({"--duration_ms=2s"}, "--duration_ms"),
        Case({"--duration_ms=99999999999999999999"}, "--duration_ms"),
        Case({"--duration_ms"}, "--duration_ms"),
        Case({"--max_duration_ms=86400001"}, "give 1 to 86400000"),
        Case({"--num_tracing_attempts=0"}, "--num_tracing_attempts=0"),
        Case({"--delay_ms=-1"}, "--delay_ms=-1"),
        Case({"--host_tracer_level=4"}, "--host_tracer_level=4 is out of range; give 0 to 3"),
        Case({"--device_tracer_level=2"}, "give 0 to 1"),
        Case({"--python_tracer_level=3"}, "give 0 to 2"),
        Case({"--device_tracer=xla"}, "--device_tracer: \"xla\" is none of"),
        Case({"--frameworks=torch;jax"}, "--frameworks: \"torch;jax\" is not a name"),
        Case({"--connect_timeout_ms=0"}, "--connect_timeout_ms=0"),
        Case({"--max_parallel=0"}, "--max_parallel=0"),
        Case({"--max_trace_mb=-1"}, "--max_trace_mb=-1"),
        Case({"--min_workers=0"}, "--min_workers=0"), Case({"--session_id=../x"}, "session_id"),
        Case({"--protocol=http"}, "--protocol=http"),
        Case({"--steps=0"}, "--steps=0 is out of range; give 1 to 1000000"),
        Case({"--start_step=3"}, "give --steps=N too"),
        Case({"--steps=3", "--start_step=-1"}, "--start_step=-1"),
        Case({"--steps=3", "--protocol=tensorflow"}, "leave out --protocol=tensorflow"),
        Case({"--steps=3", "--duration_ms=0", "--lookback_ms=1"}, "exclude each other"),
        Case({"--steps=3", "--duration_ms=60001"}, "raise --max_duration_ms"),
        Case({"--steps=3", "--lookback_ms=1"}, "exclude each other"),
        Case({"--lookback_ms=-1"}, "--lookback_ms=-1"),
        Case({"--lookback_ms=3600001"}, "give 0 to 3600000"),
        Case({"--lookback_ms=3", "--protocol=tensorflow"}, "--lookback_ms needs the native"),
        Case({"--file_mode=0400"}, "--file_mode=0400 is not a file mode"),
        Case({"--file_mode=0700"}, "give 0600"), Case({"--file_mode=rw"}, "--file_mode=rw"),
        Case({"--part_mb=0"}, "--part_mb=0"), Case({"--part_mb=1901"}, "give 1 to 1900"),
        Case({"--resume_timeout_ms=-1"}, "--resume_timeout_ms=-1"),
        Case({"--steps=0x10"}, "--steps: \"0x10\" is not a decimal number"),
        Case({"--min_workers", ""}, "--min_workers: \"\" is not a decimal number"),
        Case({"--session_id", "--quiet"}, "--session_id: \"--quiet\" is a flag, not a value"),
        Case({"--sample=0"}, "--sample=0"), Case({"--nosuch=1"}, "--nosuch"),
        Case({"stray"}, "stray"), Case({"--logdir=/x"}, "--logdir"),
        Case({"--service_addr="}, "--service_addr")));

TEST(Flags, WhatIsMissingIsNamed) {
  EXPECT_THAT(Parse({}).text, HasSubstr("--service_addr is missing"));
  EXPECT_THAT(Parse({"--service_addr=a:1"}).text, HasSubstr("--logdir is missing"));
  EXPECT_EQ(Parse({}).exit_code, 2);
}

TEST(Flags, NumbersAreDecimal) {
  const FlagsResult result =
      Parse({"--service_addr=a:1", "--logdir=/tmp", "--duration_ms=010", "--delay_ms=0100",
             "--steps=08", "--min_workers=007", "--host_tracer_level=03"});
  ASSERT_TRUE(result.flags.has_value()) << result.text;
  EXPECT_EQ(result.flags->duration_ms, 10);
  EXPECT_EQ(result.flags->delay_ms, 100);
  EXPECT_EQ(result.flags->steps, 8);
  EXPECT_EQ(result.flags->min_workers, 7);
  EXPECT_EQ(result.flags->recording.host_tracer_level, 3);
}

TEST(Flags, AnEmptyValueIsRefused) {
  for (const char* flag : {"--logdir=", "--session_id=", "--nosuch=", "--="}) {
    const FlagsResult result = Parse({"stop", "--service_addr=a:1", flag, "--quiet"});
    EXPECT_EQ(result.exit_code, 2) << flag;
    EXPECT_THAT(result.text, HasSubstr(absl::StrCat("stop: ", flag, " has no value")));
  }
  const RunFlagsResult run = ParseRunFlags({"--port_dir=", "--quiet", "--", "train"});
  EXPECT_THAT(run.text, HasSubstr("jobscope run: --port_dir= has no value"));
  for (const char* argument : {"--port_dir=/x=", "--quiet"}) {
    EXPECT_TRUE(ParseRunFlags({argument, "--", "train"}).run) << argument;
  }
  // In two words, as a shell makes of --logdir "$UNSET".
  for (const char* flag : {"--session_id", "--tls_ca"}) {
    const FlagsResult result = Parse({"stop", "--service_addr=a:1", flag, "", "--quiet"});
    EXPECT_EQ(result.exit_code, 2) << flag;
    EXPECT_THAT(result.text, HasSubstr(absl::StrCat("stop: ", flag, ": has no value; give one")));
  }
  EXPECT_THAT(ParseRunFlags({"--port_dir", "", "--quiet", "--", "train"}).text,
              HasSubstr("jobscope run: --port_dir: has no value; give one"));
  // Arguments of the program that `run` starts.
  EXPECT_TRUE(ParseRunFlags({"--", "train", "--logdir=", "--logdir", ""}).run);
}

TEST(Flags, AFlagThatIsGivenTwice) {
  const FlagsResult result = Parse({"check", "--service_addr=a:1", "--service_addr=b:1"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.text, HasSubstr("check: --service_addr is given 2 times; give it once, with "
                                     "commas between the entries of a list"));
  EXPECT_TRUE(Parse({"check", "--service_addr=a:1", "--quiet", "--quiet"}).flags->quiet);
}

TEST(Flags, AFlagIsNoValueForRun) {
  const RunFlagsResult result = ParseRunFlags({"--listen", "--quiet", "--", "true"});
  EXPECT_FALSE(result.run);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.text, HasSubstr("--listen: \"--quiet\" is a flag"));
}

TEST(Flags, EveryVerbHasItsOwn) {
  EXPECT_TRUE(Parse({"check", "--service_addr=a:1", "--verbose"}).flags->verbose);
  EXPECT_EQ(Parse({"stop", "--service_addr=a:1", "--session_id=x"}).flags->session_id, "x");
  EXPECT_TRUE(Parse({"stop", "--service_addr=a:1", "--server"}).flags->server);
  EXPECT_THAT(Parse({"stop", "--service_addr=a:1", "--server", "--session_id=x"}).text,
              HasSubstr("--server and --session_id exclude each other"));
  EXPECT_EQ(Parse({"check", "--service_addr=a:1", "--server"}).exit_code, 2);
  EXPECT_EQ(Parse({"check", "--service_addr=a:1", "--logdir=/x"}).exit_code, 2);
  EXPECT_EQ(Parse({"check"}).exit_code, 2);
}

TEST(Flags, WhatWasMeantIsSuggested) {
  const auto text = [](const std::string& flag) {
    return Parse({"--service_addr=a:1", "--logdir=/x", flag}).text;
  };
  EXPECT_THAT(text("--duration=5"), HasSubstr("did you mean --duration_ms?"));
  EXPECT_THAT(text("--service-addr=b:1"), HasSubstr("did you mean --service_addr?"));
  EXPECT_THAT(text("--lodgir=/y"), HasSubstr("did you mean --logdir?"));
  EXPECT_THAT(text("chek"), HasSubstr("did you mean check?"));
  EXPECT_THAT(Parse({"chek", "--service_addr=a:1"}).text, HasSubstr("did you mean check?"));
  EXPECT_THAT(Parse({"reprot"}).text, HasSubstr("did you mean report?"));
  for (const char* flag : {"--nosuch=1", "--x", "--tls=1", "--", "stray"}) {
    EXPECT_THAT(text(flag), Not(HasSubstr("did you mean"))) << flag;
  }
}

TEST(Flags, TheNumbersForTheManifestAreThoseThatHaveAValue) {
  const FlagsResult result = Parse({"--service_addr=a:1", "--logdir=/x", "--steps=5"});
  ASSERT_TRUE(result.flags.has_value()) << result.text;
  const std::map<std::string, int64_t> numbers = CaptureNumbers(*result.flags);
  EXPECT_THAT(numbers, Contains(Pair("steps", 5)));
  EXPECT_THAT(numbers, Contains(Pair("part_mb", 256)));
  EXPECT_THAT(numbers, Contains(Pair("max_parallel", 256)));
  EXPECT_THAT(numbers, Not(Contains(Key("sample"))));
}

TEST(Flags, HelpHasTheRangesOfNumbers) {
  const std::string help = Parse({"--help"}).text;
  for (const char* range : {"idle [1..1000]", "at the same time [1..16384]", "armed [1..]",
                            "over hosts [1..]", "in ms [1..--max_duration_ms]"}) {
    EXPECT_THAT(help, HasSubstr(range));
  }
}

TEST(Flags, HelpAndVersion) {
  EXPECT_EQ(Parse({"--help"}).exit_code, 0);
  EXPECT_THAT(Parse({"--help"}).text, HasSubstr("--service_addr"));
  EXPECT_THAT(Parse({"--version"}).text, HasSubstr("jobscope "));
  EXPECT_THAT(Parse({"--help"}).text, HasSubstr("Verbs: capture check, stop, run, report, diff ("));
  for (const char* verb : {"--quiet", "check", "stop"}) {
    EXPECT_THAT(Parse({verb, "--help"}).text, HasSubstr("Exit code: 0 all"));
  }
}

}  // namespace
}  // namespace jobscope
