# SPDX-License-Identifier: Apache-2.0
"""Threads that record as fast as they can: memory stays under the cap, and every lost event is counted."""

import json
import re

from harness import case, clients, messages, traces
from harness.processes import MemorySampler

THREADS = 4
MIB = 1 << 20
RING_BYTES = 32_768 * 32
# Beside rings and store: gRPC's buffers of the answer in flight, names, thread stacks.
SLACK_BYTES = 24 * MIB


def flood_attempted(summary):
    """What the flooding threads attempted. The summary's totals hold other collectors' samples, too."""
    return sum(thread.attempted for thread in summary.threads if thread.name.startswith("flood"))


class Flood(case.InteropTest):
    def flood(self, store_mb, duration_ms, threads=THREADS):
        """One capture that spans all that the worker ever records. Returns (worker's count, manifest entry, path, run)."""
        worker = self.own_worker("flood_worker", f"--threads={threads}", env={"JOBSCOPE_STORE_MB": str(store_mb)})
        # The first answer of the server allocates what stays; it is not the flood's.
        peer = messages.Peer(worker.address)
        self.addCleanup(peer.close)
        peer.call("Describe", messages.DescribeRequest())
        before = worker.process.status_kib("VmRSS") * 1024

        # In one answer: what the worker's store holds is then all there is.
        run = self.start_capture([worker.address], duration_ms, "--protocol=tensorflow")
        sampler = MemorySampler(run.process)
        run.finish(duration_ms / 1e3 + 40)
        self.client_peak = sampler.peak_bytes()
        self.assertEqual(run.exit_code, 0, run.process.output())

        peak = worker.process.status_kib("VmHWM") * 1024
        rings = threads * RING_BYTES
        allowed = before + rings + store_mb * MIB + SLACK_BYTES
        self.assertLessEqual(peak, allowed, f"before {before}, rings {rings}, store {store_mb} MiB")
        after = worker.process.status_kib("VmRSS") * 1024
        self.assertLessEqual(after, before + rings + SLACK_BYTES, "the store's memory was not given back")
        self.assert_wrote_nothing(worker)

        attempted = int(re.search(r"attempted (\d+)", worker.finish())[1])
        directory = clients.only_run(self.logdir)
        entry = json.loads((directory / "capture.json").read_text())["workers"][0]
        self.assertEqual(len(entry["files"]), 1)
        return attempted, entry, directory / entry["files"][0]["path"], run

    def test_loss_is_exact_and_shown(self):
        duration_ms = 10_000
        attempted, entry, path, run = self.flood(store_mb=16, duration_ms=duration_ms)
        trace = traces.Trace.load(path)
        summary = trace.summary()

        # The worker's own count, by another way than the recorder's. Each thread may be inside of one scope when the capture
        # ends: begun after the window, and not published before the books were closed.
        in_flight = attempted - flood_attempted(summary)
        self.assertGreaterEqual(in_flight, 0)
        self.assertLessEqual(in_flight, THREADS)
        self.assertEqual(summary.events + summary.lost + summary.outside, summary.attempted)
        self.assertEqual(summary.events, trace.event_count())
        self.assertGreater(summary.lost, summary.events, "this was no flood")
        self.assertEqual(sum(loss.events for loss in summary.lost_by_cause), summary.lost)
        self.assertEqual(sum(thread.name.startswith("flood") for thread in summary.threads), THREADS)
        for thread in summary.threads:
            self.assertEqual(thread.attempted, thread.in_trace + thread.lost + thread.outside, thread)
        self.assertAlmostEqual(summary.duration_ns / 1e6, duration_ms, delta=100)

        # Shown: in the manifest, in the table, in the trace, and on XProf's overview page.
        self.assertEqual(entry["events"], summary.events)
        self.assertEqual(entry["lost"], summary.lost)
        self.assertEqual(entry["lost_by_cause"], {loss.cause: loss.events for loss in summary.lost_by_cause})
        digits = re.sub(r"[^0-9\n]", "", run.table)
        self.assertIn(str(summary.lost), digits, run.table)
        shown = [f"{loss.events} of {summary.attempted} events lost ({loss.cause})" for loss in summary.lost_by_cause]
        warnings = "\n".join(trace.space.warnings)
        for text in shown:
            self.assertIn(text, warnings)

        self.assertEqual(traces.rule_violations(trace), [])
        self._check_order(trace)
        del trace
        xprof = self.xprof()
        self.assertIn("overview_page", xprof.tool_names([path]))
        diagnostics = "\n".join(xprof.overview([path]).diagnostics)
        for text in shown:
            self.assertIn(text, diagnostics)
        events = xprof.read([path], "trace_viewer@")["traceEvents"]
        self.assertGreater(sum(event.get("name") == "flood" for event in events), 1000)

    def _check_order(self, trace):
        """Nothing torn, nothing out of order: each thread's scopes carry their number within the thread."""
        plane = trace.planes[traces.HOST_PLANE]
        sequence = next(key for key, value in plane.stat_metadata.items() if value.name == "sequence")
        lines = [line for line in plane.lines if line.name.startswith("flood")]
        self.assertEqual(len(lines), THREADS)
        for line in lines:
            last_number, last_end = 0, 0
            for event in line.events:
                stat = next((stat for stat in event.stats if stat.metadata_id == sequence), None)
                if stat is None:
                    continue  # open when the capture ended: its argument was not known yet
                number = stat.int64_value or stat.uint64_value
                self.assertGreater(number, last_number, line.name)
                self.assertGreaterEqual(event.offset_ps, last_end, line.name)
                last_number, last_end = number, event.offset_ps + event.duration_ps

    def test_not_one_event_is_unaccounted_for(self):
        """The worker leaves during the capture, after its threads have ended: nothing is in flight, and the counts are equal."""
        worker = self.own_worker("flood_worker", f"--threads={THREADS}", "--seconds=4", env={"JOBSCOPE_STORE_MB": "8"})
        run = self.start_capture([worker.address], 60_000, "--protocol=tensorflow")
        self.assertEqual(worker.process.wait(30), 0, worker.process.output())
        attempted = int(re.search(r"attempted (\d+)", worker.process.stdout())[1])
        run.finish(20)
        self.assertEqual(run.exit_code, 0, run.process.output())
        trace = traces.Trace.load(next(clients.only_run(self.logdir).glob("*.xplane.pb")))
        summary = trace.summary()
        self.assertEqual(summary.ended_by, "shutdown")
        self.assertEqual(flood_attempted(summary), attempted)
        self.assertEqual(summary.events + summary.lost + summary.outside, summary.attempted)
        self.assertEqual(summary.events, trace.event_count())
        self.assertGreater(summary.lost, 0)
        self.assertEqual(traces.rule_violations(trace), [])

    def test_the_default_cap_holds(self):
        attempted, entry, path, _ = self.flood(store_mb=256, duration_ms=10_000, threads=2)
        size = path.stat().st_size
        self.assertGreater(size, 32 * MIB, "the store was hardly used")
        host = next(collector for collector in entry["collectors"] if collector["name"] == "host")
        self.assertGreater(host["lost"], 0)
        self.assertLessEqual(host["events"] + host["lost"], attempted)
        # The client copies the reply to its file; it never makes objects of it.
        self.assertLessEqual(self.client_peak, 1.2 * size + 32 * MIB)

    def test_a_streamed_trace_is_many_times_the_store(self):
        """Memory on both sides does not follow the trace's size; its parts are whole, and nothing is counted twice."""
        store_mb, duration_ms = 8, 4000
        worker = self.own_worker("flood_worker", "--threads=2", "--scopes_per_second=1000000", env={"JOBSCOPE_STORE_MB": str(store_mb)})
        self.capture([worker.address], 100, logdir=self.scratch / "first")  # allocates what stays
        before = worker.process.status_kib("VmRSS") * 1024
        run = self.start_capture([worker.address], duration_ms, "--part_mb=16")
        sampler = MemorySampler(run.process)
        run.finish(duration_ms / 1e3 + 40)
        self.assertEqual(run.exit_code, 0, run.process.output())
        self.assertLessEqual(worker.process.status_kib("VmHWM") * 1024, before + 2 * RING_BYTES + store_mb * MIB + SLACK_BYTES)

        directories = clients.run_directories(self.logdir)
        entry = json.loads((directories[0] / "capture.json").read_text())["workers"][0]
        self.assertEqual(entry["protocol"], "native")
        self.assertEqual(len(entry["files"]), len(directories))
        size = sum(file["bytes"] for file in entry["files"])
        self.assertGreater(size, 4 * store_mb * MIB)
        self.assertLessEqual(sampler.peak_bytes(), 96 * MIB, f"for {size} bytes")
        counted = 0
        for file in entry["files"]:
            trace = traces.Trace.load(directories[0] / file["path"])
            self.assertEqual(traces.rule_violations(trace), [])
            self.assertEqual(trace.event_count(), file["events"])
            counted += trace.event_count()
            summary = trace.summary()
            del trace
        self.assertEqual(counted, entry["events"])
        self.assertEqual(summary.events, entry["events"])
        self.assertEqual(summary.events + summary.lost + summary.outside, summary.attempted)

    def test_a_second_capture_needs_no_more_memory(self):
        worker = self.own_worker("flood_worker", "--threads=2", env={"JOBSCOPE_STORE_MB": "32"})
        self.capture([worker.address], 100, logdir=self.scratch / "first")  # allocates what stays
        before = worker.process.status_kib("VmRSS") * 1024
        peaks = []
        for number in range(4):
            run = self.capture([worker.address], 1500, logdir=self.scratch / f"run-{number}")
            self.assertEqual(run.exit_code, 0, run.process.output())
            peaks.append(worker.process.status_kib("VmHWM") * 1024)
        # How full one store became depends on how fast it was emptied; two of them were never there.
        self.assertLessEqual(peaks[-1], before + 2 * RING_BYTES + 32 * MIB + SLACK_BYTES, peaks)
        self.assert_wrote_nothing(worker)


if __name__ == "__main__":
    case.main("capture", "flood_worker")
