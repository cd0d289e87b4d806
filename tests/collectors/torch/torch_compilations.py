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


def of(case, process, compile_ids):
    """Has a process of torch_programs.COMPILES compile before and in a capture; the events of those in it."""
    (address,) = case.wait_for_addresses(1).values()
    environment = attached.environment()

    def compile_all():
        for compile_id in compile_ids:
            process.say(compile_id)
            case.assertEqual(process.hear(), "compiled")

    if compile_ids[0].endswith("/0"):
        process.say("0/9")  # of which nothing is seen, because nobody captures
        case.assertEqual(process.hear(), "compiled")
    logs = os.path.join(case.folder, "compilations")
    client = subprocess.Popen(
        [attached.CAPTURE, "--duration_ms=60000", f"--service_addr={address}", f"--logdir={logs}", "--quiet"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment,
    )  # fmt: skip

    def records():
        return "recording" in attached.run([attached.CAPTURE, "check", f"--service_addr={address}", "--json"], environment)[1]

    case.wait_for(records, "the capture does not begin")
    compile_all()
    attached.run([attached.CAPTURE, "stop", f"--service_addr={address}"], environment)
    case.assertEqual(client.wait(attached.DEADLINE_S), 0)
    (run,) = glob.glob(f"{logs}/plugins/profile/*")
    compiled = xspace.named(xspace.host_events(run), "torch.compile")
    case.assertEqual({one.stats["compilation"] for one in compiled}, {1})
    case.assertEqual({one.stats["trigger"] for one in compiled}, {"dynamo"})
    return compiled
