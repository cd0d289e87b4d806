# SPDX-License-Identifier: Apache-2.0
"""Ranks of gloo_exit_bench.py: processes of PyTorch that reduce tensors over gloo, and end."""
import os
import re
import signal
import subprocess
import threading

DEADLINE_S = 300  # for one rank, on a machine with twenty times as many runnable threads as processors

# Reduces as often as each input line says; "end" is the last one. atexit functions run in reverse order, so `note` runs
# last. It writes to mapped memory: any other way would release the GIL, as would unmapping, and so change what is
# measured.
_PROGRAM = """
import atexit, ctypes, mmap, os, sys, time

file = os.open("ending_ns", os.O_RDWR)
ending_ns = mmap.mmap(file, 8)
ctypes.pythonapi.Py_IncRef(ctypes.py_object(ending_ns))
over = 0

@atexit.register
def note():
    ending_ns[:] = (time.perf_counter_ns() - over).to_bytes(8, "little")

import torch, torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
with open("/proc/self/maps", encoding="utf-8") as maps:
    mapped = maps.read()
print("up", *[name for name in ("libjobscope.so", "gil_visitor.so") if name in mapped], flush=True)
for line in iter(sys.stdin.readline, "end\\n"):
    for _ in range(int(line)):
        dist.all_reduce(torch.ones(1000))
    print("reduced", flush=True)
"""
# No Python object refers to the tensors: gloo's thread may be the last one to hold them.
_LAST_LINES = {
    # Each call returns when its reduction is complete; gloo's thread releases the tensor at about the same time.
    "waited": "for _ in range(20):\n    dist.all_reduce(torch.ones(1000))\n",
    # Most reductions are still pending when the program ends.
    "pending": "for _ in range(20):\n    dist.all_reduce(torch.ones(100000), async_op=True)\n",
    # As PyTorch's documentation requires.
    "destroyed": "for _ in range(20):\n    dist.all_reduce(torch.ones(1000))\ndist.destroy_process_group()\n",
}
PROGRAMS = {name: f"{_PROGRAM}{lines}over = time.perf_counter_ns()\n" for name, lines in _LAST_LINES.items()}


class Rank:
    """One process. Its folder has its standard error and, if it comes to that, its core file."""

    def __init__(self, command, environment, folder):
        self.folder = folder
        self._killed = False
        os.makedirs(folder)
        with open(f"{folder}/ending_ns", "wb") as file:
            file.write(bytes(8))
        with open(f"{folder}/stderr", "wb") as errors:
            self._process = subprocess.Popen(
                command, env=environment, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._timer = threading.Timer(DEADLINE_S, self._kill)
        self._timer.start()

    def _kill(self):
        self._killed = True
        self._process.send_signal(signal.SIGQUIT)  # the core file shows where it hangs

    def hear(self, word):
        """Returns the words of the next line that begins with `word`, None if the process ends first. gloo writes lines of its own."""
        for line in self._process.stdout:
            if line.split()[:1] == [word]:
                return line.split()
        return None

    def say(self, text):
        try:
            self._process.stdin.write(text + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # its end gives the reason

    def finish(self):
        """Waits for its end. Returns (the kind of end, standard error, ns to the end of atexit or None)."""
        code = self._process.wait()
        self._timer.cancel()
        self._process.stdin.close()
        self._process.stdout.close()
        with open(f"{self.folder}/stderr", encoding="utf-8", errors="replace") as file:
            errors = file.read()
        with open(f"{self.folder}/ending_ns", "rb") as file:
            ending_ns = int.from_bytes(file.read(), "little") or None
        if code == 0:
            return "ok", errors, ending_ns
        name = "hung" if self._killed else signal.Signals(-code).name if code < 0 else f"exit {code}"
        lines = [re.sub(r"0x[0-9a-f]+|\d+", "#", line) for line in errors.splitlines() if line.strip()]
        return f"{name}: {lines[-1][:160] if lines else ''}", errors, ending_ns
