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
    """Has a process of torch_programs.COMPILES compile before and in a capture; the events of those in it."""
    case.wait_for_addresses(1)
    if compile_ids[0].endswith("/0"):
        process.say("0/9")  # of which nothing is seen, because nobody captures
        case.assertEqual(process.hear(), "compiled")
    compiled = in_a_capture(case, process, compile_ids)
    case.assertEqual({one.stats["compilation"] for one in compiled}, {1})
    case.assertEqual({one.stats["trigger"] for one in compiled}, {"dynamo"})
    return compiled
