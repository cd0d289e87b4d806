# SPDX-License-Identifier: Apache-2.0
# Embedded into bridge_test.
import threading

calls = []


def echo(value):
    calls.append(value)
    return value


def count():
    return len(calls)


def fail(text):
    raise ValueError(text)


def give_list():
    return []


def give_large():
    return 1 << 64


def report_from_thread(text):
    thread = threading.Thread(target=report, args=(text, 1, 2.5, None, b"\x00\xff"))
    thread.start()
    thread.join()


def report_object():
    report(object())


def report_is_there():
    return callable(report)


def backslash():
    return "\\ \" @x@ ${x} ;]["


report = globals()["report"]  # given by the test
