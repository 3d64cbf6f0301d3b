"""Gates at the driver calls of a statement, and what is known of the calls of two statements.

The gate goes in front of the first work that a statement queues on each of its streams, when all is
compiled and loaded. It is opened when the later operation has been decided, or when a call of the program
has waited for a while: a host wait must end, as it does without a gate.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from streamlint.confirm.gpu.driver import DriverError
from streamlint.confirm.gpu.handles import current_streams, on_callback_thread
from streamlint.confirm.inside import calls, images
from streamlint.confirm.inside.activity import Activity
from streamlint.confirm.inside.cupti import Cupti
from streamlint.confirm.inside.order import Memory, operation

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Iterator
    from pathlib import Path

    from streamlint.confirm.gpu.driver import Driver
    from streamlint.confirm.gpu.gate import Gate
    from streamlint.confirm.inside.cupti import Call
    from streamlint.confirm.inside.order import Operation

LONGEST_S: Final = 10.0
"""A gate that nobody opens ends by itself."""

_MOST_POLLS: Final = 100
"""``while not event.query()`` waits, too."""

_TICK_S: Final = 0.01
_LEGACY: Final = 1


@dataclass(slots=True)
class Statement:
    """What a statement has queued while it ran on this thread."""

    thread: int
    earlier: bool
    records: bool = False
    """Whether the record of an event is work to hold back, too."""
    streams: dict[int, None] = field(default_factory=dict)
    ends: list[ctypes.c_void_p] = field(default_factory=list)
    """Events behind what a later statement has queued."""
    operations: list[Operation] = field(default_factory=list)
    unseen: int = 0
    """Captured work, which runs at another time."""
    calls: list[int] = field(default_factory=list)
    """The numbers of those that queued work."""
    host: list[int] = field(default_factory=list)
    """When the statement began and ended on the host, where that is measured."""

    def concerns(self, thread: int) -> bool:
        """Also of threads that Python did not start: a backward pass runs on one of PyTorch's."""
        return thread == self.thread or (_is_foreign(thread) and not on_callback_thread())


def _is_foreign(thread: int) -> bool:
    known = threading._active.get(thread)  # type: ignore[attr-defined]
    return known is None or isinstance(known, threading._DummyThread)


class Lookout:
    """Sees the driver calls of this process; one earlier and one later statement at a time."""

    def __init__(self, driver: Driver, gate: Gate, patience_s: float) -> None:
        """``patience_s``: how long a call of the program may wait for a gate.

        :raises CuptiUnavailableError: driver calls cannot be seen.
        """
        self._driver = driver
        self._gate = gate
        self._patience_s = patience_s
        self._earlier: Statement | None = None
        self._later: Statement | None = None
        self._since: dict[int, tuple[str, float]] = {}
        self._polls = 0
        self._shelf: images.Shelf | None = None
        self._keeping: tuple[Path, list[tuple[int, int]]] | None = None
        self._quiet: set[int] = set()
        self._closed = False
        self.opened_by = ""
        """The call that waited for a gate until it was opened."""
        self.memory: Memory | None = None
        """Where the order of two operations is to be tried out: what was there before."""
        self.activity: Activity | None = None
        self._cupti = Cupti(calls.SEEN, self._on_call)

    def close(self) -> None:
        self._cupti.close()

    def measure(self) -> None:
        """Have the device tell when it does what."""
        self.activity = Activity(self._cupti.library)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """What this thread asks of the driver is not the program's."""
        thread = threading.get_ident()
        outermost = thread not in self._quiet
        self._quiet.add(thread)
        try:
            yield
        finally:
            if outermost:
                self._quiet.discard(thread)

    # ------------------------------------------------------------------ statements

    def begin_earlier(self, *, records: bool) -> None:
        """From here on the work of this thread is held back."""
        self._earlier = Statement(threading.get_ident(), earlier=True, records=records)
        self._time(self._earlier)

    def end_earlier(self) -> Statement | None:
        ended, self._earlier = self._earlier, None
        self._time(ended)
        return ended

    def begin_later(self) -> None:
        self._later = Statement(threading.get_ident(), earlier=False)
        self._time(self._later)

    def end_later(self) -> Statement | None:
        ended, self._later = self._later, None
        self._time(ended)
        return ended

    def _time(self, statement: Statement | None) -> None:
        if self.activity is not None and statement is not None:
            statement.host.append(self.activity.now())

    def keep_images(self, folder: Path, turns: list[tuple[int, int]]) -> None:
        """Write down which modules are loaded, for these turns; the list may change."""
        self._keeping = folder, turns

    def load_images(self, folder: Path, finding: int, turn: int) -> None:
        """Load what the turn will ask for."""
        self._shelf = images.Shelf(self._driver, folder, finding, turn)

    def open(self) -> None:
        self._closed = False
        self._gate.release()

    # ------------------------------------------------------------------ calls

    def _on_call(self, call: Call) -> None:
        thread = threading.get_ident()
        if thread in self._quiet:
            return
        if self._shelf is not None:
            self._shelf.answer(call, thread)
        if call.entering:
            if self._keeping is not None and calls.LOADS.match(call.name):
                images.keep(call, *self._keeping)
            self._entering(call, thread)
            if self._closed:
                self._since[thread] = call.name, time.monotonic()
        else:
            self._since.pop(thread, None)
            self._left(call, thread)

    def _entering(self, call: Call, thread: int) -> None:
        is_work = calls.WORK.match(call.name) is not None
        if self._closed and call.name.endswith("Query"):
            self._polls += 1
            if self._polls > _MOST_POLLS:
                self._give_up(call.name)
        for statement in (self._earlier, self._later):
            if statement is None or not statement.concerns(thread):
                continue
            if is_work or (statement.records and calls.RECORDS.match(call.name)):
                self._queues(statement, call)

    def _queues(self, statement: Statement, call: Call) -> None:
        work = calls.queued(call)
        statement.calls.append(call.correlation)
        streams = current_streams() if work.stream is None else [0 if work.stream == _LEGACY else work.stream]
        if any(self._driver.is_capturing(stream) for stream in streams):
            statement.unseen += 1
            return
        if self.memory is not None:
            with _unless_refused():
                if statement.earlier and not statement.streams:
                    # All before it is done: a schedule of a host that is slow.
                    self._driver.synchronize()
                made = operation(call, work, self._driver)
                if made is not None:
                    self.memory.see(made)
                    statement.operations.append(made)
        for stream in streams:
            if statement.earlier and stream not in statement.streams:
                self._hold(stream)
            statement.streams[stream] = None

    def _hold(self, stream: int) -> None:
        self._gate.hold(stream)
        if not self._closed:
            self._closed = True
            threading.Thread(target=self._stand_by, name="streamlint", daemon=True).start()

    def _left(self, call: Call, thread: int) -> None:
        later = self._later
        if later is None or not self._closed or not later.concerns(thread) or not calls.WORK.match(call.name):
            return
        stream = calls.queued(call).stream
        if stream is not None and not self._driver.is_capturing(stream):
            later.ends.append(self._driver.record(stream))

    def _stand_by(self) -> None:
        """Open the gate for a call that has waited for long enough."""
        while self._closed:
            time.sleep(_TICK_S)
            now = time.monotonic()
            for name, since in list(self._since.values()):
                if now - since > self._patience_s and self._closed:
                    self._give_up(name)

    def _give_up(self, name: str) -> None:
        self.opened_by = name
        self.open()


@contextmanager
def _unless_refused() -> Iterator[None]:
    """What cannot be tried out is not."""
    try:
        yield
    except (DriverError, AttributeError):
        return
