# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of the documents as they are written, with what they take for granted (a loader, a model) around them.

  examples_test.py BUILD_DIRECTORY
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import documents
import xspace

BUILD = pathlib.Path()
DEADLINE_S = 120
PORT = 6009

# A loader of 6 ms per batch and a model of 2 ms, in a process that is told to end by a file. What an example takes from its
# program is here, too.
PYTHON_AROUND = """
import os, pathlib, time
import jobscope

class Loader:
    def __init__(self, batches):
        self.batches = batches
    def __len__(self):
        return self.batches
    def __iter__(self):
        for _ in range(self.batches):
            if pathlib.Path("stop").exists():
                return
            time.sleep(0.006)
            yield [1, 2, 3]

def model(batch):
    end = time.perf_counter() + 0.002
    while time.perf_counter() < end:
        pass
    return 0.5

def train(steps=20):
    for i, batch in jobscope.steps(Loader(steps)):
        with jobscope.trace("forward"):
            model(batch)

loader = Loader(int(os.environ.get("BATCHES", "20000")))
"""
CPP_AROUND = """
#include <chrono>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>

#include <jobscope/capture.h>

namespace {

struct Batch {
  int rows = 3;
  std::string file = "shard-1";
};

bool Stopped() { return std::ifstream("stop").good(); }

class Loader {
 public:
  explicit Loader(int64_t batches) : left_(batches) {}
  class Iterator {
   public:
    explicit Iterator(Loader* loader) : loader_(loader) { ++*this; }
    const Batch& operator*() const { return loader_->batch_; }
    Iterator& operator++() {
      if (loader_ != nullptr && !loader_->Next()) loader_ = nullptr;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return loader_ != other.loader_; }
   private:
    Loader* loader_;
  };
  Iterator begin() { return Iterator(this); }
  Iterator end() { return Iterator(nullptr); }
  bool Next() {
    if (left_-- <= 0 || Stopped()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(6));
    return true;
  }
 private:
  int64_t left_;
  Batch batch_;
};

struct Queue {
  Loader loader;
  std::optional<Batch> Pop() { return loader.Next() ? std::optional<Batch>(Batch()) : std::nullopt; }
};
// What never ends.
struct EndlessQueue {
  Batch Pop() {
    std::this_thread::sleep_for(std::chrono::milliseconds(6));
    return Batch();
  }
};

[[maybe_unused]] void Train(const Batch&) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
  while (std::chrono::steady_clock::now() < end) {
  }
}
[[maybe_unused]] void Train(int64_t, const Batch& batch) { Train(batch); }
[[maybe_unused]] const Batch batch;

}  // namespace
"""


def run(*command, **options):
    done = subprocess.run(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        timeout=DEADLINE_S, **options
    )  # fmt: skip
    if done.returncode != 0:
        raise AssertionError(f"{command}\n{done.stdout[-6000:]}")
    return done.stdout


