# SPDX-License-Identifier: Apache-2.0
"""The library as a guest: signals, standard error, threads, loader and ports of its process stay as they were."""
import contextlib
import ctypes
import os
import signal
import threading
import time

import harness

# A signal that a fault raises must reach the thread that caused it.
FAULTS = {signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV}
# glibc's own, which it handles from the first thread on.
GLIBC_SIGNALS = 1 << 31 | 1 << 32
FORWARDED = {signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGCHLD}


def _status(field, thread=None):
    path = "/proc/self/status" if thread is None else f"/proc/self/task/{thread}/status"
    with open(path, encoding="ascii") as lines:
        for line in lines:
            if line.startswith(field + ":"):
                return int(line.split()[1], 16)
    raise KeyError(field)


def _dispositions():
    """Which signals are ignored, and which are caught."""
    return _status("SigIgn") & ~GLIBC_SIGNALS, _status("SigCgt") & ~GLIBC_SIGNALS


def _threads():
    return {int(name) for name in os.listdir("/proc/self/task")}


def _masks(threads):
    """The blocked signals of those that have not ended meanwhile, as gRPC's idle threads do."""
    masks = []
    for thread in threads:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            masks.append(_status("SigBlk", thread))
    return masks


def worker_signals():
    dispositions = _dispositions()
    before = _threads()
    harness.serve()
    harness.wait()
    harness.tell(
        kept=dispositions == _dispositions(),
        own_mask=_status("SigBlk", threading.get_native_id()),
        masks=_masks(_threads() - before),
    )
    harness.wait()


def worker_closed_error():
    os.close(2)
    harness.serve()
    harness.wait()
    harness.tell(error=os.readlink("/proc/self/fd/2"), inherited=os.get_inheritable(2))
    harness.wait()


CLOCK_NANOSLEEP = 230  # x86-64


def _sleepers():
    """{thread: its context switches so far} of those that sleep and hear nothing."""
    found = {}
    for thread in _threads():
        try:
            with open(f"/proc/self/task/{thread}/syscall", encoding="ascii") as call:
                if call.read().split()[0] != str(CLOCK_NANOSLEEP):
                    continue
            with open(f"/proc/self/task/{thread}/status", encoding="ascii") as status:
                found[thread] = sum(int(line.split()[1]) for line in status if "ctxt_switches" in line)
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has ended
    return found


def worker_idle():
    """Watches the server's threads until six sleeps were seen: the most that were asleep at one time."""
    harness.serve()
    seen, together = set(), 0
    while len(seen) < 6:
        sleepers = _sleepers().items()
        # A thread that has not switched since sleeps still: all of them slept at the moment between the looks.
        asleep = sleepers & _sleepers().items()
        together = max(together, len(asleep))
        seen |= asleep
        time.sleep(0.002)
    harness.tell(together=together)
    harness.wait()


def worker_serve():
    harness.serve()
    harness.wait()


def worker_start_only(address):
    before = len(_threads())
    library = harness.Library()
    code, bound, error = library.start(address)
    harness.tell(code=code, bound=bound, error=error, threads=len(_threads()) - before, running=library.running())
    harness.wait()


def worker_dlclose():
    library = harness.serve()
    dlclose = ctypes.CDLL(None).dlclose
    dlclose.argtypes = [ctypes.c_void_p]
    for _ in range(5):
        dlclose(library.c._handle)
    harness.wait()
    again = harness.Library()
    harness.tell(running=again.running(), start=again.start()[0])
    harness.wait()


def worker_restart():
    library = harness.serve()
    harness.wait()
    stopped = library.stop()
    code, address, error = library.start()
    harness.tell(stopped=stopped, code=code, address=address, error=error)
    harness.wait()


def worker_record():
    """Records with the one recorder that the server has brought into the process."""
    harness.serve()
    recorder = harness.Recorder("embedded scope")
    recorder.record_while_waiting()
    with open("/proc/self/maps", encoding="utf-8") as maps:
        files = {line.split()[-1] for line in maps if "libjobscope_trace" in line}
    harness.tell(recorders=len(files), enabled=recorder.enabled())
    harness.wait()


