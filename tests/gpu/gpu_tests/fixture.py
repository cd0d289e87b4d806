# SPDX-License-Identifier: Apache-2.0
"""Where things are, and how a check gets workers and captures."""
import glob
import itertools
import json
import os

from gpu_tests.captures import Capture, run_json
from gpu_tests.outcome import Skipped
from gpu_tests.worker import Worker


class Fixture:
    """Of one check: made from the JSON that the runner hands to its process.

    root        folder with bin/ and lib/ (the bundle)
    work        a folder of this check's own
    fake        the fake worker's command line, for the self-test; else absent
    fault       what the fake is to do wrong
    quick       small counts: the self-test
    captures    how many in a row
    cuda        (major, minor) of the driver, at most what --cuda says
    libcupti    what workers load; empty: the newest that fits
    """

    def __init__(self, options):
        self.options = options
        self.root = options["root"]
        self.work = options["work"]
        self.quick = options.get("quick", False)
        self.fake = options.get("fake")
        self._serial = itertools.count()

    def binary(self, name):
        # The client is the same.
        folder = "bin" if self.cuda_major >= 13 or name == "capture" else "bin12"
        if folder == "bin12" and name == "gpu_worker_static":
            name = "gpu_worker"
        return os.path.join(self.root, folder, name)

    def library(self, name):
        return os.path.join(self.root, "lib", name)

    def cuptis(self):
        """((major, minor), path) of each libcupti of an earlier CUDA in the bundle, the newest last."""
        found = glob.glob(os.path.join(self.root, "cupti", "*", "libcupti.so.*"))
        return sorted((tuple(int(n) for n in path.split(os.sep)[-2].split(".")), path) for path in found)

    @property
    def cuda_major(self):
        """Of the programs and of libcupti: what the driver has, or --cuda."""
        return self.options.get("cuda", (13, 0))[0]

    @property
    def libcupti(self):
        if self.options.get("libcupti"):
            return self.options["libcupti"]
        if self.cuda_major >= 13:
            return self.library("libcupti.so.13")
        # The newest that is not newer than the driver.
        fit = [path for version, path in self.cuptis() if version <= tuple(self.options["cuda"])]
        if not fit:
            raise Skipped(f"the bundle holds no libcupti for a driver of CUDA {self.options['cuda']}")
        return fit[-1]

    @property
    def pytorch(self):
        """A library by the name of PyTorch's, as far as the collector looks at that."""
        return self.options.get("pytorch") or os.path.join(self.root, "pytorch", "libtorch_cuda.so")

    @property
    def capture_client(self):
        return self.options.get("capture") or self.binary("capture")

    def amount(self, full, quick):
        return quick if self.quick else full

    def time_limit(self, seconds):
        """A limit on time: longer where the machine is one that does other things."""
        return seconds + 20 if self.fake else seconds

    def path(self, name):
        return os.path.join(self.work, f"{next(self._serial):03d}-{name}")

    def environment(self, **more):
        """Without what would change which libcupti is found, or how much is kept."""
        env = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("JOBSCOPE_", "CUPTI_", "CUDA_INJECTION", "NVTX_INJECTION"))
        }
        # A toolkit in the linker's path would come before what lies beside the programs.
        folders = env.pop("LD_LIBRARY_PATH", "").split(":")
        folders = [f for f in folders if f and not glob.glob(os.path.join(f, "libcudart.so*")) and
                   not glob.glob(os.path.join(f, "libcupti.so*"))]
        if folders:
            env["LD_LIBRARY_PATH"] = ":".join(folders)
        if not self.fake and (self.cuda_major < 13 or self.options.get("libcupti")):
            env["JOBSCOPE_CUPTI_LIBRARY"] = self.libcupti
        env.update(more)
        return env

    def worker(self, *flags, program="gpu_worker", user=None, argv=None, **environment):
        """A running worker; use it in a with statement."""
        command = argv or (list(self.fake) if self.fake else [self.binary(program)])
        if self.options.get("fault"):
            command = command + [f"--fault={self.options['fault']}"]
        env = self.environment(**environment)
        # The static runtime finds its libcupti by the linker's path only.
        if not self.fake and program == "gpu_worker_static" and "LD_LIBRARY_PATH" not in environment:
            folders = [os.path.join(self.root, "lib"), env.get("LD_LIBRARY_PATH", "")]
            env["LD_LIBRARY_PATH"] = ":".join(folder for folder in folders if folder)
        return Worker(command + list(flags), self.path("worker.log"), env, user,
                      explain=not self.options.get("fault"))  # a fault that was asked for needs no explanation

    def begin(self, *workers, duration_ms=60000, flags=()):
        """A capture that records."""
        capture = Capture(self.capture_client, [w.address for w in workers], os.path.join(self.work, "logdir"),
                          self.path("capture.log"), duration_ms, flags)
        return capture.wait_until_recording()

    def run_capture(self, worker, duration_ms, flags=()):
        """A whole capture of a fixed length."""
        return self.capture_of(worker.address, duration_ms, flags)

    def capture_of(self, address, duration_ms, flags=()):
        return Capture(self.capture_client, [address], os.path.join(self.work, "logdir"),
                       self.path("capture.log"), duration_ms, flags).finish(duration_ms / 1000 + 60)

    def checked(self, worker):
        """A worker's entry in `capture check`."""
        answer = run_json(self.capture_client, "check", f"--service_addr={worker.address}", "--json")
        return (answer.get("workers") or [{}])[0]

    def captured(self, worker, command, deadline_s=120, **arguments):
        """The trace of one command, all of which lies in the window."""
        capture = self.begin(worker)
        worker.do(command, deadline_s, **arguments)
        return capture.stop().finish().trace


def load(path):
    with open(path, encoding="utf-8") as file:
        return Fixture(json.load(file))
