# SPDX-License-Identifier: Apache-2.0
"""What a trace must hold, as functions of a Trace: each one fails on a trace that lacks it (selftest.py shows that)."""
import collections
import re
import statistics

from gpu_tests.outcome import require

STREAM_LINE = re.compile(r"^Stream #(\d+)")
DETAIL = re.compile(r"^(\w+):(.*)$", re.MULTILINE)
MIN_ORDERED_SHARE = 0.9999
MAX_DURING = 1.05
MAX_AFTER = 1.01
MAX_OF_KINETO = 1.1
# Events are recorded beside the kernels: some microseconds lie between.
MAX_OFF_US = 10
MAX_OFF_SHARE = 0.02


def delivered(trace):
    """Whole, or cut by nobody but us: checks end most captures by a request."""
    ours = trace.outcome == "truncated" and trace.entry.get("ended_by") == "request"
    require(trace.outcome == "ok" or ours, f"outcome {trace.outcome}: {trace.reason}")


def collector_on(trace):
    delivered(trace)
    cuda = trace.cuda
    require(cuda["state"] == "on", f"the CUDA collector is {cuda['state']}: {cuda.get('reason')}")
    return cuda


def nothing_lost(trace):
    cuda = collector_on(trace)
    lost = cuda.get("lost", 0)
    require(lost == 0, f"{lost} GPU records lost: {trace.entry.get('lost_by_cause')}; {trace.entry.get('warnings')}")


def kernels(trace, name, ordinal=None):
    return [event for event in trace.device_events(ordinal) if name in event.name]


def kernel_count(trace, name, launched, ordinal=None, may_lose=False):
    """As many kernels as were launched; with may_lose those that the account says are lost are missing."""
    found = len(kernels(trace, name, ordinal))
    if not may_lose:
        nothing_lost(trace)
        require(found == launched, f"{found} {name} in the trace, {launched} were launched, none is said to be lost")
        return {"launched": launched, "in_trace": found, "lost": 0}
    lost = collector_on(trace).get("lost", 0)
    require(found <= launched, f"{found} {name} in the trace, only {launched} were launched")
    require(found + lost >= launched, f"{found} {name} in the trace and {lost} lost, but {launched} were launched")
    return {"launched": launched, "in_trace": found, "lost": lost}


def launch_order(trace, name, ordinal=None):
    """Every kernel has the call that launched it, and starts after it began: at least 99.99 % of them."""
    calls = collections.defaultdict(list)
    for event in trace.host_events():
        if "correlation_id" in event.stats:
            calls[event.stats["correlation_id"]].append(event.start_ps)
    pairs = early = 0
    worst_ps = 0
    without = 0
    for kernel in kernels(trace, name, ordinal):
        starts = calls.get(kernel.stats.get("correlation_id"))
        if not starts:
            without += 1
            continue
        pairs += 1
        # The later one of a runtime call and the driver call in it.
        if kernel.start_ps < max(starts):
            early += 1
            worst_ps = max(worst_ps, max(starts) - kernel.start_ps)
    require(pairs > 0, f"no {name} has the call that launched it")
    require(without == 0, f"{without} of {pairs + without} {name} have no call that launched them")
    share = 1 - early / pairs
    require(share >= MIN_ORDERED_SHARE,
            f"{early} of {pairs} kernels start before their launch (by up to {worst_ps / 1e6:.1f} us): {share:.6f}")
    return {"pairs": pairs, "early": early, "worst_early_us": worst_ps / 1e6, "share_in_order": share}


def queue_accounted_for(trace, name, launched):
    """Each launch of a queue that the end cut is one of: a kernel, of which at most one is cut; begun after the end; unfinished."""
    collector_on(trace)
    found = kernels(trace, name)
    cut = [event for event in found if "truncated" in event.stats]
    calls = sum(1 for event in trace.host_events() if event.name.startswith("Launch ") or event.name.startswith("cudaLaunchKernel"))
    after = trace.plane_stat("launched_but_started_after_the_window")
    causes = trace.entry.get("lost_by_cause", {})
    unfinished = causes.get("gpu_unfinished", 0)
    measured = {"launched": launched, "in_trace": len(found), "cut": len(cut), "began_after": after, "unfinished": unfinished}
    require(set(causes) <= {"gpu_unfinished"}, f"lost by other causes: {causes}")
    require(calls == launched, f"{calls} launches in the trace, {launched} were made")
    total = len(found) + after + unfinished
    require(total == launched, f"{total} of {launched} launches are accounted for: {measured}")
    require(len(cut) <= 1, f"{len(cut)} kernels of one stream are cut: {measured}")
    require(0 < len(found) < launched, f"the end did not cut the queue: {measured}")
    return measured


