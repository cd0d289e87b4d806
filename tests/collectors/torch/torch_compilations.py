# SPDX-License-Identifier: Apache-2.0
"""What a capture says of compilations by torch.compile."""
import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "server", "attach"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import attached  # noqa: E402
import xspace  # noqa: E402

# Compiles what each line names; first argument: by what.
COMPILES = """
import sys
import time

if sys.argv[1] == "fake":
    import torch._dynamo

    handler = torch._dynamo.callback.callback_handler
    compile_one = handler.compile
    while not handler.start_callbacks:  # on a busy machine jobscope notices the import late
        time.sleep(0.01)
else:
    import torch

    function = torch.compile(lambda x: torch.tanh(x) + 1, backend="eager", dynamic=False)

    def compile_one(name):
        function(torch.ones(1 + int(name.split("/")[1])))


print("up", flush=True)
for line in sys.stdin:
    if line.strip() == "end":
        break
    compile_one(line.strip())
    print("compiled", flush=True)
"""

# Two threads compile at once: PyTorch tells of the begin on the one that began first, and of the end on the one that ended last.
# "other": begins on another thread, ends on this one; "main": the other way round.
CROSSED_COMPILATIONS = """
import queue, sys, threading, time, types
import torch._dynamo
from torch._dynamo.callback import CallbackTrigger, callback_handler

while not callback_handler.start_callbacks:
    time.sleep(0.01)
event = types.SimpleNamespace(callback_trigger=CallbackTrigger.DYNAMO, compile_id="0/0")
wanted, done = queue.Queue(), queue.Queue()


def call(callbacks):
    for callback in callbacks:
        callback(event)


def other():
    while True:
        call(wanted.get())
        done.put(True)


def call_on_other(callbacks):
    wanted.put(callbacks)
    done.get()


threading.Thread(target=other, daemon=True).start()
print("up", flush=True)
for line in sys.stdin:
    if line.strip() == "end":
        break
    if line.strip() == "other":
        call_on_other(callback_handler.start_callbacks)
        call(callback_handler.end_callbacks)
    if line.strip() == "main":
        call(callback_handler.start_callbacks)
        call_on_other(callback_handler.end_callbacks)
    print("compiled", flush=True)
"""


def in_a_capture(case, process, lines, name="compilations"):
    """Has the process do what each line says in a capture; the events of compilations in it."""
    (address,) = case.wait_for_addresses(1).values()
    environment = attached.environment()
    logs = os.path.join(case.folder, name)
    client = subprocess.Popen(
        [attached.CAPTURE, "--duration_ms=60000", f"--service_addr={address}", f"--logdir={logs}", "--quiet"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment,
    )  # fmt: skip

    def records():
        return "recording" in attached.run([attached.CAPTURE, "check", f"--service_addr={address}", "--json"], environment)[1]

    case.wait_for(records, "the capture does not begin")
    for line in lines:
        process.say(line)
        case.assertEqual(process.hear(), "compiled")
    attached.run([attached.CAPTURE, "stop", f"--service_addr={address}"], environment)
    case.assertEqual(client.wait(attached.DEADLINE_S), 0)
    (run,) = glob.glob(f"{logs}/plugins/profile/*")
    return xspace.named(xspace.host_events(run), "torch.compile")


def of(case, process, compile_ids):
    """Has a process of COMPILES compile before and in a capture; the events of those in it."""
    case.wait_for_addresses(1)
    if compile_ids[0].endswith("/0"):
        process.say("0/9")  # of which nothing is seen, because nobody captures
        case.assertEqual(process.hear(), "compiled")
    compiled = in_a_capture(case, process, compile_ids)
    case.assertEqual({one.stats["compilation"] for one in compiled}, {1})
    case.assertEqual({one.stats["trigger"] for one in compiled}, {"dynamo"})
    return compiled
