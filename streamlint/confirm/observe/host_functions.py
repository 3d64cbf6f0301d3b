"""Host functions: what they do with memory, and from when on they may have told the host something.

``stream.launch_host_func(lambda _: done.set(), None)``: whether the host waits for that, or asks a variable
that such a function stores, is not seen. But a function that has not begun has told nothing. So those that
are known as they are queued begin a little late: what the program queues meanwhile is not ordered by them.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.confirm.observe.events import Body
    from streamlint.confirm.observe.recorder import Recorder

_LATE_S: Final = 0.02
_LATE_AT_ALL_S: Final = 1.0
_SHARE: Final = 0.02
"""Of the time of the program, beyond the seconds that all may be late: a loop may queue one a step."""

_RETURNED_S: Final = 1.0
"""After which a thread of the driver has left a function of ctypes for sure."""

_USUAL: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_WITH_STATUS: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


class Late:
    """Stands for a host function, which it calls a little late."""

    def __init__(self, function: Callable[..., Any], functions: HostFunctions) -> None:
        self._function = function
        self._functions = functions
        self.body: Body | None = None
        """Known once it is queued."""
        self.ended: float | None = None

    def __call__(self, *arguments: Any) -> Any:
        try:
            return self._functions.run(self.body, self._function, arguments)
        finally:
            self.ended = time.monotonic()


class HostFunctions:
    """Those that the program queues."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._queued: dict[int, Late] = {}
        """By thread: the one that it is about to queue."""
        self._running: dict[int, Body] = {}
        """By thread of the driver."""
        self._entries: deque[tuple[Any, Late]] = deque()
        """What the driver calls, until nobody is in it."""
        self._start = time.monotonic()
        self._late = 0.0

    def late(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """What to queue in its stead. Of a graph nothing is known: it calls its functions at each launch."""
        if self._recorder.capturing:
            return function
        made = self._queued[threading.get_ident()] = Late(function, self)
        return made

    def late_address(self, address: int, *, status: bool) -> int:
        """The same for the address of a function."""
        kind = _WITH_STATUS if status else _USUAL
        made = self.late(kind(address))
        if not isinstance(made, Late):
            return address
        while self._entries and _is_over(self._entries[0][1]):
            self._entries.popleft()
        entry = kind(made)
        self._entries.append((entry, made))
        return ctypes.cast(entry, ctypes.c_void_p).value or 0

    def drop(self) -> None:
        """What this thread was about to queue is queued, or never will be."""
        self._queued.pop(threading.get_ident(), None)

    def queue(self, body: Body) -> None:
        """What this thread queues now does what ``body`` tells. One that is not known may have begun."""
        made = self._queued.pop(threading.get_ident(), None)
        if made is None:
            self._recorder.began(body)
        else:
            made.body = body

    def run(self, body: Body | None, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Call one, in a thread of the driver."""
        if body is None:
            return function(*arguments)
        self._wait()
        self._recorder.began(body)
        thread = threading.get_ident()
        self._running[thread] = body
        try:
            return function(*arguments)
        finally:
            del self._running[thread]

    def running(self) -> Body | None:
        """That of the function in which this thread is."""
        return self._running.get(threading.get_ident()) if self._running else None

    def _wait(self) -> None:
        if self._late < _LATE_AT_ALL_S + _SHARE * (time.monotonic() - self._start):
            self._late += _LATE_S
            time.sleep(_LATE_S)


def _is_over(function: Late) -> bool:
    return function.ended is not None and time.monotonic() - function.ended > _RETURNED_S