def times_agree(trace, name, length_us, period_us):
    """Lengths of kernels, and from the begin of each to that of the next, against what CUDA's own events measured."""
    nothing_lost(trace)
    found = sorted(kernels(trace, name), key=lambda event: event.start_ps)
    require(len(found) == len(length_us), f"{len(found)} {name} in the trace, {len(length_us)} were launched")
    measured = {}
    lengths = [event.duration_ps / 1e6 for event in found]
    periods = [(b.start_ps - a.start_ps) / 1e6 for a, b in zip(found, found[1:])]
    for what, ours, theirs in (("length", lengths, length_us), ("period", periods, period_us)):
        off = [abs(a - b) for a, b in zip(ours, theirs)]
        measured[what] = {"median_us": statistics.median(ours), "cuda_events_us": statistics.median(theirs),
                          "median_off_us": statistics.median(off), "most_off_us": max(off)}
        limit = MAX_OFF_US + MAX_OFF_SHARE * statistics.median(theirs)
        require(statistics.median(off) <= limit, f"the {what} of {name} is off by {statistics.median(off):.1f} us: {measured}")
        require(max(off) <= 10 * limit, f"the {what} of one {name} is off by {max(off):.1f} us: {measured}")
    return measured


def stream_count(trace, name, streams):
    found = {match.group(1) for event in kernels(trace, name) if (match := STREAM_LINE.match(event.line))}
    require(len(found) == streams, f"{name} stands on {len(found)} streams, {streams} were used")
    return {"streams": len(found)}


def thread_count(trace, name, threads):
    lines = {event.line for event in trace.host_events() if event.name.startswith("Launch ") and name in event.name}
    require(len(lines) == threads, f"launches of {name} stand on {len(lines)} threads, {threads} launched")
    return {"threads": len(lines)}


def _details(event, stat):
    return dict(DETAIL.findall(str(event.stats.get(stat, ""))))


def copies(trace, count, size):
    """`count` copies to, within and from the GPU, and memsets, each of `size` bytes, between the right kinds of memory."""
    nothing_lost(trace)
    expected = {
        "MemcpyHtoD": ("memcpy_details", "pinned", "device"),
        "MemcpyDtoD": ("memcpy_details", "device", "device"),
        "MemcpyDtoH": ("memcpy_details", "device", "pinned"),
        "Memset": ("memset_details", None, "device"),
    }
    measured = {}
    events = trace.device_events()
    for name, (stat, source, target) in expected.items():
        found = [_details(event, stat) for event in events if event.name == name]
        require(len(found) == count, f"{len(found)} {name} in the trace, {count} were made")
        total = sum(int(one.get("num_bytes", 0)) for one in found)
        require(total == count * size, f"{name}: {total} bytes in the trace, {count * size} were asked for")
        for one in found:
            require(source is None or one.get("from") == source, f"{name} from {one.get('from')}, not from {source}")
            require(one.get("to") == target, f"{name} to {one.get('to')}, not to {target}")
        measured[name] = {"count": count, "bytes": total}
    return measured


def peer_copies(trace, count, size):
    nothing_lost(trace)
    found = [_details(event, "memcpy_details") for event in trace.device_events() if event.name.startswith("Memcpy")]
    right = [one for one in found if (one.get("from_device"), one.get("to_device")) == ("0", "1")]
    require(len(right) == count, f"{len(right)} copies from GPU 0 to GPU 1 in the trace, {count} were made: {found[:3]}")
    total = sum(int(one["num_bytes"]) for one in right)
    require(total == count * size, f"{total} bytes copied by the trace, {count * size} were asked for")
    return {"count": count, "bytes": total}


