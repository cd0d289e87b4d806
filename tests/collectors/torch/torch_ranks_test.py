# SPDX-License-Identifier: Apache-2.0
"""Tests the collectives in the traces of two ranks of torch.distributed over gloo.

Needs torch (Debian: python3-torch); exit 77 without.
"""
import glob
import importlib.metadata
import importlib.util
import json
import os
import statistics
import sys

import torch_case  # first: it finds the modules of other folders
import attached
import xspace

RANKS = 2
LATE_MS = 20

# The last rank is late for each reduction of `large`.
RANK = """
import gc, sys, threading, time, torch, torch.distributed as dist

rank, ranks, file, late_s = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + file, rank=rank, world_size=ranks)
group = dist.new_group(list(range(ranks)))
large, small, over = torch.ones(1000, dtype=torch.float64), torch.ones(10, dtype=torch.int64), torch.zeros(1)
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), ended.set()), daemon=True).start()
dist.all_reduce(large)
print("up", flush=True)
while over.item() == 0:
    if rank == ranks - 1:
        time.sleep(late_s)
    dist.all_reduce(large)
    work = dist.all_reduce(small, group=group, async_op=True)
    work.wait()
    dist.barrier()
    over.fill_(float(rank == 0 and ended.is_set()))
    dist.broadcast(over, 0)
# As in torch_suite.py: the group's threads end with the last one who holds it.
del work, large, small, over, group
gc.collect()
dist.destroy_process_group()
"""


def torch_version():
    return tuple(int(part) for part in importlib.metadata.version("torch").split(".")[:2])


class RanksTest(torch_case.Case):
    def start(self):
        store, script = os.path.join(self.folder, "store"), self.script(RANK)
        env = attached.preloaded(JOBSCOPE_PORT_DIR=self.ports, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
        ranks = []
        for rank in range(RANKS):
            command = [sys.executable, "-B", script, str(rank), str(RANKS), store, str(LATE_MS / 1000)]
            ranks.append(attached.Process(command, {**env, "RANK": str(rank)}))
            self.addCleanup(ranks[-1].__exit__)
        for rank in ranks:
            while rank.hear() != "up":  # some versions of gloo write lines of their own
                pass
        self.wait_for_addresses(RANKS)
        return ranks

    def events_by_rank(self, *arguments):
        self.captures += 1
        logs = os.path.join(self.folder, f"logs{self.captures}")
        code, out, errors = attached.run(
            [attached.CAPTURE, f"--service_addr=@{self.ports}", f"--logdir={logs}", "--json", "--quiet", *arguments],
            attached.environment(),
        )  # fmt: skip
        self.assertEqual(code, 0, errors)
        (run,) = glob.glob(f"{logs}/plugins/profile/*")
        traces = []
        for worker in sorted(json.loads(out)["workers"], key=lambda worker: worker["rank"]):
            (file,) = worker["files"]
            planes = xspace.planes(os.path.join(run, os.path.basename(file["path"])))
            # Whole ones: of what began before the capture nothing is known but its end.
            traces.append([
                event for _, events in planes for event in events
                if "async_id" in event.stats and "truncated" not in event.stats
            ])  # fmt: skip
        self.assertEqual(len(traces), RANKS)
        return traces

    def check_groups(self, traces):
        """Of a capture that is not the process's first: group and number of each operation are the same on all ranks."""
        has_names = torch_version() >= (2,)
        by_number = []
        for events in traces:
            known = {}
            for event in events:
                if event.name not in ("gloo:all_reduce", "gloo:broadcast"):
                    continue
                self.assertIn("sequence", event.stats, event)
                self.assertEqual("process_group" in event.stats, has_names, event)
                self.assertEqual(event.stats.get("group_size"), RANKS if has_names else None)
                key = (event.stats.get("process_group"), event.stats["sequence"])
                what = (event.name, event.stats["bytes"], event.stats["dtype"])
                if has_names:
                    self.assertNotIn(key, known)
                known.setdefault(key, []).append(what)
            by_number.append(known)
        common = set(by_number[0]) & set(by_number[1])
        self.assertGreater(len(common), 10)
        for key in common:
            self.assertEqual(sorted(by_number[0][key]), sorted(by_number[1][key]), key)
        if has_names:
            self.assertEqual(len({group for group, _ in common}), 2, "the default group, and another")

    def test_collectives(self):
        ranks = self.start()
        waited_ms = []
        for events in self.events_by_rank("--duration_ms=1000"):
            reductions = xspace.named(events, "gloo:all_reduce")
            kinds = {(event.stats["bytes"], event.stats["dtype"]) for event in reductions}
            self.assertEqual(kinds, {(8000, "float64"), (80, "int64")})
            broadcasts = xspace.named(events, "gloo:broadcast")
            self.assertEqual({(event.stats["bytes"], event.stats["dtype"]) for event in broadcasts}, {(4, "float32")})
            barriers = xspace.named(events, "gloo:barrier")
            self.assertTrue(barriers)
            self.assertEqual({event.stats.get("bytes") for event in barriers}, {None})
            waited_ms.append([event.duration_ps / 1e9 for event in reductions if event.stats["bytes"] == 8000])
        # Blocked until the late one arrives: visible although the call of the reduction itself returns at once.
        self.assertGreater(statistics.median(waited_ms[0]), LATE_MS / 2)
        self.assertLess(min(waited_ms[1]), LATE_MS / 2)
        self.check_groups(self.events_by_rank("--duration_ms=1000"))
        for rank in ranks:
            rank.say("end")
        for rank in ranks:
            self.assertEqual(rank.finish(say=None)[0], 0)


if __name__ == "__main__":
    if importlib.util.find_spec("torch") is None:
        print("skipped: no torch for", sys.executable, "(Debian: apt-get install python3-torch)")
        sys.exit(77)
    attached.main()
