# SPDX-License-Identifier: Apache-2.0
"""Implements the console scripts: they execute the C++ client in the package."""
import os
import sys

_CLIENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "capture")


def _become(name):
    if not os.access(_CLIENT, os.X_OK):
        sys.exit(f"{name}: {_CLIENT} is not there or cannot be executed: reinstall the package jobscope")
    sys.stdout.flush()
    # One program; the name that it is called by selects its verbs.
    os.execv(_CLIENT, [name, *sys.argv[1:]])


def capture():
    """capture --service_addr=… --logdir=…"""
    _become("capture")


def jobscope():
    """jobscope capture|check|stop|run|report|diff …"""
    _become("jobscope")