def allocations(trace, count, size):
    """`count` allocations and releases of `size` bytes, and a total that ends where it began."""
    nothing_lost(trace)
    events = sorted((e for e in trace.host_events() if e.name.startswith("Memory")), key=lambda e: e.start_ps)
    for name in ("MemoryAllocation", "MemoryDeallocation"):
        found = [e for e in events if e.name == name]
        require(len(found) == count, f"{len(found)} {name} in the trace, {count} were made")
        total = sum(e.stats.get("allocation_bytes", 0) for e in found)
        require(total == count * size, f"{name}: {total} bytes in the trace, {count * size} were made")
    last = events[-1].stats.get("bytes_allocated")
    require(last == 0, f"the total ends at {last} bytes, all was released")
    peak = max(e.stats.get("peak_bytes_in_use", 0) for e in events)
    require(peak == count * size, f"the peak is {peak} bytes, {count * size} were held at once")
    return {"allocations": count, "bytes": count * size, "peak_bytes": peak}


def host_trace_complete(trace, scope="command"):
    """The host's part is there, whatever became of the GPU's."""
    delivered(trace)
    found = sum(1 for event in trace.host_events() if event.name == scope)
    require(found > 0, f"no scope {scope!r} in the host's trace: {len(trace.host_events())} events")
    return {"host_events": len(trace.host_events())}


def gpu_part_missing(trace, state, *words):
    """The collector gave up with a reason that holds each of the words."""
    cuda = trace.cuda
    require(cuda["state"] in state, f"the CUDA collector is {cuda['state']}, not {state}: {cuda.get('reason')}")
    reason = cuda.get("reason", "")
    for word in words:
        require(word in reason, f"the reason does not say {word!r}: {reason!r}")
    return {"state": cuda["state"], "reason": reason}


def steady(samples, limits, settled):
    """No figure of `samples` (dicts, in order) grows by more than its limit after the first `settled` of them."""
    require(len(samples) > settled + 1, f"{len(samples)} samples are too few")
    measured = {}
    for key, limit in limits.items():
        # Medians of a few: a buffer that happens to be there at one look is no growth.
        tail = max(1, (len(samples) - settled) // 4)
        early = statistics.median(sample[key] for sample in samples[settled:settled + tail])
        late = statistics.median(sample[key] for sample in samples[-tail:])
        measured[key] = {"first": samples[0][key], "settled": early, "last": late}
        require(late - early <= limit, f"{key} grew from {early} to {late}, more than {limit}: {measured}")
    return measured


def step_time(before, during, after, max_during=MAX_DURING, max_after=MAX_AFTER):
    """Each: pairs of median step times (subject, control) of rounds in turn. What both share cancels out."""
    def ratio(rounds):
        return statistics.median(subject / control for subject, control in rounds)

    base = ratio(before)
    measured = {
        "subject_ms": statistics.median(subject for subject, _ in before),
        "before": base,
        "during": ratio(during) / base,
        "after": ratio(after) / base,
        "before_rounds": [round(s / c, 4) for s, c in before],
        "after_rounds": [round(s / c, 4) for s, c in after],
    }
    require(measured["during"] <= max_during, f"steps take {measured['during']:.3f} x during a capture: {measured}")
    require(measured["after"] <= max_after, f"steps take {measured['after']:.3f} x after captures: {measured}")
    return measured


def overhead(alone, ours, theirs, limit):
    """Ratios of step times to a second process: what we add, against what another profiler adds."""
    base = statistics.median(alone)
    # The other profiler runs in the second process, so that its ratio is turned around.
    measured = {"ours": statistics.median(ours) / base, "theirs": statistics.median(theirs) * base}
    require(measured["ours"] <= limit * max(1.0, measured["theirs"]), f"our capture costs more than the other profiler: {measured}")
    return measured


def launch_order_inside(trace, name):
    """launch_order of a window that cuts through work: kernels whose call lies before it have none."""
    calls = {}
    for event in trace.host_events():
        if "correlation_id" in event.stats:
            key = event.stats["correlation_id"]
            calls[key] = max(event.start_ps, calls.get(key, 0))
    pairs = [(k, calls[k.stats.get("correlation_id")]) for k in kernels(trace, name) if k.stats.get("correlation_id") in calls]
    early = sum(1 for kernel, call_ps in pairs if kernel.start_ps < call_ps and "truncated" not in kernel.stats)
    require(pairs, f"no {name} has the call that launched it")
    require(1 - early / len(pairs) >= MIN_ORDERED_SHARE, f"{early} of {len(pairs)} {name} start before their launch")
    return {"pairs": len(pairs), "early": early}
