# SPDX-License-Identifier: Apache-2.0
import os
from types import TracebackType
from typing import (
    Any,
    Callable,
    Generic,
    Iterable,
    Iterator,
    Literal,
    Mapping,
    NamedTuple,
    Optional,
    Protocol,
    Tuple,
    Type,
    TypeVar,
    Union,
    overload,
)

from typing_extensions import Unpack

from jobscope._capture import CaptureOptions as _CaptureOptions

_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., Any])
_Path = Union[str, "os.PathLike[str]"]

__version__: str
__all__: list[str]

# ---- recording ----

class _Scope(Protocol):
    def __enter__(self) -> None: ...
    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
        /,
    ) -> None: ...

def trace(name: str, /, **arguments: object) -> _Scope: ...
def trace_at(level: int, name: str, /, **arguments: object) -> _Scope: ...
def trace_coarse(name: str, /, **arguments: object) -> _Scope: ...
def input_wait(name: str = "input_wait", /, **arguments: object) -> _Scope: ...
def step(number: int, /, name: str = "train") -> _Scope: ...
def instant(name: str, /, **arguments: object) -> None: ...
def counter(name: str, value: float, /) -> None: ...
def set_thread_name(name: str, /) -> None: ...
def enabled(level: int = 1) -> bool: ...
@overload
def traced(function: _F, *, name: Optional[str] = None, level: int = 1) -> _F: ...
@overload
def traced(
    function: Optional[str] = None, *, name: Optional[str] = None, level: int = 1
) -> Callable[[_F], _F]: ...

class input_waits(Generic[_T]):
    def __init__(self, iterable: Iterable[_T], name: str = "input_wait") -> None: ...
    def __iter__(self) -> Iterator[_T]: ...
    def __len__(self) -> int: ...
    def __getattr__(self, attribute: str) -> Any: ...

class steps(Generic[_T]):
    def __init__(self, iterable: Iterable[_T], first: int = 0, name: str = "train") -> None: ...
    def __iter__(self) -> Iterator[Tuple[int, _T]]: ...
    def __len__(self) -> int: ...
    def __getattr__(self, attribute: str) -> Any: ...

# ---- serving ----

class Server:
    def __init__(self, address: str, error: str = "") -> None: ...
    @property
    def address(self) -> str: ...
    @property
    def error(self) -> str: ...
    @property
    def running(self) -> bool: ...
    def __bool__(self) -> bool: ...
    def stop(self) -> None: ...
    def __enter__(self) -> Server: ...
    def __exit__(self, *_: object) -> None: ...

def start_server(
    address: Optional[str] = None,
    *,
    insecure: bool = False,
    store_bytes: int = 0,
    ring_records: int = 0,
    rings_cap_bytes: int = 0,
    always_on: bool = True,
    tls_cert: Optional[_Path] = None,
    tls_key: Optional[_Path] = None,
    tls_ca: Optional[_Path] = None,
    token_file: Optional[_Path] = None,
    tls_allowed_names: Optional[str] = None,
    allow_users: Optional[str] = None,
    max_duration_ms: int = 0,
    max_trace_bytes: int = 0,
    max_captures_per_minute: int = 0,
    max_levels: Optional[str] = None,
    allow_close: bool = False,
    strict: bool = False,
) -> Server: ...

# ---- capturing oneself ----

class CaptureResult(NamedTuple):
    run_directory: str
    events: int
    lost: Optional[int]

def start(logdir: _Path, **options: Unpack[_CaptureOptions]) -> None: ...
def stop() -> CaptureResult: ...
def capture_steps(
    logdir: _Path, first: int, last: int, **options: Unpack[_CaptureOptions]
) -> None: ...

class capture:
    result: Optional[CaptureResult]
    def __init__(self, logdir: _Path, **options: Unpack[_CaptureOptions]) -> None: ...
    def __enter__(self) -> capture: ...
    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        _: Optional[TracebackType],
    ) -> None: ...

# ---- collectors of others ----

class Event(NamedTuple):
    name: str
    begin_ns: int
    duration_ns: int = 0
    line: Union[str, int, None] = None
    arguments: Optional[Mapping[str, object]] = None

class Sample(NamedTuple):
    name: str
    at_ns: int
    value: float

_Events = Iterable[Union[Event, Sample, Tuple[Any, ...]]]

class ProviderSession:
    host_tracer_level: int
    device_tracer_level: int
    python_tracer_level: int
    begin_monotonic_ns: Optional[int]
    begin_realtime_ns: Optional[int]
    end_monotonic_ns: Optional[int]
    end_realtime_ns: Optional[int]
    def add(self, events: _Events) -> bool: ...
    def add_xspace(self, data: Union[bytes, bytearray, memoryview]) -> None: ...

def register_provider(
    name: str,
    provider: Union[Callable[[ProviderSession], object], object],
    *,
    clock: Literal["monotonic", "realtime"] = "monotonic",
) -> None: ...
def unregister_provider(name: str) -> None: ...

# ---- frameworks ----

# Unknown base class: if the framework is imported, an instance is also one of its own Callback.
class KerasCallback(Any):  # type: ignore[misc]
    def __init__(self, first_step: int = 0) -> None: ...

class LightningCallback(Any):  # type: ignore[misc]
    def __init__(self, first_step: int = 0) -> None: ...

# ---- errors ----

class Error(RuntimeError):
    code: int

class InvalidError(Error, ValueError): ...
class AddressError(Error, OSError): ...
class RefusedError(Error, PermissionError): ...
class BusyError(Error): ...
class ForkedError(Error): ...
class DiskError(Error, OSError): ...
class StateError(Error): ...
