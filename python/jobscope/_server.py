# SPDX-License-Identifier: Apache-2.0
"""The profiler server of this process."""
import os

from jobscope import _errors, _native, _nvtx

# (pid, address) -> Server. At most one lives; of a forked child's parent the entry is left behind.
_servers = {}


class Server:
    """The profiler server of this process, made by start_server. It lives until stop, or as long as the process."""

    def __init__(self, address):
        self._address = address
        self._pid = os.getpid()
        self._stopped = False

    @property
    def address(self):
        """The address really bound, such as "127.0.0.1:40123": what `capture --service_addr` takes."""
        return self._address

    @property
    def running(self):
        """False after stop, and in a forked child."""
        return not self._stopped and self._pid == os.getpid() and _native.server_running()

    def stop(self):
        """Ends the server; a running capture is ended and delivered, for at most 2 s. Does nothing the second time."""
        if not self.running:
            return
        self._stopped = True
        _servers.pop((self._pid, self._address), None)
        _errors.raise_for(_native.server_stop(), "the server could not be stopped")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def __repr__(self):
        return f"<jobscope.Server {self._address}{'' if self.running else ', not running'}>"


def _text(name, value):
    if value is None or isinstance(value, str):
        return value
    try:
        return os.fsdecode(value)
    except TypeError:
        raise TypeError(f"{name} is a str or a path, not {type(value).__name__}") from None


def start_server(
    address=None,
    *,
    insecure=False,
    store_bytes=0,
    ring_records=0,
    rings_cap_bytes=0,
    always_on=True,
    tls_cert=None,
    tls_key=None,
    tls_ca=None,
    token_file=None,
):
    """Starts the profiler server of this process, and returns it.

    `address` is "host:port", "[v6]:port" or "unix:/path"; port 0 picks one that is free, and a suffix
    "+rank" adds the local rank to the port. Without one, JOBSCOPE_LISTEN says it. A second call with the
    same options returns the same server. Takes a few milliseconds, without Python's lock.

    `insecure` serves an address that other hosts reach to all of them; otherwise that needs credentials:
    `tls_cert` and `tls_key` (PEM files of the worker), `tls_ca` (callers must present a certificate of it),
    `token_file`. `store_bytes` bounds the memory of one capture (0: JOBSCOPE_STORE_MB, else 256 MiB),
    `ring_records` are the records per thread (0: 32,768), `rings_cap_bytes` the memory for all threads'
    (0: 64 MiB). `always_on=False` records no steps between captures.

    Raises a subclass of jobscope.Error that says what to do; training can go on without the server.
    """
    code, text = _native.server_start(
        _text("address", address),
        bool(insecure),
        _errors.whole_number("store_bytes", store_bytes),
        _ring_records(ring_records),
        _errors.whole_number("rings_cap_bytes", rings_cap_bytes),
        bool(always_on),
        _text("tls_cert", tls_cert),
        _text("tls_key", tls_key),
        _text("tls_ca", tls_ca),
        _text("token_file", token_file),
    )
    _errors.raise_for(code, text)
    if not _native.recorder_lives():
        _native.server_stop()
        raise _errors.ForkedError(_errors.DEAD_RECORDER)
    _nvtx.serve()
    return _servers.setdefault((os.getpid(), text), Server(text))


def _ring_records(value):
    if _errors.whole_number("ring_records", value) >= 1 << 32:
        raise _errors.InvalidError(f"ring_records = {value} is out of range: a power of two, 1,024 to 4,194,304")
    return value
