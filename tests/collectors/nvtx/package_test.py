# SPDX-License-Identifier: Apache-2.0
"""The package `nvtx` of PyPI in a process that is attached, and in one that starts the server itself."""
import importlib.util
import os
import sys
import unittest

import attached
import captured
import xspace

PACKAGE = os.environ.get("JOBSCOPE_TEST_PACKAGE", "")  # of jobscope, in the build tree

WORK = """
def work():
    domain = nvtx.get_domain("fast")
    prepared = domain.get_event_attributes("prepared", color="red", category="inner loop", payload=2.5)
    i = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        i += 1
        with nvtx.annotate(f"iteration {i}", color="blue", domain="train", category="loop", payload=i):
            with nvtx.annotate("forward"):
                time.sleep(0.001)
            domain.push_range(prepared)
            domain.pop_range()
            nvtx.mark("marked", color="green")
            handle = nvtx.start_range("background")
            nvtx.end_range(handle)
        decorated()
    return i

@nvtx.annotate("decorated \\u00e9")
def decorated():
    pass
"""
ATTACHED = f"""
import select, sys, time
import nvtx
{WORK}
print("up", flush=True)
print(work())
"""
SERVES = f"""
import os, select, subprocess, sys, time
import nvtx
import jobscope
server = jobscope.start_server("127.0.0.1:0")
{WORK}
# A process below, which inherits the variable: there NVTX finds no server of ours, and goes on without.
below = "import nvtx\\nwith nvtx.annotate('below'): pass\\nprint(open('/proc/self/maps').read().count('libjobscope_trace'))"
assert subprocess.run([sys.executable, "-c", below], capture_output=True, check=True).stdout.strip() == b"0"
print("up", server.address, flush=True)
print(work())
"""

# Names made up at each call: more than have a place of their own (4,096).
MANY = """
import sys
import nvtx
print("up", flush=True)
sys.stdin.readline()
for i in range(6000):
    with nvtx.annotate(f"item {i}", payload=i):
        pass
print("done", flush=True)
sys.stdin.readline()
"""
# The shared library of NVTX 2, as programs were linked with it up to CUDA 12.
SECOND = """
import ctypes, select, sys, time
library = ctypes.CDLL(sys.argv[1])
print("up", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    library.nvtxRangePushA(b"outer")
    library.nvtxRangePushW("inner \u00e9")
    time.sleep(0.001)
    assert library.nvtxRangePop() in (1, 0, -2)
    library.nvtxRangePop()
"""


class PackageTest(captured.TestCase):
    def check(self, events):
        iterations = [e for e in events if e.name.startswith("iteration ") and "truncated" not in e.stats]
        self.assertGreater(len(iterations), 5)
        for event in iterations:
            self.assertEqual(event.site, {"nvtx_domain": "train", "category": "loop", "color": "#0000ff"})
            self.assertEqual(event.name, f"iteration {event.stats['payload']}")
        forward = xspace.named(events, "forward")
        self.assertGreater(len(forward), 5)
        self.assertEqual(forward[0].site["nvtx_domain"], "default")
        self.assertGreater(forward[1].duration_ps, 1_000_000_000)
        prepared = xspace.named(events, "prepared")
        self.assertGreater(len(prepared), 5)
        self.assertEqual(prepared[0].site, {"nvtx_domain": "fast", "category": "inner loop", "color": "#ff0000"})
        self.assertEqual(prepared[0].stats["payload"], 2.5)
        for name in ("marked", "background", "decorated \u00e9"):
            self.assertGreater(len(xspace.named(events, name)), 5, name)

    def finish(self, process):
        process.say()
        self.assertGreater(int(process.hear()), 5)
        code, errors = process.finish(say=None)
        self.assertEqual(code, 0, errors)

    def test_preloaded(self):
        env = attached.preloaded(JOBSCOPE_PORT_DIR=self.ports)
        with attached.Process([attached.PYTHON, "-B", self.script(ATTACHED)], env | packages()) as process:
            self.assertEqual(process.hear(), "up")
            for _ in range(2):
                self.check(self.capture(self.address(), of="decorated \u00e9")[1])
            self.finish(process)

    def test_more_names_than_there_is_room_for(self):
        env = attached.preloaded(JOBSCOPE_PORT_DIR=self.ports)
        with attached.Process([attached.PYTHON, "-B", self.script(MANY)], env | packages()) as process:
            self.assertEqual(process.hear(), "up")
            with self.capturing(self.address()) as result:
                process.say()
                self.assertEqual(process.hear(), "done")
            items = [event for event in result.events if event.name.startswith("item ")]
            self.assertEqual([event.name for event in items], [f"item {i}" for i in range(6000)])
            self.assertEqual([event.stats["payload"] for event in items], list(range(6000)))
            self.assertEqual({event.site["nvtx_domain"] for event in items}, {"default"})
            self.assertEqual(process.finish()[0], 0)

    def test_library_of_nvtx_2(self):
        library = nvtx_2()
        if library is None:
            self.skipTest("nvidia-nvtx-cu11 is not installed")
        env = attached.preloaded(JOBSCOPE_PORT_DIR=self.ports)
        with attached.Process([attached.PYTHON, "-B", self.script(SECOND), library], env) as process:
            self.assertEqual(process.hear(), "up")
            _, events = self.capture(self.address(), of="outer")
            outer, inner = xspace.named(events, "outer"), xspace.named(events, "inner \u00e9")
            self.assertGreater(len(outer), 5)
            self.assertGreater(len(inner), 5)
            self.assertEqual(process.finish()[0], 0)

    def test_run_verb(self):
        env = attached.environment(JOBSCOPE_PORT_DIR=self.ports)
        command = [attached.PROGRAM, "run", "--quiet", f"--attach_library={attached.LIBRARY}", "--", attached.PYTHON]
        with attached.Process([*command, "-B", self.script(ATTACHED)], env | packages()) as process:
            self.assertEqual(process.hear(), "up")
            self.check(self.capture(self.address(), of="decorated \u00e9")[1])
            self.finish(process)

    @unittest.skipUnless(PACKAGE and os.path.isdir(PACKAGE), "the jobscope package is not built")
    def test_server_in_the_program(self):
        env = attached.environment() | packages(os.path.dirname(PACKAGE))
        with attached.Process([attached.PYTHON, "-B", self.script(SERVES)], env) as process:
            up, address = process.hear().split()
            self.assertEqual(up, "up")
            self.check(self.capture(address, of="decorated \u00e9")[1])
            self.finish(process)


def nvtx_2():
    """The path of libnvToolsExt.so.1, of the package nvidia-nvtx-cu11."""
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations if spec else ():
        path = os.path.join(folder, "nvtx", "lib", "libnvToolsExt.so.1")
        if os.path.exists(path):
            return path
    return None


def packages(*more):
    """The interpreter itself is run, not the virtual environment's link to it: it needs the path of the packages."""
    folders = [os.path.dirname(os.path.dirname(importlib.util.find_spec("nvtx").origin)), *more]
    return {"PYTHONPATH": os.pathsep.join(folders)}


if __name__ == "__main__":
    if importlib.util.find_spec("nvtx") is None:
        print(f"skipped: {sys.executable} has no package nvtx")
        sys.exit(77)
    unittest.main(verbosity=2)
