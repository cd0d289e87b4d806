# SPDX-License-Identifier: Apache-2.0
"""Starts the profiler server of this process."""
import os
import warnings

from jobscope import _errors, _native, _nvtx

# (pid, address) -> Server. At most one is alive; a forked child ignores its parent's entry.
_servers = {}


class Server:
    """The profiler server of this process, returned by start_server. Runs until stop(), or until the process ends.

    False as a condition if no server runs; `error` then gives the reason.
    """

    def __init__(self, address, error=""):
        self._address = address
        self._error = error
        self._pid = os.getpid()
        self._stopped = False

    @property
    def address(self):
        """The bound address, such as "127.0.0.1:40123", for `capture --service_addr`; "" without a server."""
        return self._address

    @property
    def error(self):
        """Why the server is not running, or not with these options, and the remedy. "" if there is no error."""
        return self._error

    @property
    def running(self):
        """False after stop(), after a caller has closed the server, in a forked child, and if it could not be started."""
        return self._may_run() and _native.server_running()

    def stop(self):
        """Stops the server: ends and delivers a running capture, within 2.8 s. Further calls have no effect."""
        if not self._may_run():  # not `running`: a stop waits for a caller's close that has begun
            return
        self._forget()
        _errors.raise_for(_native.server_stop(), "the server could not be stopped")

    def _may_run(self):
        return bool(self._address) and not self._stopped and self._pid == os.getpid()

    def _forget(self):
        self._stopped = True
        _servers.pop((self._pid, self._address), None)

    def __bool__(self):
        return self.running

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def __repr__(self):
        return f"<jobscope.Server {self._address or 'without an address'}{'' if self.running else ', not running'}>"


def _text(name, value):
    if value is None or isinstance(value, str):
        return value
    if name == "address" and isinstance(value, int):
        raise TypeError(f'address is a str such as "127.0.0.1:{value}", not the int {value}')
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
    tls_allowed_names=None,
    allow_users=None,
    max_duration_ms=0,
    max_trace_bytes=0,
    max_captures_per_minute=0,
    max_levels=None,
    allow_close=False,
    strict=False,
):
    """Starts the profiler server of this process, and returns it.

    A job does not fail because of its profiler: if the server cannot be started, a RuntimeWarning states the remedy. The
    returned object is then false, and its `error` has the same text. `strict=True` raises a subclass of jobscope.Error
    instead.

    `address` is "host:port", "[v6]:port" or "unix:/path"; port 0 selects a free one, and a suffix "+rank" adds the
    local rank to the port. The default is JOBSCOPE_LISTEN. Under `jobscope run`, returns the server that was started, and ignores
    the options. Otherwise, a second call returns the running server, with a warning if its options differ. Takes a few
    milliseconds, without the GIL.

    `insecure` requires no credentials on an address that other hosts can reach, and on every address, loopback and Unix
    sockets included, accepts all users of the host. Configured credentials are still required. `False`: JOBSCOPE_INSECURE
    decides. Without `insecure`, an address that other hosts can reach requires credentials: `tls_cert` and `tls_key` (PEM
    files of the worker), and `tls_ca` (callers must present a certificate signed by it) or `token_file`. `store_bytes`
    limits the memory of one capture (0: JOBSCOPE_STORE_MB, else 256 MiB). `ring_records` is the number of records per
    thread (0: 32,768). `rings_cap_bytes` limits the memory of all threads' rings (0: 64 MiB). `always_on=False` records no
    steps between captures.

    On a loopback address or a Unix socket without a token or certificate, only this process's user and root may call,
    unless `insecure` is set; `allow_users` admits others: user ids, "1001,1002", or "any". `tls_allowed_names`,
    "alice,bob", restricts the certificates of `tls_ca`. `max_duration_ms`, `max_trace_bytes`, `max_captures_per_minute`
    and `max_levels` ("3/1/2": host, device and Python) are ceilings that no client can exceed; by default an hour, none,
    none and "3/1/1". With `allow_close` a caller may close the server (`capture stop --server`); a further call then starts
    it again.

    Arguments of a wrong type always raise TypeError.
    """
    texts = [_text(name, value) for name, value in
             (("tls_cert", tls_cert), ("tls_key", tls_key), ("tls_ca", tls_ca), ("token_file", token_file),
              ("tls_allowed_names", tls_allowed_names), ("allow_users", allow_users), ("max_levels", max_levels))]  # fmt: skip
    running = ""
    try:
        code, running, error = _errors.call(
            _native.server_start,
            _text("address", address),
            bool(insecure),
            _errors.whole_number("store_bytes", store_bytes),
            _small_number("ring_records", ring_records, "a power of two, 1,024 to 4,194,304"),
            _errors.whole_number("rings_cap_bytes", rings_cap_bytes),
            bool(always_on),
            *texts,
            _errors.whole_number("max_duration_ms", max_duration_ms),
            _errors.whole_number("max_trace_bytes", max_trace_bytes),
            _small_number("max_captures_per_minute", max_captures_per_minute, "1 to 1,000,000"),
            bool(allow_close),
        )
        _errors.raise_for(code, error)
        if not _native.recorder_lives():
            _native.server_stop()
            raise _errors.ForkedError(_errors.DEAD_RECORDER)
    except _errors.Error as error:
        if strict:
            raise
        busy = isinstance(error, _errors.BusyError)
        consequence = f"using the server on {running}" if busy else "the program goes on without a profiler server"
        warnings.warn(f"jobscope: {consequence}: {error}", RuntimeWarning, stacklevel=2)
        if not busy:
            return Server("", str(error))
        # Started by C++ code or by this module: one object per server.
        known = _servers.get((os.getpid(), running))
        return known if known is not None else Server(running, str(error))
    _nvtx.serve()
    for server in list(_servers.values()):
        if server.address != running:  # a caller, or C++ code, has closed it
            server._forget()
    return _servers.setdefault((os.getpid(), running), Server(running))


def _small_number(name, value, allowed):
    if _errors.whole_number(name, value) >= 1 << 32:
        raise _errors.InvalidError(f"{name} = {value} is out of range: {allowed}")
    return value