class Examples(unittest.TestCase):
    def setUp(self):
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="jobscope-examples-"))
        self.addCleanup(shutil.rmtree, self.scratch)
        self.package = BUILD / "python" / "jobscope"
        commands = self.scratch / "bin"
        commands.mkdir()
        for name, program in (("capture", BUILD / "bin" / "capture"), ("jobscope", BUILD / "bin" / "jobscope"), ("python", sys.executable)):
            (commands / name).symlink_to(program)
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("JOBSCOPE_")},
            "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(BUILD / "python"),
        }

    def needs_port(self):
        if os.environ.get("JOBSCOPE_TEST_SHARED_NETWORK"):
            self.skipTest("network namespaces are not allowed here, and the examples name their ports")

    # ---- making programs of examples ----

    def python(self, block, after="", **replace):
        """A program: the command that runs it."""
        text = block.text
        for old, new in replace.items():
            self.assertIn(old, text)
            text = text.replace(old, new)
        path = self.scratch / "example.py"
        path.write_text(PYTHON_AROUND + text + after, encoding="utf-8")
        return [sys.executable, "-B", path]

    def cpp(self, block, declare="", after=""):
        includes = "\n".join(line for line in block.text.splitlines() if line.startswith("#include"))
        body = "\n".join(line for line in block.text.splitlines() if not line.startswith("#include")).replace("  ...\n", "")
        source = self.scratch / "example.cc"
        source.write_text(f"{includes}\n{CPP_AROUND}\nint main() {{\n{declare}\n{body}\n{after}\n}}\n", encoding="utf-8")
        program = self.scratch / "example"
        libraries = BUILD / "lib"
        run(
            os.environ.get("CXX", "c++"), "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{documents.ROOT / 'include'}", source,
            "-o", program, f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-ljobscope", "-ljobscope_trace", "-pthread",
        )  # fmt: skip
        return [program]

    # ---- running them ----

    def serve_two_ranks(self, command, steps=15):
        """Runs it as two ranks of one host, captures both by one command, with so many steps of each at least, and gives the events
        of each."""
        self.needs_port()
        ranks = []
        for rank in range(2):
            environment = {**self.environment, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
            ranks.append(subprocess.Popen([str(word) for word in command], cwd=self.scratch, env=environment, stdout=subprocess.PIPE,
                                          stderr=subprocess.STDOUT, text=True))  # fmt: skip
        try:
            addresses = ",".join(f"127.0.0.1:{PORT + rank}" for rank in range(2))
            end = time.monotonic() + DEADLINE_S
            while subprocess.run(["jobscope", "check", f"--service_addr={addresses}", "--json"], env=self.environment,
                                 capture_output=True, check=False).returncode != 0:  # fmt: skip
                self.assertLess(time.monotonic(), end, "the ranks do not serve")
                for rank in ranks:
                    self.assertIsNone(rank.poll(), "a rank has ended")
            logdir = self.scratch / "logdir"
            for _ in range(20):  # on a busy machine a rank may not run during a capture
                manifest = json.loads(run("capture", f"--service_addr={addresses}", "--duration_ms=500", f"--logdir={logdir}", "--json",
                                          "--quiet", env=self.environment))  # fmt: skip
                if all(worker["outcome"] == "ok" and worker.get("steps", 0) >= steps for worker in manifest["workers"]):
                    break
            self.assertEqual([worker["outcome"] for worker in manifest["workers"]], ["ok", "ok"], manifest)
        finally:
            (self.scratch / "stop").touch()
            outputs = [rank.communicate(timeout=DEADLINE_S)[0] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0, 0], outputs)
        files = sorted(pathlib.Path(manifest["run_directory"]).glob("*.xplane.pb"))
        self.assertEqual(len(files), 2)
        return [[event for name, events in xspace.planes(file) if name == "/host:CPU" for event in events] for file in files]

    def check_loop(self, events):
        """What a loop of 6 ms of waiting and 2 ms of computing should look like, on a machine that may stretch the latter."""
        steps = [event for event in events if event.stats.get("_r") == 1]
        self.assertGreater(len(steps), 2)
        self.assertGreater(xspace.input_share(steps, events), 0.3)
        for step in steps:
            self.assertGreater(step.duration_ps, 6e9)

    # ---- README.md ----

    def test_readme_python(self):
        for events in self.serve_two_ranks(self.python(documents.block("README.md", "python", "start_server"))):
            self.check_loop(events)
            self.assertTrue(xspace.named(events, "forward"))

    def test_readme_cpp(self):
        command = self.cpp(documents.block("README.md", "cpp", "ProfilerServer"), "Loader loader(20000);")
        for events in self.serve_two_ranks(command):
            self.check_loop(events)

    def test_readme_captures_itself(self):
        after = "for (const auto& step : jobscope::Steps(Loader(120))) Train(step.batch);\nreturn jobscope::StopCapture().ok() ? 0 : 1;"
        block = documents.block("README.md", "cpp", "StartCapture")
        block = block._replace(text="#include <jobscope/steps.h>\n" + block.text)
        output = run(*self.cpp(block, after=after), cwd=self.scratch, env=self.environment)
        self.assertIn("logdir/plugins/profile/", output)
        runs = sorted((self.scratch / "logdir" / "plugins" / "profile").iterdir())
        self.assertEqual(len(runs), 3)
        steps = [event for event in xspace.host_events(runs[-1]) if event.stats.get("_r") == 1]
        self.assertEqual([step.stats["step_num"] for step in steps], list(range(100, 111)))

    def test_readme_shell(self):
        self.needs_port()
        text = 'train(3)\nos.write(1, b"trained %s\\n" % os.environ.get("LOCAL_RANK", "alone").encode())\n'
        (self.scratch / "train.py").write_text(PYTHON_AROUND + text)
        launcher = self.scratch / "bin" / "torchrun"
        launcher.write_text(  # what PyTorch's does, as far as the example goes
            '#!/bin/bash\nn=${1#--nproc-per-node=}\nfor ((i = 0; i < n; i++)); do LOCAL_RANK=$i RANK=$i python "$2" & done\nwait\n'
        )
        launcher.chmod(0o755)
        for block in (documents.block("README.md", "sh", "torchrun"), documents.block("docs/attach.md", "sh", "jobscope run"),
                      documents.block("docs/attach.md", "sh", "LD_PRELOAD")):  # fmt: skip
            script = block.text.replace("/opt/jobscope/lib", str(self.package / "lib"))
            output = run("bash", "-ec", script, cwd=self.scratch, env=self.environment)
            if "torchrun" in script:
                for rank in range(4):
                    self.assertIn(f"trained {rank}", output)
            self.assertIn("trained", output)
            self.assertNotIn("ERROR: ld.so", output)

    # ---- docs/ ----

    def test_python_page(self):
        for events in self.serve_two_ranks(self.python(documents.block("docs/python.md", "python", "start_server"))):
            self.check_loop(events)
            self.assertTrue(xspace.named(events, "forward"))

    def test_python_page_shell(self):
        self.needs_port()
        command = self.python(documents.block("docs/python.md", "python", "start_server"))
        worker = subprocess.Popen([str(word) for word in command], cwd=self.scratch, env=self.environment)
        try:
            text = documents.block("docs/python.md", "sh", "capture").text.replace("/tmp/logdir", str(self.scratch / "logdir"))
            end = time.monotonic() + DEADLINE_S
            while subprocess.run(["bash", "-ec", text], env=self.environment, capture_output=True, check=False).returncode != 0:
                self.assertLess(time.monotonic(), end)
        finally:
            (self.scratch / "stop").touch()
            self.assertEqual(worker.wait(DEADLINE_S), 0)

    def test_python_page_captures_itself(self):
        command = self.python(documents.block("docs/python.md", "python", "capture_steps"), "train(120)\nprint(jobscope.stop().events)\n")
        output = run(*command, cwd=self.scratch, env=self.environment).splitlines()
        self.assertIn("run_directory=", output[0])
        self.assertGreater(int(output[1]), 10)

    def test_python_page_provider(self):
        after = '\nwith jobscope.capture("logdir") as it:\n    gc.collect()\n    train(3)\nprint(it.result.run_directory)\n'
        command = self.python(documents.block("docs/python.md", "python", "GarbageCollections"), after)
        directory = run(*command, cwd=self.scratch, env=self.environment).splitlines()[-1]
        self.assertTrue(xspace.named(xspace.host_events(self.scratch / directory), "gc"))

    def test_embedding_page(self):
        block = documents.block("docs/embedding.md", "cpp", "ProfilerServer")
        command = self.cpp(block, "const int steps = 20000;", "").copy()
        source = (self.scratch / "example.cc").read_text()
        self.assertIn("JOBSCOPE_STEP", source)
        # Its loop has an end of its own: the file that ends the others' loaders ends this one.
        (self.scratch / "example.cc").write_text(source.replace("  Train(batch);\n", "  if (Stopped()) break;\n  Train(batch);\n"))
        libraries = BUILD / "lib"
        run(os.environ.get("CXX", "c++"), "-std=c++17", f"-I{documents.ROOT / 'include'}", self.scratch / "example.cc", "-o", command[0],
            f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-ljobscope", "-ljobscope_trace", "-pthread")  # fmt: skip
        for events in self.serve_two_ranks(command):
            self.assertGreater(len([event for event in events if event.stats.get("_r") == 1]), 10)

    def test_embedding_page_by_ctypes(self):
        block = documents.block("docs/embedding.md", "python", "ctypes")
        text = block.text.replace("/opt/jobscope/lib", str(self.package / "lib"))
        wait = '\nimport pathlib, time\nwhile not pathlib.Path("stop").exists():\n    time.sleep(0.01)\n'
        path = self.scratch / "example.py"
        path.write_text(text + wait)
        self.serve_two_ranks([sys.executable, "-B", path], steps=0)

    def test_embedding_page_in_c(self):
        function, calls = documents.block("docs/embedding.md", "c", "jobscope_provider").text.split("\n}\n", 1)
        source = self.scratch / "example.c"
        source.write_text(
            "#include <jobscope/provider.h>\n#include <stdint.h>\nint64_t newest_flush_begin_ns, newest_flush_duration_ns;\n"
            f"{function.replace('static int Stop(void* me', 'static int Stop(void* me')}\n}}\nint Register(char* error, size_t size) {{\n"
            f"{calls.replace('sizeof(error)', 'size')}\nreturn 0;\n}}\n"
        )
        run(os.environ.get("CC", "cc"), "-std=c11", "-Wall", "-Werror", f"-I{documents.ROOT / 'include'}", "-fsyntax-only", source)

    def test_recording_page(self):
        for containing, declare in (("JOBSCOPE_INPUT_WAIT", "const int64_t steps = 30;\nEndlessQueue queue;"),
                                    ("jobscope::Steps", "Loader loader(15);\nQueue queue{Loader(15)};")):  # fmt: skip
            block = documents.block("docs/recording.md", "cpp", containing)
            command = self.cpp(block, 'jobscope::StartCapture("logdir");\n' + declare, "return jobscope::StopCapture().ok() ? 0 : 1;")
            run(*command, cwd=self.scratch, env=self.environment)
            directory = sorted((self.scratch / "logdir" / "plugins" / "profile").iterdir())[-1]
            self.check_loop(xspace.host_events(directory))

    def test_manifest_page(self):
        train = self.python(documents.block("docs/python.md", "python", "capture_steps"), "train(120)\nprint(jobscope.stop().run_directory)\n")
        run(*train, cwd=self.scratch, env=self.environment)
        # A manifest is the client's: one with a worker that is not there.
        logs = self.scratch / "logs"
        logs.mkdir()
        subprocess.run(["capture", "--service_addr=127.0.0.1:1", f"--logdir={logs}", "--quiet"], env=self.environment, capture_output=True,
                       check=False)  # fmt: skip
        (directory,) = (logs / "failed_runs").iterdir()
        block = documents.block("docs/manifest.md", "python", "capture.json")
        text = block.text.replace("logs/plugins/profile/2026_05_01_12_00_00", str(directory))
        self.assertIn("127.0.0.1:1 connect", run(sys.executable, "-c", text, cwd=self.scratch))

    # ---- all of them ----

    def test_every_example_is_run(self):
        """By one of the tests above, or by the test that is named here."""
        elsewhere = {
            ("docs/python.md", "def batches():"),  # tests/interop/loader_in_xprof_test.py, with Keras
            ("docs/embedding.md", "find_package(jobscope"),  # tests/install/install_test.py
        }
        text = pathlib.Path(__file__).read_text(encoding="utf-8")
        for block in documents.blocks():
            if block.language in documents.DRAWINGS:
                continue
            if block.language not in documents.LANGUAGES:
                self.fail(f"{block.document}:{block.line}: the language {block.language} is not one of {documents.LANGUAGES}")
            if any(block.document == document and start in block.text for document, start in elsewhere):
                continue
            run_here = [
                line for line in text.split("documents.block(")[1:] if line.startswith(f'"{block.document}", "{block.language}", ')
            ]
            contents = [line.split('"')[5] for line in run_here]
            # Where a loop gives the text, it stands in the lines before.
            known = any(content in block.text for content in contents) or (block.document == "docs/recording.md")
            self.assertTrue(known, f"{block.document}:{block.line}: no test runs this example")


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