class GuestTest(harness.TestCase):
    def test_records_with_the_recorder_beside_it(self):
        with harness.Worker(__file__, "record") as worker:
            address = worker.hear()["address"]
            for _ in range(20):  # on a busy machine the loop may not run during a capture
                answer = harness.call(address, "profile", "300", "embedded scope")
                self.assertEqual(answer["code"], 0, answer)
                if answer["events"] > 10:
                    break
            self.assertGreater(answer["events"], 10, answer)
            worker.go_on()
            self.assertEqual(worker.hear(), {"recorders": 1, "enabled": False})
            worker.go_on()
            self.assertEqual(worker.finish(), (0, ""))

    def test_signals_are_left_to_the_application(self):
        with harness.Worker(__file__, "signals") as worker:
            self.assert_serves(worker.hear()["address"])
            worker.go_on()
            said = worker.hear()
            self.assertTrue(said["kept"], "a signal's disposition has changed")
            self.assertEqual(said["own_mask"], 0)
            self.assertTrue(said["masks"])
            for mask in said["masks"]:
                for number in FORWARDED:
                    self.assertTrue(mask >> (number - 1) & 1, f"{number!r} not blocked in {mask:x}")
                for number in FAULTS:
                    self.assertFalse(mask >> (number - 1) & 1, f"{number!r} blocked in {mask:x}")
            worker.go_on()
            self.assertEqual(worker.finish(), (0, ""))

    def test_standard_error_stays_silent(self):
        loud = {"GRPC_VERBOSITY": "DEBUG", "GRPC_TRACE": "all"}
        with harness.Worker(__file__, "serve", environment=loud) as worker:
            address = worker.hear()["address"]
            self.assert_serves(address)
            with harness.Worker(__file__, "start_only", address, environment=loud) as second:
                said = second.hear()
                self.assertEqual(said["code"], harness.E_ADDRESS, said)
                second.go_on()
                self.assertEqual(second.finish(), (0, ""))
            worker.go_on()
            self.assertEqual(worker.finish(), (0, ""))

    def test_closed_standard_error_becomes_no_socket(self):
        """Else the program's output there would go to a connected client."""
        with harness.Worker(__file__, "closed_error") as worker:
            self.assert_serves(worker.hear()["address"])
            worker.go_on()
            self.assertEqual(worker.hear(), {"error": "/dev/null", "inherited": False})
            worker.go_on()
            self.assertEqual(worker.finish(), (0, ""))

    def test_taken_port_is_refused_with_a_remedy(self):
        with harness.Worker(__file__, "serve") as worker:
            address = worker.hear()["address"]
            with harness.Worker(__file__, "start_only", address) as second:
                said = second.hear()
                self.assertEqual((said["code"], said["running"], said["bound"]), (harness.E_ADDRESS, 0, ""))
                self.assertIn(address, said["error"])
            self.assert_serves(address)

    def test_an_idle_worker_listens_all_the_time(self):
        with harness.Worker(__file__, "idle") as worker:
            worker.hear()
            self.assertEqual(worker.hear()["together"], 1)
            worker.go_on()
            self.assertEqual(worker.finish(), (0, ""))

    def test_kill_switch_starts_nothing(self):
        with harness.Worker(__file__, "start_only", "127.0.0.1:0", environment={"JOBSCOPE_DISABLE": "1"}) as worker:
            said = worker.hear()
            self.assertEqual((said["code"], said["running"], said["threads"]), (harness.E_REFUSED, 0, 0))
            self.assertIn("JOBSCOPE_DISABLE", said["error"])

    def test_dlclose_is_harmless(self):
        with harness.Worker(__file__, "dlclose") as worker:
            address = worker.hear()["address"]
            self.assert_serves(address)
            worker.go_on()
            self.assertEqual(worker.hear(), {"running": 1, "start": 0})
            self.assert_serves(address)
            worker.go_on()
            self.assertEqual(worker.finish(), (0, ""))

    def test_start_after_stop(self):
        with harness.Worker(__file__, "restart") as worker:
            self.assert_serves(worker.hear()["address"])
            worker.go_on()
            said = worker.hear()
            self.assertEqual((said["stopped"], said["code"]), (0, 0), said)
            self.assert_serves(said["address"])
            worker.go_on()
            self.assertEqual(worker.finish(), (0, ""))


if __name__ == "__main__":
    harness.main(globals())
