"""Signals that end a run early, and what it gives then."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from streamlint.finding import Report


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
def terminable() -> Iterator[None]:
    """Inside, SIGTERM raises ``Terminated`` where it would end the process; afterwards it does that again."""
    in_main = threading.current_thread() is threading.main_thread()  # others are never told of a signal
    if not in_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def signal_of(stop: KeyboardInterrupt) -> signal.Signals:
    cause = stop.cause if isinstance(stop, Stopped) else stop
    return signal.SIGTERM if isinstance(cause, Terminated) else signal.SIGINT


def _terminate(number: int, frame: object) -> None:
    del number, frame
    raise Terminated
