# SPDX-License-Identifier: Apache-2.0
"""Ends of a worker: by return, _exit and signals, with calls and captures in flight. No crash, no hang, no caller left waiting."""
import os
import signal
import sys
import time

import harness

UNAVAILABLE = 14
# Time limit of an exit that ends a capture: 2 s for the delivery, the rest for a busy machine. The capture itself would take longer.
LEAVE_S = 30
CAPTURE = ("profile", "60000")
# Part of the second that a process allows for the delivery at its exit.
DELIVERY_S = 0.5


def worker_leave(how):
    def on_term(*_):
        sys.exit(0)

    if how == "handled_sigterm":
        signal.signal(signal.SIGTERM, on_term)
    library = harness.serve()
    if how == "handled_sigterm":
        while True:
            signal.pause()
    harness.wait()
    if how == "return":
        return
    if how == "sys_exit":
        sys.exit(0)
    if how == "underscore_exit":
        os._exit(0)
    if how == "stop":
        began = time.monotonic()
        code = library.stop()
        harness.tell(code=code, seconds=time.monotonic() - began, running=library.running())
        harness.wait()
        return
    signal.pause()  # until the test kills it


class ExitTest(harness.TestCase):
    def _leave(self, how, call, number=None):
        """Lets a worker leave with `call` in flight; returns its exit code, its standard error and the caller's answer."""
        with harness.Worker(__file__, "leave", how) as worker:
            caller = harness.Caller(worker.hear()["address"], *call)
            self.assertIn(caller.first, ("recording", "looping"))
            began = time.monotonic()
            if number is None:
                worker.go_on()
            else:
                worker.process.send_signal(number)
            code, errors = worker.finish()
            self.assertLess(time.monotonic() - began, LEAVE_S)
            return code, errors, caller.result(LEAVE_S)

    def _leave_recording(self, how, number=None):
        return self._leave(how, CAPTURE, number)

    @harness.again_if_busy(DELIVERY_S)
    def test_return_delivers_what_was_recorded(self):
        code, errors, answer = self._leave_recording("return")
        self.assertEqual((code, errors), (0, ""))
        self.assertEqual(answer["code"], 0, answer)
        self.assertGreater(answer["bytes"], 0)

    @harness.again_if_busy(DELIVERY_S)
    def test_sys_exit_delivers_what_was_recorded(self):
        code, errors, answer = self._leave_recording("sys_exit")
        self.assertEqual((code, errors), (0, ""))
        self.assertEqual(answer["code"], 0, answer)

    @harness.again_if_busy(DELIVERY_S)
    def test_handled_sigterm_delivers_what_was_recorded(self):
        code, errors, answer = self._leave_recording("handled_sigterm", signal.SIGTERM)
        self.assertEqual((code, errors), (0, ""))
        self.assertEqual(answer["code"], 0, answer)

    def test_underscore_exit_ends_the_call(self):
        code, errors, answer = self._leave_recording("underscore_exit")
        self.assertEqual((code, errors), (0, ""))
        self.assertEqual(answer["code"], UNAVAILABLE, answer)

    def test_sigterm_ends_the_process_and_the_call(self):
        code, errors, answer = self._leave_recording("signal", signal.SIGTERM)
        self.assertEqual((code, errors), (-signal.SIGTERM, ""))
        self.assertEqual(answer["code"], UNAVAILABLE, answer)

    def test_sigkill_ends_the_call(self):
        code, _, answer = self._leave_recording("signal", signal.SIGKILL)
        self.assertEqual(code, -signal.SIGKILL)
        self.assertEqual(answer["code"], UNAVAILABLE, answer)

    @harness.again_if_busy(DELIVERY_S)
    def test_stop_delivers_within_two_seconds(self):
        with harness.Worker(__file__, "leave", "stop") as worker:
            caller = harness.Caller(worker.hear()["address"], *CAPTURE)
            self.assertEqual(caller.first, "recording")
            worker.go_on()
            said = worker.hear()
            self.assertEqual((said["code"], said["running"]), (0, 0))
            self.assertLess(said["seconds"], 2.5)
            answer = caller.result(LEAVE_S)
            self.assertEqual(answer["code"], 0, answer)
            worker.go_on()
            self.assertEqual(worker.finish(), (0, ""))

    def test_ends_with_calls_in_flight(self):
        for how, number, expected in (
            ("return", None, 0),
            ("underscore_exit", None, 0),
            ("signal", signal.SIGTERM, -signal.SIGTERM),
            ("handled_sigterm", signal.SIGTERM, 0),
        ):
            for _ in range(5):
                with self.subTest(how=how):
                    code, errors, answer = self._leave(how, ("loop", "4"), number)
                    self.assertEqual((code, errors), (expected, ""))
                    self.assertGreater(answer["ok"], 0, answer)


if __name__ == "__main__":
    harness.main(globals())
