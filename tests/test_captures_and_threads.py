"""SL508 on hand-written traces: what another thread may do while something is captured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint.judging.judge import judge
from streamlint.rules import sl508_capture_meets_thread as sl508
from streamlint.trace import BeginCapture, CaptureMode, EndCapture, LaneId, MonitorKind, StreamId
from tests.traces import Program

if TYPE_CHECKING:
    from collections.abc import Callable


class Threads(Program):
    """A thread that was started, and a capture of the main one."""

    def __init__(self) -> None:
        super().__init__()
        self.main, self.side = self.stream(), self.stream()
        self.thread = self.new_lane()

    def capture(self, mode: CaptureMode = CaptureMode.GLOBAL) -> None:
        self.add(BeginCapture(self._at(), stream=self.main, mode=mode))
        self.launch(self.main)
        self.add(EndCapture(self._at(), stream=self.main))

    @property
    def found(self) -> int:
        return len(list(sl508.check(judge(self.trace()))))


CALLS: dict[str, Callable[[Threads, StreamId, LaneId], object]] = {
    "a stream": lambda p, stream, lane: p.sync_stream(stream, lane),
    "the device": lambda p, _, lane: p.sync_device(lane=lane),
}


@pytest.mark.parametrize("mode", CaptureMode)
@pytest.mark.parametrize("waited_for", CALLS)
def test_what_no_thread_may_do(waited_for: str, mode: CaptureMode) -> None:
    p = Threads()
    p.spawn(p.thread)
    CALLS[waited_for](p, p.side, p.thread)
    p.capture(mode)
    forbidden = mode is CaptureMode.GLOBAL or waited_for == "the device"
    assert p.found == forbidden


def test_a_thread_that_was_joined_or_starts_later_meets_nothing() -> None:
    p = Threads()
    p.spawn(p.thread)
    p.sync_stream(p.side, p.thread)
    p.join(p.thread)
    p.capture()
    later = p.new_lane()
    p.spawn(later)
    p.sync_stream(p.side, later)
    assert not p.found


def test_the_main_thread_meets_the_capture_of_another_one() -> None:
    p = Threads()
    p.spawn(p.thread)
    p.add(BeginCapture(p._at(), p.thread, stream=p.main))
    p.add(EndCapture(p._at(), p.thread, stream=p.main))
    p.sync_stream(p.side)
    assert p.found == 1


def test_a_queue_between_them() -> None:
    p = Threads()
    done = p.monitor(MonitorKind.QUEUE)
    p.spawn(p.thread)
    p.sync_stream(p.side, p.thread)
    p.host_signal(done, p.thread)
    p.host_wait(done)
    p.capture()
    assert not p.found


def test_one_lock_around_both() -> None:
    for other in (False, True):
        p = Threads()
        lock = p.monitor(MonitorKind.LOCK)
        held = p.monitor(MonitorKind.LOCK) if other else lock
        p.spawn(p.thread)
        p.host_wait(held, p.thread)
        p.sync_stream(p.side, p.thread)
        p.host_signal(held, p.thread)
        p.host_wait(lock)
        p.capture()
        p.host_signal(lock)
        assert p.found == other
