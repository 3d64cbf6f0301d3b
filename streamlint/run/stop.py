"""Signals that end a run early, and what it gives then."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from streamlint.finding import Report


PATIENCE = 1.0
"""Seconds in which further signals do nothing: a run that is stopped needs less to tell what it found."""


class Terminated(KeyboardInterrupt):
    """SIGTERM: it ends a run as Ctrl-C does, so that all code cleans up for both alike."""


class Stopped(KeyboardInterrupt):
    """An analysis was stopped; ``report`` is what the files of ``done`` gave."""

    def __init__(self, report: Report, done: frozenset[Path], cause: KeyboardInterrupt) -> None:
        super().__init__()
        self.report = report
        self.done = done
        self.cause = cause


@contextmanager
def stoppable() -> Iterator[None]:
    """Inside, SIGTERM raises ``Terminated`` where it would end the process, as Ctrl-C raises what it does.

    A second signal soon after the first does nothing: who presses Ctrl-C twice still gets what was found.
    Afterwards all is as before.
    """
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    in_main = threading.current_thread() is threading.main_thread()  # others are never told of a signal
    changed = {
        number: handler
        for number, handler in usual.items()
        if in_main and signal.getsignal(number) is handler
    }
    stop = _Stop()
    for number in changed:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in changed.items():
            signal.signal(number, handler)


class _Stop:
    """Tells of the first of several signals."""

    def __init__(self) -> None:
        self._deaf_until = 0.0

    def __call__(self, number: int, frame: object) -> None:
        del frame
        now = time.monotonic()
        if now < self._deaf_until:
            return
        self._deaf_until = now + PATIENCE
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


def signal_of(stop: KeyboardInterrupt) -> signal.Signals:
    cause = stop.cause if isinstance(stop, Stopped) else stop
    return signal.SIGTERM if isinstance(cause, Terminated) else signal.SIGINT
